"""What the storage holds and what it promises; nothing in here does anything."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from tinykube.server.objects import GroupResource, JsonObject, StorageKey

FieldValues = Mapping[str, str]
"""The values of what a field selector may ask for, by path: ``{"metadata.name": "web", "status.phase": "Running"}``."""

Describe = Callable[[GroupResource, JsonObject], FieldValues]
"""How the storage learns the field values of an object it stores, or loads."""


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision. It is never changed: a write makes another.

    ``encoded`` is the whole object as JSON, ``kind`` and ``apiVersion`` first, then the rest, its
    ``metadata.resourceVersion`` being ``str(revision)``: what a client gets is these bytes.
    ``item_offset`` is where the members after those two begin (at the opening quote of the third): lists carry items
    without kind and apiVersion, so an item is ``b"{" + encoded[item_offset:]``.
    """

    key: StorageKey
    uid: str
    revision: int
    encoded: bytes
    item_offset: int
    labels: dict[str, str]
    fields: FieldValues

    def decode(self) -> JsonObject:
        """Return the object as a document of the caller's own."""
        document: JsonObject = msgspec.json.decode(self.encoded)
        return document


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class EncodedEvents(msgspec.Struct, gc=False, eq=False):
    """What has been made of a change for watchers already, to be shared: see :func:`~.watch.frame`.

    Not part of what a change is: two of them are always equal. Once ``kept`` is false, nothing more is put in.
    """

    added: bytes | None = None
    modified: bytes | None = None
    deleted: bytes | None = None
    kept: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedEvents)

    def __hash__(self) -> int:
        return 0

    def forget(self) -> None:
        """Let go of the bytes, for good."""
        self.added = self.modified = self.deleted = None
        self.kept = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of one object. ``after`` of a deletion is the last content at the deletion's revision."""

    type: ChangeType
    after: StoredObject
    before: StoredObject | None
    encoded_events: EncodedEvents = msgspec.field(default_factory=EncodedEvents)

    @property
    def revision(self) -> int:
        """The revision the change made."""
        return self.after.revision


class Write(msgspec.Struct, frozen=True, gc=False):
    """One object to be written (``document``) or removed (``None``).

    ``expected_revision`` is the revision of :meth:`Storage.head` that the document was made from, 0 for one that
    must not be there yet. The storage sets ``metadata.resourceVersion`` itself and owns the document from then on.
    """

    key: StorageKey
    document: JsonObject | None
    expected_revision: int


class WriteConflictError(Exception):
    """The object is not at the expected revision any more: read it again, decide again."""

    def __init__(self, key: StorageKey, expected: int, actual: int) -> None:
        super().__init__(f"{key.resource} {key.namespace}/{key.name} is at {actual}, not at {expected}")
        self.key = key
        self.actual = actual


class RevisionCompactedError(Exception):
    """The history before :attr:`oldest` is gone."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class StorageFailedError(Exception):
    """The log could not be written (the disk is full, most often); nothing of the write has happened."""


class StorageOpenError(Exception):
    """The data directory cannot be used; the text is one line that says which, why, and what to do."""


class DataDirectoryInUseError(StorageOpenError):
    """Another server has the data directory; :attr:`pid` is its process, 0 where it is not known."""

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


VOLATILE_RESOURCES = frozenset(
    {
        GroupResource("coordination.k8s.io", "leases"),
        GroupResource("", "events"),
        GroupResource("events.k8s.io", "events"),
    }
)
"""Written all the time, and nobody looks back at them: the log keeps their present alone."""


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the past is kept, in memory and in the log. What comes first ends a change's stay.

    ``history_changes`` and ``history_bytes`` hold for each collection by itself; ``volatile_changes`` takes the place
    of the former for collections in ``volatile``, whose history does not outlive the process.
    """

    history_seconds: float = 300.0
    history_changes: int = 10_000
    history_bytes: int = 64 * 1024 * 1024
    volatile_changes: int = 2_000
    volatile: frozenset[GroupResource] = VOLATILE_RESOURCES


class StorageStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How the storage is. ``commits`` and ``groups`` since it was opened: their quotient is the mean group."""

    revision: int
    objects: int
    object_bytes: int
    history_changes: int
    history_bytes: int
    queued_commits: int
    commits: int
    groups: int
    failures: int


class Snapshot(Protocol):
    """A collection as it was at one revision; later writes do not show. Sorted by key."""

    @property
    def revision(self) -> int:
        """The revision it is of."""
        ...

    def __len__(self) -> int:
        """Count all of its objects."""
        ...

    def after(self, namespace: str, name: str) -> Iterable[StoredObject]:
        """Iterate over what sorts after this key (``("", "")``: over all), lazily."""
        ...


class Subscription(Protocol):
    """A reader of one collection's changes, in order of revision, each exactly once, none left out.

    It never slows the writers: one that falls too far behind is cut off (:attr:`overrun`), and can resume from the
    last revision it has taken.
    """

    async def next_batch(self) -> Sequence[Change]:
        """Wait for changes; return all there are, at least one. Empty: the subscription is closed, or overrun."""
        ...

    def take(self) -> Sequence[Change] | None:
        """Return all there are now, maybe none, without waiting. ``None``: it is closed, or overrun.

        Readers who are equally far get the same sequence; it must not be changed.
        """
        ...

    def arm(self, woken: Callable[[], None]) -> None:
        """Have ``woken`` called once, from within the loop, when there is something to take or it has been closed.

        To be called right after a :meth:`take` that gave nothing; for those who serve many without a task for each.
        """
        ...

    def disarm(self) -> None:
        """Take back :meth:`arm`; nothing happens where ``woken`` has been called."""
        ...

    @property
    def overrun(self) -> bool:
        """Whether it was cut off for being slow."""
        ...

    def close(self) -> None:
        """End it; a waiting reader gets an empty batch."""
        ...


class Storage(Protocol):
    """Objects by key, and every change in one order.

    * Readers see what is durable, writers what was accepted last: a read never shows what a crash could take back.
    * Revisions are positive, grow by at least one with each write, across restarts too, and are one sequence for all.
    * A commit is all or nothing; it has returned only when it is on disk.
    * Every write makes a revision. Whether a document differs at all from what is stored is the caller's to ask first
      (``verbs`` does: a write of nothing new is no write there).
    * Revisions of a commit that failed are not used again.
    """

    @property
    def revision(self) -> int:
        """The revision of the last durable write."""
        ...

    @property
    def oldest_revision(self) -> int:
        """Reads and watches of anything older are refused with :class:`RevisionCompactedError`.

        A collection that changes very often may begin later: the error of the read names its own oldest revision.
        """
        ...

    def get(self, key: StorageKey) -> StoredObject | None:
        """Return the durable state of an object."""
        ...

    def head(self, key: StorageKey) -> StoredObject | None:
        """Return the last accepted state of an object, durable or not yet: what a writer decides on."""
        ...

    def heads_in(self, resource: GroupResource, namespace: str = "") -> Iterable[StoredObject]:
        """Iterate over the last accepted states of a collection (of one namespace), in no order."""
        ...

    async def commit(self, writes: Sequence[Write]) -> tuple[Change, ...]:
        """Write all of them at once, durably, in their order; return the changes when they are on disk.

        Each write gets a revision of its own; readers and watchers see all of a commit in one turn of the loop.
        Raises :class:`WriteConflictError` at once where one is not at its expected revision, :class:`StorageFailedError`
        where the log fails (then every commit not yet durable fails: later ones may have been decided on it).
        Nothing is written then. ``ValueError``: the same key twice, or a removal of nothing. Cancelling does not take a
        commit back.
        """
        ...

    def snapshot(self, resource: GroupResource, namespace: str = "", revision: int | None = None) -> Snapshot:
        """Return a collection (one namespace of it) at a revision, now without one.

        Raises :class:`RevisionCompactedError`, and ``ValueError`` for a revision ahead of :attr:`revision`.
        """
        ...

    def subscribe(self, resource: GroupResource, namespace: str = "", *, after_revision: int) -> Subscription:
        """Return the changes of a collection after a revision: the past ones first, then as they come.

        Raises :class:`RevisionCompactedError`. A revision ahead of :attr:`revision` waits for it.
        """
        ...

    @property
    def problem(self) -> str:
        """Why writes are refused at the moment, ``""`` if they are not."""
        ...

    async def wait_for_revision(self, revision: int, timeout_seconds: float) -> bool:
        """Wait until :attr:`revision` has come that far; tell whether it has."""
        ...
