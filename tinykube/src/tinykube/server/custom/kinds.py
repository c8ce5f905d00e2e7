"""The registered custom resources, and their registration and removal."""

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
    """Keeps the registry in sync with the stored definitions. One per server; empty before :meth:`attach`.

    A change of a definition is in effect when its write returns: its resources are served, or removed, from
    then on.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._storage: ObjectStorage | None = None
        self._by_name: dict[str, tuple[CustomKind, ...]] = {}
        self._by_kind: dict[tuple[str, str, str], CustomKind] = {}
        self._collections: dict[str, GroupResource] = {}

    def attach(self, storage: ObjectStorage) -> None:
        """Register all stored definitions; call this before the server handles requests."""
        self._storage = storage
        for stored in storage.heads_in(CRDS):
            self.refresh(stored.key.name)

    def refresh(self, name: str) -> None:
        """Register the current state of a definition, or remove a deleted one. Idempotent."""
        storage = self._storage
        if storage is None:
            raise RuntimeError("custom resources need a storage: call attach() first")
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
                # From a data directory written without limits: all other definitions are served.
                _LOG.error("%s is not served: its schema is nested too deeply; flatten it", name)
                self._by_name[name] = ()
        self._install(group)
        fields_before = {one.definition.field_names for one in before}
        if resource is not None and fields_before != {one.definition.field_names for one in self.of(name)}:
            storage.refresh_fields(resource)
        _LOG.debug(
            "custom resource definition registered", extra={"definition": name, "served": len(self.of(name))}
        )

    def _install(self, group: str) -> None:
        """Register all custom resources of a group, versions in the order of preference."""
        kinds = [one for found in self._by_name.values() for one in found if one.definition.group == group]
        kinds.sort(key=lambda one: (version_order(one.definition.version), one.definition.plural))
        for one in kinds:
            self._registry.remove(one.definition.group, one.definition.version, one.definition.plural)
        for one in kinds:
            definition = one.definition
            self._registry.add(definition)
            self._by_kind[definition.group, definition.version, definition.kind] = one

    def of(self, name: str) -> tuple[CustomKind, ...]:
        """Return the served versions of a definition."""
        return self._by_name.get(name, ())

    def find(self, group: str, version: str, kind: str) -> CustomKind | None:
        """Return a kind by name."""
        return self._by_kind.get((group, version, kind))

    def find_list(self, group: str, version: str, kind: str) -> CustomKind | None:
        """Return the item kind of a list kind."""
        for one in self._by_kind.values():
            definition = one.definition
            if (definition.group, definition.version, one.list_kind) == (group, version, kind):
                return one
        return None

    def is_builtin(self, group: str, plural: str) -> bool:
        """Return whether the server has a built-in resource of this name."""
        own = {one.definition.plural for found in self._by_name.values() for one in found}
        return any(
            one.group == group and one.plural == plural and plural not in own for one in self._registry.all()
        )

    def others(self, name: str, group: str) -> Iterable[JsonObject]:
        """Return the other definitions of a group in their last accepted state."""
        if self._storage is None:
            return
        for stored in self._storage.heads_in(CRDS):
            if stored.key.name != name:
                crd = stored.decode()
                if get_str(get_object(crd, "spec"), "group") == group:
                    yield crd
