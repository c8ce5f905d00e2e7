"""The custom resources that there are now, and how they come and go."""

import logging
from collections.abc import Iterable

from tinykube.server.custom.crd_definitions import CustomKind, kinds_of, resource_of, version_order
from tinykube.server.json_access import get_object, get_str
from tinykube.server.objects import GroupResource, JsonObject, StorageKey
from tinykube.server.registry.definition import Registry
from tinykube.server.storage.store import ObjectStorage

CRDS = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")

_LOG = logging.getLogger(__name__)


class CustomKinds:
    """Keeps the registry in step with the definitions that are stored. One for a server; empty before :meth:`attach`.

    A definition's change is in force when its write is answered: its resources are served, or gone, from then on.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._storage: ObjectStorage | None = None
        self._by_name: dict[str, tuple[CustomKind, ...]] = {}
        self._by_kind: dict[tuple[str, str, str], CustomKind] = {}
        self._collections: dict[str, GroupResource] = {}

    def attach(self, storage: ObjectStorage) -> None:
        """Begin with what is stored; before anything is read or listed."""
        self._storage = storage
        for stored in storage.heads_in(CRDS):
            self.refresh(stored.key.name)

    def refresh(self, name: str) -> None:
        """Serve what a definition says now; nothing where it is gone. Doing it again changes nothing."""
        storage = self._storage
        if storage is None:
            raise RuntimeError("custom resources need a storage first: attach one")
        stored = storage.head(StorageKey(CRDS, "", name))
        before = self._by_name.pop(name, ())
        for one in before:
            definition = one.definition
            self._registry.remove(definition.group, definition.version, definition.plural)
            self._by_kind.pop((definition.group, definition.version, definition.kind), None)
            self._by_kind.pop((definition.group, definition.version, one.list_kind), None)
        if stored is None:
            resource = self._collections.pop(name, None)
            group = resource.group if resource else ""
        else:
            crd = stored.decode()
            resource = self._collections[name] = resource_of(crd)
            group = resource.group
            try:
                self._by_name[name] = kinds_of(crd)
            except RecursionError:
                # From a data directory of a server that had no limits: the others are served all the same.
                _LOG.error("%s is not served: its schema is nested too deeply, make it flatter", name)
                self._by_name[name] = ()
        self._install(group)
        fields_before = {one.definition.field_names for one in before}
        if resource is not None and fields_before != {one.definition.field_names for one in self.of(name)}:
            storage.refresh_fields(resource)
        _LOG.debug(
            "custom resource definition noted", extra={"definition": name, "served": len(self.of(name))}
        )

    def _install(self, group: str) -> None:
        """Put all custom resources of a group into the registry, versions in the order of preference."""
        kinds = [one for found in self._by_name.values() for one in found if one.definition.group == group]
        kinds.sort(key=lambda one: (version_order(one.definition.version), one.definition.plural))
        for one in kinds:
            self._registry.remove(one.definition.group, one.definition.version, one.definition.plural)
        for one in kinds:
            definition = one.definition
            self._registry.add(definition)
            self._by_kind[definition.group, definition.version, definition.kind] = one

    def of(self, name: str) -> tuple[CustomKind, ...]:
        """Return what a definition has served."""
        return self._by_name.get(name, ())

    def find(self, group: str, version: str, kind: str) -> CustomKind | None:
        """Return a kind by its name."""
        return self._by_kind.get((group, version, kind))

    def find_list(self, group: str, version: str, kind: str) -> CustomKind | None:
        """Return the kind that a list is of, by the name of the list."""
        for one in self._by_kind.values():
            definition = one.definition
            if (definition.group, definition.version, one.list_kind) == (group, version, kind):
                return one
        return None

    def is_builtin(self, group: str, plural: str) -> bool:
        """Tell whether the server has a resource of this name by itself."""
        own = {one.definition.plural for found in self._by_name.values() for one in found}
        return any(
            one.group == group and one.plural == plural and plural not in own for one in self._registry.all()
        )

    def others(self, name: str, group: str) -> Iterable[JsonObject]:
        """Return the other definitions of a group, as they were accepted last."""
        if self._storage is None:
            return
        for stored in self._storage.heads_in(CRDS):
            if stored.key.name != name:
                crd = stored.decode()
                if get_str(get_object(crd, "spec"), "group") == group:
                    yield crd
