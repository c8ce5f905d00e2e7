"""The data types and interfaces of the storage, without implementation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from tinykube.server.objects import GroupResource, JsonObject, StorageKey

FieldValues = Mapping[str, str]
"""The values that field selectors can match, by path: ``{"metadata.name": "web", "status.phase": "Running"}``."""

Describe = Callable[[GroupResource, JsonObject], FieldValues]
"""Computes the field values of an object that is stored or loaded."""


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision. Immutable: a write creates another.

    ``encoded`` is the whole object as JSON with ``kind`` and ``apiVersion`` first and
    ``metadata.resourceVersion`` set to ``str(revision)``; clients get these bytes.

    ``item_offset`` is where the members after those two begin (at the opening quote of the third): list items
    have no kind and apiVersion, so an item is ``b"{" + encoded[item_offset:]``.
    """

    key: StorageKey
    uid: str
    revision: int
    encoded: bytes
    item_offset: int
    labels: dict[str, str]
    fields: FieldValues

    def decode(self) -> JsonObject:
        """Return the object as a document that the caller may modify."""
        document: JsonObject = msgspec.json.decode(self.encoded)
        return document


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class EncodedEvents(msgspec.Struct, gc=False, eq=False):
    """The cached watch events of a change, shared by all watchers: see :func:`~.watch.frame`.

    Not part of a change's identity: two instances are always equal. Once ``kept`` is false, nothing is
    cached.
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
        """Drop the bytes permanently."""
        self.added = self.modified = self.deleted = None
        self.kept = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of one object. For a deletion, ``after`` is the last content at the deletion's revision."""

    type: ChangeType
    after: StoredObject
    before: StoredObject | None
    encoded_events: EncodedEvents = msgspec.field(default_factory=EncodedEvents)

    @property
    def revision(self) -> int:
        """The revision of the change."""
        return self.after.revision


class Write(msgspec.Struct, frozen=True, gc=False):
    """An object to write (``document``) or to remove (``None``).

    ``expected_revision`` is the revision of :meth:`Storage.head` that the document is based on, or 0 if the
    object must not exist. The storage sets ``metadata.resourceVersion`` and owns the document from then on.
    """

    key: StorageKey
    document: JsonObject | None
    expected_revision: int


class WriteConflictError(Exception):
    """The object is not at the expected revision: read it again and decide again."""

    def __init__(self, key: StorageKey, expected: int, actual: int) -> None:
        super().__init__(f"{key.resource} {key.namespace}/{key.name} is at {actual}, not at {expected}")
        self.key = key
        self.actual = actual


class RevisionCompactedError(Exception):
    """The history before :attr:`oldest` was compacted."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class StorageFailedError(Exception):
    """The log could not be written (usually because the disk is full); nothing was written."""


class StorageOpenError(Exception):
    """The data directory cannot be used; one line with the directory, the reason and the fix."""


class DataDirectoryInUseError(StorageOpenError):
    """Another server uses the data directory; :attr:`pid` is its process, or 0 if unknown."""

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
"""Updated constantly and rarely read back: the log keeps only their current state."""


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much history is kept, in memory and in the log. A change is dropped at the first limit reached.

    ``history_changes`` and ``history_bytes`` apply to each collection separately; ``volatile_changes``
    replaces the former for collections in ``volatile``, whose history does not survive the process.
    """

    history_seconds: float = 300.0
    history_changes: int = 10_000
    history_bytes: int = 64 * 1024 * 1024
    volatile_changes: int = 2_000
    volatile: frozenset[GroupResource] = VOLATILE_RESOURCES


class StorageStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics since the storage was opened. ``commits`` / ``groups`` is the mean group size."""

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
    """A collection at one revision; later writes are not visible. Sorted by key."""

    @property
    def revision(self) -> int:
        """The revision of the snapshot."""
        ...

    def __len__(self) -> int:
        """Return the number of its objects."""
        ...

    def after(self, namespace: str, name: str) -> Iterable[StoredObject]:
        """Iterate lazily over the objects after this key (``("", "")``: over all)."""
        ...


class Subscription(Protocol):
    """A reader of one collection's changes, in revision order, each exactly once.

    It never slows writers down: a reader that falls too far behind is disconnected (:attr:`overrun`), and can
    resume from its last revision.
    """

    async def next_batch(self) -> Sequence[Change]:
        """Wait for changes; return the next batch, at least one. Empty: the subscription is closed or overrun."""
        ...

    def take(self) -> Sequence[Change] | None:
        """Return the next batch of pending changes, possibly none, without waiting. ``None``: it is closed or overrun.

        Readers at the same position get the same sequence; it must not be modified.
        """
        ...

    @property
    def has_more(self) -> bool:
        """Whether :meth:`take` may have more to return: call it before :meth:`arm`."""
        ...

    def arm(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` once on the loop, when there is something to take or the subscription is closed.

        Call this right after a :meth:`take` without changes. It serves many subscriptions without a task
        each.
        """
        ...

    def disarm(self) -> None:
        """Cancel :meth:`arm`; no-op if ``woken`` has been called."""
        ...

    @property
    def overrun(self) -> bool:
        """Whether it was disconnected for being slow."""
        ...

    def close(self) -> None:
        """Close the subscription; a waiting reader gets an empty batch."""
        ...


class Storage(Protocol):
    """Objects by key, and a total order of all changes.

    * Readers see durable state, writers the last accepted state: a read never returns data that a crash could
      lose.
    * Revisions are positive, increase by at least one with each write, also across restarts, and are shared
      by all collections.
    * A commit is atomic; it returns only when it is on disk.
    * Every write creates a revision. The caller must check first whether a document differs from the stored
      one (``verbs`` does:
      an update without changes is not written).
    * Revisions of a failed commit are not reused.
    """

    @property
    def revision(self) -> int:
        """The revision of the last durable write."""
        ...

    @property
    def oldest_revision(self) -> int:
        """Reads and watches of older revisions are rejected with :class:`RevisionCompactedError`.

        The history of a busy collection may begin later: the read's error has its oldest revision.
        """
        ...

    def get(self, key: StorageKey) -> StoredObject | None:
        """Return the durable state of an object."""
        ...

    def head(self, key: StorageKey) -> StoredObject | None:
        """Return the last accepted state of an object, durable or not: the basis of a write."""
        ...

    def heads_in(self, resource: GroupResource, namespace: str = "") -> Iterable[StoredObject]:
        """Iterate over the last accepted states of a collection (or one namespace of it), unordered."""
        ...

    async def commit(self, writes: Sequence[Write]) -> tuple[Change, ...]:
        """Write all objects atomically and durably, in order; return the changes when they are on disk.

        Each write gets its own revision; readers and watchers see the whole commit in one iteration of the
        loop. Raises :class:`WriteConflictError` immediately if an object is not at its expected revision, and
        :class:`StorageFailedError` if the log fails (then every commit that is not durable fails, because
        later ones may depend on it). Nothing is written then. ``ValueError``: a duplicate key, or the removal
        of a missing object. Cancellation does not undo a commit.
        """
        ...

    def snapshot(self, resource: GroupResource, namespace: str = "", revision: int | None = None) -> Snapshot:
        """Return a collection (or one namespace of it) at a revision, by default the current one.

        Raises :class:`RevisionCompactedError`, and ``ValueError`` for a revision ahead of :attr:`revision`.
        """
        ...

    def subscribe(self, resource: GroupResource, namespace: str = "", *, after_revision: int) -> Subscription:
        """Return the changes of a collection after a revision: past ones first, then new ones.

        Raises :class:`RevisionCompactedError`. A revision ahead of :attr:`revision` is waited for.
        """
        ...

    @property
    def problem(self) -> str:
        """The reason why writes are rejected at the moment, or ``""``."""
        ...

    async def wait_for_revision(self, revision: int, timeout_seconds: float) -> bool:
        """Wait until :attr:`revision` has reached a revision; return whether it has."""
        ...
