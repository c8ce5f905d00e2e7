"""The description of a resource, and the hooks for its own rules.

Each resource is one :class:`Definition` in one module: names, a :class:`Strategy`, selectable fields,
columns, subresources. All other code (verbs, watch, discovery, tables) is generic and reads the definition.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from aiokube.clock import Clock
from tinykube.server.errors import FieldError
from tinykube.server.fields.kinds import CustomTypes
from tinykube.server.objects import GroupResource, JsonObject
from tinykube.server.registry.names import dns_subdomain_problem
from tinykube.server.storage.model import Storage

Verb = Literal["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
ALL_VERBS: tuple[Verb, ...] = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class UserInfo(msgspec.Struct, frozen=True):
    """An authenticated user, as reviews and admission describe one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def to_document(self) -> JsonObject:
        """Return the UserInfo of a review."""
        document: JsonObject = {"username": self.name}
        if self.uid:
            document["uid"] = self.uid
        if self.groups:
            document["groups"] = list(self.groups)
        if self.extra:
            document["extra"] = {key: list(values) for key, values in self.extra.items()}
        return document


MAX_WARNINGS = 100
"""The maximum number of ``Warning`` headers of a response: a body may cause a million."""


class Request(msgspec.Struct, kw_only=True):
    """The context of one write for a resource's strategy.

    Hooks that allocate (a cluster IP) append the release to ``on_failure``, which is called if the write does
    not happen, as in dry runs. ``on_commit`` is called after the write is durable.
    """

    storage: Storage
    clock: Clock
    rng: random.Random
    user: UserInfo
    user_agent: str
    dry_run: bool
    body_bytes: int = 0
    """The size of the request body."""
    warnings: list[str] = []
    on_failure: list[Callable[[], None]] = []
    on_commit: list[Callable[[], None]] = []

    def warn(self, text: str) -> None:
        """Send the client a ``Warning`` header; duplicates are dropped."""
        if len(self.warnings) < MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Strategy:
    """The rules of one resource; the default implementations are for a kind without rules.

    Documents have been defaulted, pruned and type-checked by the schema, and their metadata (name, namespace,
    uid, creationTimestamp) is valid; hooks change them in place. Order: ``prepare_for_create`` ->
    ``validate``; ``prepare_for_update`` -> ``validate`` -> ``validate_update``. All errors are collected, in
    kube-apiserver's order if clients can observe it.
    """

    plain_finalizers: ClassVar[bool] = False
    """Whether unqualified finalizers are allowed with a warning (custom resources)."""

    def default(self, obj: JsonObject) -> None:
        """Set defaults that depend on other fields (the schema sets static defaults). Also runs on every update."""

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        """Prepare a new object: drop its status, set its generation, allocate addresses and ports."""

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Prepare an update: keep the old status, increment the generation, inherit allocated values."""

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Prepare a status update: restore everything except the status."""

    def validate_name(self, name: str) -> str:
        """Return the error of a name, or ``""``; by default, names are DNS subdomains."""
        return dns_subdomain_problem(name)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        """Return the errors of an object."""
        return ()

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        """Return the errors of an update (immutable fields)."""
        return ()

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        """Return the warnings of a write (deprecations)."""
        return ()

    def grace_period_seconds(self, obj: JsonObject, asked: int | None) -> int:
        """Return the grace period of a deletion; 0 deletes immediately. Overridden for pods."""
        return 0

    def check_delete(self, request: Request, obj: JsonObject) -> None:
        """Raise a :class:`~tinykube.server.errors.StatusError` to reject a deletion."""

    def mark_deleted(self, request: Request, obj: JsonObject) -> None:
        """Change an object that has just got its deletionTimestamp and remains for now (a namespace's phase)."""

    def is_held(self, obj: JsonObject) -> bool:
        """Return whether anything except metadata.finalizers holds a deleted object (a namespace's spec.finalizers)."""
        return False

    def after_create(self, request: Request, obj: JsonObject) -> None:
        """Record an accepted write; also called for each stored object at start-up."""

    def after_delete(self, request: Request, obj: JsonObject) -> None:
        """Release the object's allocations; called once the removal is durable."""


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """A subresource of an object: ``status``, ``scale``, ``binding``, ``eviction``, ``finalize``."""

    name: str
    verbs: tuple[Verb, ...]
    group: str = ""
    version: str = ""
    kind: str
    handler: "SubresourceHandler | None" = None
    """The implementation; ``None`` for ``status``, which is the same for all kinds."""
    before: Callable[[JsonObject], JsonObject] | None = None
    """Returns the document that a patch starts from, if it is not the response to a GET."""
    answers_only: bool = False
    """Whether writes only return a response: nothing is stored, and the handler checks the name in the body."""
    columns: "tuple[Column, ...]" = ()
    """The table columns if a GET does not return the object itself; without any, there is no table."""


class SubresourceHandler(Protocol):
    """How a subresource applies a body; the verbs read and write the object."""

    def read(self, obj: JsonObject) -> JsonObject:
        """Return the response to a GET."""
        ...

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Change ``obj``, the caller's copy of the stored object, in place; return the response.

        Raises :class:`~tinykube.server.errors.StatusError` to reject the write.
        """
        ...


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of kubectl's table. ``cell`` gets the object and the current time (for ages)."""

    name: str
    cell: "Callable[[JsonObject, float], str | int]"
    """Gets the object and the wall clock in seconds since 1970; returns the cell's text."""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """1: shown only by ``-o wide``."""


class View(Protocol):
    """The representation of a stored object in another group (events.k8s.io for core events)."""

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Convert to the stored form."""
        ...

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Convert to this group's form."""
        ...


def _no_fields(obj: JsonObject) -> Mapping[str, str]:
    return {}


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """The complete description of one resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    strategy: Strategy
    list_kind: str = ""
    """The kind of its lists, if not its kind with ``List`` appended."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[Verb, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = ()
    fields: Callable[[JsonObject], Mapping[str, str]] = _no_fields
    """The values of the selectable fields other than metadata.name and metadata.namespace."""
    field_names: tuple[str, ...] = ()
    """Their paths; field selectors on other paths are rejected."""
    typed_items: bool = False
    """Whether list items have kind and apiVersion (custom resources)."""
    creates_on_update: bool = False
    """Whether a PUT to an unused name creates the object (Service, Endpoints, Event, Lease)."""
    allows_unconditional_update: bool = True
    """Whether a PUT without a resource version is allowed (not for Lease and custom resources)."""
    returns_object_on_delete: bool = False
    """Whether DELETE returns the object (Pod, Service, Namespace, ServiceAccount) or a Status."""
    graceful: bool = False
    """Whether deletion is graceful (Pod)."""
    stored_as: GroupResource | None = None
    """The collection it is stored in, if not its own; requires ``view``."""
    view: View | None = None
    types: CustomTypes | None = None
    """The field types of custom resources, for field ownership; the server has those of built-in kinds."""
    answers: Callable[[Request, JsonObject], JsonObject] | None = None
    """Computes the response to a create if nothing is stored (reviews); else ``None``."""
    lifetime_seconds: float | None = None
    """The age at which an object is removed (events)."""
    deprecation: str = ""
    """The ``Warning`` sent with every request."""

    @property
    def resource(self) -> GroupResource:
        """The collection, as named in errors and discovery."""
        return GroupResource(self.group, self.plural)

    @property
    def storage_resource(self) -> GroupResource:
        """The collection that stores its objects."""
        return self.stored_as or self.resource

    @property
    def listed_kind(self) -> str:
        """The kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def api_version(self) -> str:
        """``v1``, ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def field_values(self, obj: JsonObject) -> dict[str, str]:
        """Return the values of all selectable fields."""
        metadata: dict[str, Any] = obj.get("metadata") or {}
        values = {
            "metadata.name": metadata.get("name", ""),
            "metadata.namespace": metadata.get("namespace", ""),
        }
        values.update(self.fields(obj))
        return values


class Registry:
    """All resources of a server. Custom resources are added and removed while it runs."""

    def __init__(self, definitions: Sequence[Definition] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], Definition] = {}
        self._revision = 0
        self._stored_at: dict[GroupResource, Definition] = {}
        self._stored_revision = -1
        for definition in definitions:
            self.add(definition)

    @property
    def revision(self) -> int:
        """Increases with every change: derived data (discovery) must then be recomputed."""
        return self._revision

    def add(self, definition: Definition) -> None:
        """Add or replace a resource."""
        self._by_path[definition.group, definition.version, definition.plural] = definition
        self._revision += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Remove a resource; no-op if it is absent."""
        if self._by_path.pop((group, version, plural), None) is not None:
            self._revision += 1

    def get(self, group: str, version: str, plural: str) -> Definition | None:
        """Return the resource of a path."""
        return self._by_path.get((group, version, plural))

    def all(self) -> Sequence[Definition]:
        """Return all resources in the order of their addition."""
        return tuple(self._by_path.values())

    def versions(self) -> Mapping[str, Sequence[str]]:
        """Return the versions of each group in the order of their addition."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            if version not in found.setdefault(group, []):
                found[group].append(version)
        return found

    def stored_at(self, key_resource: GroupResource) -> Definition | None:
        """Return the definition that owns this storage collection."""
        if self._stored_revision != self._revision:
            self._stored_revision = self._revision
            self._stored_at = {}
            for definition in self._by_path.values():
                if definition.stored_as is None:
                    self._stored_at.setdefault(definition.storage_resource, definition)
        return self._stored_at.get(key_resource)

    def describe(self, resource: GroupResource, obj: JsonObject) -> Mapping[str, str]:
        """Return the field values of a stored object: the storage's ``Describe`` callback."""
        definition = self.stored_at(resource)
        return definition.field_values(obj) if definition is not None else {}


__all__ = [
    "ALL_VERBS",
    "Column",
    "Definition",
    "Registry",
    "Request",
    "Strategy",
    "Subresource",
    "UserInfo",
    "View",
]
