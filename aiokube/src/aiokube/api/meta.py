"""Metadata that every Kubernetes object has: names, references, keys."""

from typing import NamedTuple, Protocol

import msgspec


class ObjectKey(NamedTuple):
    """The namespace (``""`` if cluster-scoped) and name that identify an object of one resource."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> "ObjectKey":
        """Read ``namespace/name`` or ``name``."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A reference to an object's owner, used by garbage collection."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A reference to an object, one of its fields, or one of its versions."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """All metadata except ``managedFields``.

    ``managedFields`` is omitted on purpose: it is often more than half of an object, and an update without
    it keeps the server's value (only the explicit ``[{}]`` resets it), so nothing is lost. ``None`` and an
    absent field are equivalent.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generate_name: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    self_link: str | None = None

    @property
    def key(self) -> ObjectKey:
        """The object's key."""
        return ObjectKey(self.namespace, self.name)


class _Skipped(msgspec.Struct, frozen=True, gc=False):
    """A value that is skipped without decoding."""


class StrictObjectMeta(ObjectMeta, frozen=True, rename="camel", gc=False, forbid_unknown_fields=True):
    """:class:`ObjectMeta` on the wire; refuses fields that :class:`ObjectMeta` does not have."""

    managed_fields: tuple[_Skipped, ...] | None = None

    def relaxed(self) -> ObjectMeta:
        """Return the same metadata as an :class:`ObjectMeta`."""
        return ObjectMeta(
            self.name,
            self.namespace,
            self.uid,
            self.resource_version,
            self.generate_name,
            self.generation,
            self.creation_timestamp,
            self.deletion_timestamp,
            self.deletion_grace_period_seconds,
            self.labels,
            self.annotations,
            self.owner_references,
            self.finalizers,
            self.self_link,
        )


class NarrowMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Metadata of a read-only object: its identity and version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        """The object's key."""
        return ObjectKey(self.namespace, self.name)


class ListMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Metadata of one page of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class Identified(Protocol):
    """The metadata fields that a cache needs."""

    @property
    def name(self) -> str:
        """The name, unique in its namespace at any one time."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace, ``""`` for cluster-scoped objects."""
        ...

    @property
    def uid(self) -> str:
        """The UID, unique over all time."""
        ...

    @property
    def resource_version(self) -> str:
        """The resource version: a decimal number that grows with every write to the resource."""
        ...


class KubernetesObject(Protocol):
    """Any object that a cache can hold: a frozen value with metadata."""

    @property
    def metadata(self) -> Identified:
        """The object's identity and version."""
        ...


def key_of(item: KubernetesObject) -> ObjectKey:
    """Return the key of any object."""
    metadata = item.metadata
    return ObjectKey(metadata.namespace, metadata.name)


def version_number(resource_version: str | None) -> int:
    """Return a resource version as a number, 0 if it is absent or not decimal.

    Kubernetes promises decimal, growing versions that compare within one resource.
    """
    if resource_version and resource_version.isdecimal():
        return int(resource_version)
    return 0
