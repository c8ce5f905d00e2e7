"""The objects, versions and events of one resource of a fake server."""

import bisect
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.resource import WatchEvent
from aiokube.client.errors import AlreadyExistsError, NotFoundError
from aiokube.testing.api_errors import failure_status

T = TypeVar("T", bound=KubernetesObject)

FIRST_VERSION = 100
DELETED_AT = "2026-01-01T00:00:00Z"


class Backup(Generic[T]):
    """A backup of a source's whole state at one moment."""

    def __init__(self, objects: dict[ObjectKey, T], version: int) -> None:
        self.objects = objects
        self.version = version


class FakeHistory(Generic[T]):
    """Objects and their events; versions increase by one with every write.

    Finalizers delay deletion, as on a server. Subclasses are notified of changes by :meth:`changed`.
    """

    def __init__(self, *, first_version: int = FIRST_VERSION) -> None:
        self._version = first_version
        self._objects: dict[ObjectKey, T] = {}
        self._versions: list[int] = []  # of _events, ascending
        self._events: list[WatchEvent[T]] = []
        self._compacted = 0
        self._held: Backup[T] | None = None
        self._uids = 0

    @property
    def version(self) -> int:
        """The version of the newest write."""
        return self._version

    @property
    def compacted(self) -> int:
        """The version below which history is compacted."""
        return self._compacted

    @property
    def objects(self) -> dict[ObjectKey, T]:
        """The current objects."""
        return dict(self._objects)

    def changed(self) -> None:
        """React to a change: watches may have new events."""

    @property
    def view_version(self) -> int:
        """The version of reads that do not request the newest: the current one, unless held back."""
        return self._held.version if self._held is not None else self._version

    def view(self) -> Backup[T]:
        """Return the state for reads that do not request the newest: current, or as of :meth:`hold`."""
        return self._held if self._held is not None else self.backup()

    def events_after(self, version: int) -> tuple[list[WatchEvent[T]], int]:
        """Return the events after a version, up to :meth:`view`, and the version of the last one."""
        first = bisect.bisect_right(self._versions, version)
        last = bisect.bisect_right(self._versions, self.view_version)
        if last <= first:
            return [], version
        return self._events[first:last], self._versions[last - 1]

    # --------------------------------------------------------------------------------------------------
    # writes

    def create(self, item: T, *, silently: bool = False) -> T:
        """Store a new object and return it with its version, and a generated uid by default.

        Raises AlreadyExistsError. ``silently`` omits the event from watches, here and below.
        """
        key = key_of(item)
        if key in self._objects:
            raise AlreadyExistsError(failure_status(409, "AlreadyExists", f"{key} already exists"))
        self._uids += 1
        return self._write("ADDED", item, item.metadata.uid or f"uid-{self._uids}", silently)

    def modify(self, item: T, *, silently: bool = False) -> T:
        """Replace the object with this key, keeping its uid. Raises NotFoundError."""
        stored = self._find(key_of(item))
        return self._write("MODIFIED", item, stored.metadata.uid, silently)

    def delete(self, key: ObjectKey, *, silently: bool = False) -> T:
        """Delete an object and return its last state; one with finalizers becomes terminating.

        Raises NotFoundError.
        """
        stored = self._find(key)
        metadata: Any = stored.metadata
        if getattr(metadata, "finalizers", None):
            if metadata.deletion_timestamp:
                return stored
            return self._write(
                "MODIFIED", _with(stored, deletion_timestamp=DELETED_AT), metadata.uid, silently
            )
        return self._write("DELETED", stored, metadata.uid, silently)

    def finish(self, key: ObjectKey) -> T:
        """Remove the finalizers, which deletes a terminating object."""
        stored = self._find(key)
        metadata: Any = stored.metadata
        kind: Literal["MODIFIED", "DELETED"] = "DELETED" if metadata.deletion_timestamp else "MODIFIED"
        return self._write(kind, _with(stored, finalizers=None), metadata.uid, silently=False)

    def pass_versions(self, count: int) -> None:
        """Advance the version, as writes to other resources do."""
        self._version += count

    # -------------------------------------------------------------------------------------------------
    # history

    def compact(self) -> None:
        """Compact the history: no watch can start, and no list continue, from an earlier version."""
        self._compacted = self._version

    def hold(self) -> None:
        """Start to lag: watches, and lists that do not request the newest, stay at the current version."""
        self._held = self.backup()

    def release(self) -> None:
        """Stop lagging."""
        self._held = None
        self.changed()

    def backup(self) -> Backup[T]:
        """Return the whole state, for :meth:`restore`."""
        return Backup(dict(self._objects), self._version)

    def restore(self, backup: Backup[T]) -> None:
        """Restore a backup, as of a database: later writes are lost."""
        self._objects = dict(backup.objects)
        self._version = backup.version
        keep = bisect.bisect_right(self._versions, backup.version)
        del self._versions[keep:], self._events[keep:]
        self._compacted = min(self._compacted, backup.version)
        self._held = None
        self.changed()

    # -----------------------------------------------------------------------------------------------
    # internals

    def _find(self, key: ObjectKey) -> T:
        if key not in self._objects:
            raise NotFoundError(failure_status(404, "NotFound", f"{key} not found"))
        return self._objects[key]

    def _write(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], item: T, uid: str, silently: bool) -> T:
        self._version += 1
        written = _with(item, uid=uid, resource_version=str(self._version))
        if kind == "DELETED":
            del self._objects[key_of(item)]
        else:
            self._objects[key_of(item)] = written
        if not silently:
            self._versions.append(self._version)
            self._events.append(WatchEvent(kind, written))
            self.changed()
        return written


def _with(item: T, **metadata: object) -> T:
    """Return the object with changed metadata; fields that its type does not have are ignored."""
    value: Any = item
    fields = {name: field for name, field in metadata.items() if name in value.metadata.__struct_fields__}
    return cast(
        "T", msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, **fields))
    )
