"""What the server has to know of a resource, and the hooks where its own rules live.

A resource is one :class:`Definition` in one module: names, a :class:`Strategy`, selectable fields, columns,
subresources. Everything else (verbs, watch, discovery, tables) is the same for all and reads it from here.
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
"""How many ``Warning`` headers an answer has: a body may give cause for a million."""


class Request(msgspec.Struct, kw_only=True):
    """What the rules of a resource may look at, and say, while one write is decided.

    Hooks that take something out of a pool (a cluster IP) append its return to ``on_failure``: it is called where the
    write does not happen, dry runs included. ``on_commit`` is called after the write is durable.
    """

    storage: Storage
    clock: Clock
    rng: random.Random
    user: UserInfo
    user_agent: str
    dry_run: bool
    body_bytes: int = 0
    """The size of what the client sent."""
    warnings: list[str] = []
    on_failure: list[Callable[[], None]] = []
    on_commit: list[Callable[[], None]] = []

    def warn(self, text: str) -> None:
        """Send the client a ``Warning`` header, once."""
        if len(self.warnings) < MAX_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Strategy:
    """The rules of one resource; the defaults are those of a kind that has none.

    Documents are handed in defaulted, pruned and type-checked by the schema, with metadata already sound (name,
    namespace, uid, creationTimestamp); hooks change them in place. Order: ``prepare_for_create`` -> ``validate`` ;
    ``prepare_for_update`` -> ``validate`` -> ``validate_update``. Errors are collected, all of them, in the order of the
    real server's wherever a client could tell.
    """

    plain_finalizers: ClassVar[bool] = False
    """Whether finalizers need not say whose they are (custom resources: a warning, no refusal)."""

    def default(self, obj: JsonObject) -> None:
        """Fill in what depends on other fields (the fixed defaults are the schema's). Also run on every update."""

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        """Make a new object ready: drop its status, set its generation, take from pools."""

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Make an update ready: keep the old status, bump the generation, inherit what was allocated."""

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Make an update of the status ready: everything but the status stays the old one's."""

    def validate_name(self, name: str) -> str:
        """Return what is wrong with a name, ``""`` where nothing is; DNS subdomain unless overridden."""
        return dns_subdomain_problem(name)

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        """Return what is wrong with an object in itself."""
        return ()

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        """Return what is wrong with the step from the old to the new (fields that must not change)."""
        return ()

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        """Return what the client is to be warned of on a write (deprecations)."""
        return ()

    def grace_period_seconds(self, obj: JsonObject, asked: int | None) -> int:
        """Return for how long a deletion leaves the object standing; 0 deletes at once. Pods differ."""
        return 0

    def check_delete(self, request: Request, obj: JsonObject) -> None:
        """Refuse a deletion by raising a :class:`~tinykube.server.errors.StatusError`."""

    def mark_deleted(self, request: Request, obj: JsonObject) -> None:
        """Change an object in place that has just got its deletionTimestamp and stays for now (a namespace's phase)."""

    def is_held(self, obj: JsonObject) -> bool:
        """Tell whether something beside metadata.finalizers keeps a deleted object (a namespace's spec.finalizers)."""
        return False

    def after_create(self, request: Request, obj: JsonObject) -> None:
        """Note what the storage now holds (called once the write is accepted, and for each object at start-up)."""

    def after_delete(self, request: Request, obj: JsonObject) -> None:
        """Give back what the object held (called once the removal is durable)."""


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """A subresource of an object: ``status``, ``scale``, ``binding``, ``eviction``, ``finalize``."""

    name: str
    verbs: tuple[Verb, ...]
    group: str = ""
    version: str = ""
    kind: str
    handler: "SubresourceHandler | None" = None
    """What it does; ``None`` for ``status``, which is the same for all kinds."""
    before: Callable[[JsonObject], JsonObject] | None = None
    """What a patch of it begins with, where that is not what a GET answers."""
    answers_only: bool = False
    """Whether a write is only answered: nothing is stored, and the handler checks the name in the body."""
    columns: "tuple[Column, ...]" = ()
    """Of its table, where a GET does not answer with the object itself; without any, there is no table of it."""


class SubresourceHandler(Protocol):
    """What a subresource makes of a body; reading and writing the object is the verbs' business."""

    def read(self, obj: JsonObject) -> JsonObject:
        """Return what a GET answers."""
        ...

    def write(self, request: Request, obj: JsonObject, body: JsonObject) -> JsonObject:
        """Change ``obj`` in place (it is the caller's copy of the stored one); return what the client gets.

        Raises :class:`~tinykube.server.errors.StatusError` to refuse.
        """
        ...


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the table kubectl prints. ``cell`` gets the object and the present (for ages)."""

    name: str
    cell: "Callable[[JsonObject, float], str | int]"
    """Gets the object and the wall clock in seconds since 1970; returns what is printed."""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """1: only with ``-o wide``."""


class View(Protocol):
    """Another group's form of the same stored object (events.k8s.io of core's events)."""

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Return the stored form."""
        ...

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Return this group's form."""
        ...


def _no_fields(obj: JsonObject) -> Mapping[str, str]:
    return {}


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version, whole."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    strategy: Strategy
    list_kind: str = ""
    """What a list of it is called, if not its kind and ``List``."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[Verb, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = ()
    fields: Callable[[JsonObject], Mapping[str, str]] = _no_fields
    """Values of the selectable fields beside metadata.name and metadata.namespace."""
    field_names: tuple[str, ...] = ()
    """Their paths: asking for any other is refused."""
    typed_items: bool = False
    """Whether the items of a list bear kind and apiVersion (custom resources)."""
    creates_on_update: bool = False
    """Whether a PUT to a name that is free creates (Service, Endpoints, Event, Lease)."""
    allows_unconditional_update: bool = True
    """Whether a PUT without a resource version goes through (all but Lease and custom resources)."""
    returns_object_on_delete: bool = False
    """Whether DELETE answers with the object (Pod, Service, Namespace, ServiceAccount) or with a Status."""
    graceful: bool = False
    """Whether deletion is graceful (Pod)."""
    stored_as: GroupResource | None = None
    """Where it is kept, if not under its own name; with ``view``."""
    view: View | None = None
    types: CustomTypes | None = None
    """How the parts of its objects are owned, where the types of the server do not say (custom resources)."""
    answers: Callable[[Request, JsonObject], JsonObject] | None = None
    """What a create answers with where nothing is stored (reviews); ``None`` for all others."""
    lifetime_seconds: float | None = None
    """After which an object is removed (events)."""
    deprecation: str = ""
    """The ``Warning`` of every request."""

    @property
    def resource(self) -> GroupResource:
        """The collection, as errors and discovery name it."""
        return GroupResource(self.group, self.plural)

    @property
    def storage_resource(self) -> GroupResource:
        """The collection its objects are kept in."""
        return self.stored_as or self.resource

    @property
    def listed_kind(self) -> str:
        """The kind of a list of it."""
        return self.list_kind or f"{self.kind}List"

    @property
    def api_version(self) -> str:
        """``v1``, ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def field_values(self, obj: JsonObject) -> dict[str, str]:
        """Return all that a field selector may ask for."""
        metadata: dict[str, Any] = obj.get("metadata") or {}
        values = {
            "metadata.name": metadata.get("name", ""),
            "metadata.namespace": metadata.get("namespace", ""),
        }
        values.update(self.fields(obj))
        return values


class Registry:
    """All resources a server has. Custom resources come and go while it runs."""

    def __init__(self, definitions: Sequence[Definition] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], Definition] = {}
        self._revision = 0
        for definition in definitions:
            self.add(definition)

    @property
    def revision(self) -> int:
        """Grows with every addition and removal: what was derived from it (discovery) is derived again."""
        return self._revision

    def add(self, definition: Definition) -> None:
        """Add a resource, or put another in its place."""
        self._by_path[definition.group, definition.version, definition.plural] = definition
        self._revision += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Take a resource away; what is not there stays away."""
        if self._by_path.pop((group, version, plural), None) is not None:
            self._revision += 1

    def get(self, group: str, version: str, plural: str) -> Definition | None:
        """Return the resource of a path."""
        return self._by_path.get((group, version, plural))

    def all(self) -> Sequence[Definition]:
        """Return all of them, in the order they were added."""
        return tuple(self._by_path.values())

    def versions(self) -> Mapping[str, Sequence[str]]:
        """Return the versions of each group, in the order they were added."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            if version not in found.setdefault(group, []):
                found[group].append(version)
        return found

    def stored_at(self, key_resource: GroupResource) -> Definition | None:
        """Return the definition whose own storage this collection is."""
        for definition in self._by_path.values():
            if definition.storage_resource == key_resource and definition.stored_as is None:
                return definition
        return None

    def describe(self, resource: GroupResource, obj: JsonObject) -> Mapping[str, str]:
        """Return the field values of a stored object: what the storage is given as ``Describe``."""
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
