"""Partial decoding of objects: owner references, finalizers and deletion timestamp."""

import msgspec

from tinykube.server.objects import StorageKey
from tinykube.server.storage.model import StoredObject

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner of an object."""

    uid: str
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None


class _Document(msgspec.Struct, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Document)


class OwnershipInfo(msgspec.Struct, frozen=True, gc=False):
    """The fields of an object that garbage collection needs."""

    key: StorageKey
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str = ""

    @property
    def is_deleting(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.deletion_timestamp)

    @property
    def deletes_dependents(self) -> bool:
        """Whether it waits for the deletion of its dependents."""
        return self.is_deleting and FOREGROUND_FINALIZER in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it waits for its dependents to be orphaned."""
        return self.is_deleting and ORPHAN_FINALIZER in self.finalizers


def ownership_of(stored: StoredObject) -> OwnershipInfo:
    """Return the info of a stored object. Searching the bytes avoids decoding most objects."""
    encoded = stored.encoded
    if b'"ownerReferences"' not in encoded and b'"deletionTimestamp"' not in encoded:
        return OwnershipInfo(stored.key, stored.uid)
    try:
        metadata = _DECODER.decode(encoded).metadata
    except msgspec.ValidationError:
        # No verb accepts it, but an invalid stored object has no owners and is kept.
        return OwnershipInfo(stored.key, stored.uid)
    return OwnershipInfo(
        stored.key,
        stored.uid,
        metadata.owner_references or (),
        metadata.finalizers or (),
        metadata.deletion_timestamp or "",
    )
