"""The history of one resource of a fake server: what is there, in which version, and what led to it."""

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
    """The whole state of a source at one moment, as an administrator saves it."""

    def __init__(self, objects: dict[ObjectKey, T], version: int) -> None:
        self.objects = objects
        self.version = version


class FakeHistory(Generic[T]):
    """Objects, and the events that made them; versions count up by one with every write.

    Finalizers hold what is deleted, as on a server. Subclasses are told of changes by :meth:`changed`.
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
        """The version before which history is forgotten."""
        return self._compacted

    @property
    def objects(self) -> dict[ObjectKey, T]:
        """What is there now."""
        return dict(self._objects)

    def changed(self) -> None:
        """Hear that there may be more to tell to those who watch."""

    @property
    def view_version(self) -> int:
        """The version that those see who do not ask for the newest: the present one, unless held back."""
        return self._held.version if self._held is not None else self._version

    def view(self) -> Backup[T]:
        """Return what those see who do not ask for the newest: the present, or the moment of :meth:`hold`."""
        return self._held if self._held is not None else self.backup()

    def events_after(self, version: int) -> tuple[list[WatchEvent[T]], int]:
        """Return the events later than a version, as far as :meth:`view` goes, and the version of the last."""
        first = bisect.bisect_right(self._versions, version)
        last = bisect.bisect_right(self._versions, self.view_version)
        if last <= first:
            return [], version
        return self._events[first:last], self._versions[last - 1]

    # ---------------------------------------------------------------------------------------------- writing

    def create(self, item: T, *, silently: bool = False) -> T:
        """Store a new object and return it with its version, and a uid if it has none.

        Raises AlreadyExistsError. ``silently`` forgets to tell the watches, here and below.
        """
        key = key_of(item)
        if key in self._objects:
            raise AlreadyExistsError(failure_status(409, "AlreadyExists", f"{key} already exists"))
        self._uids += 1
        return self._write("ADDED", item, item.metadata.uid or f"uid-{self._uids}", silently)

    def modify(self, item: T, *, silently: bool = False) -> T:
        """Put an object in the place of the one of its key; the uid stays. Raises NotFoundError."""
        stored = self._find(key_of(item))
        return self._write("MODIFIED", item, stored.metadata.uid, silently)

    def delete(self, key: ObjectKey, *, silently: bool = False) -> T:
        """Delete an object and return its last state; one with finalizers only begins to terminate.

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
        """Take the finalizers off: an object that terminates is gone then."""
        stored = self._find(key)
        metadata: Any = stored.metadata
        kind: Literal["MODIFIED", "DELETED"] = "DELETED" if metadata.deletion_timestamp else "MODIFIED"
        return self._write(kind, _with(stored, finalizers=None), metadata.uid, silently=False)

    def pass_versions(self, count: int) -> None:
        """Let other resources of the server be written so many times."""
        self._version += count

    # ---------------------------------------------------------------------------------------- playing with time

    def compact(self) -> None:
        """Forget history: no watch can begin, and no list go on, from a version before now."""
        self._compacted = self._version

    def hold(self) -> None:
        """Fall behind: watches, and lists that do not ask for the newest, show nothing later than now."""
        self._held = self.backup()

    def release(self) -> None:
        """Catch up."""
        self._held = None
        self.changed()

    def backup(self) -> Backup[T]:
        """Return the whole state, for :meth:`restore`."""
        return Backup(dict(self._objects), self._version)

    def restore(self, backup: Backup[T]) -> None:
        """Go back in time, as a database does that is restored: what came after never was."""
        self._objects = dict(backup.objects)
        self._version = backup.version
        keep = bisect.bisect_right(self._versions, backup.version)
        del self._versions[keep:], self._events[keep:]
        self._compacted = min(self._compacted, backup.version)
        self._held = None
        self.changed()

    # ---------------------------------------------------------------------------------------------- insides

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
    """Return the object with other metadata, as far as its kind has such fields."""
    value: Any = item
    fields = {name: field for name, field in metadata.items() if name in value.metadata.__struct_fields__}
    return cast(
        "T", msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, **fields))
    )
