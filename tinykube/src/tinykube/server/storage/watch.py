"""The changes of one collection, stored once for all readers: a history for late ones, wake-ups for waiting ones."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter

from tinykube.server.storage.encoding import reencoded
from tinykube.server.storage.model import Change, ChangeType, RevisionCompactedError, StorageSettings

_FRAMED_CHANGES = 256
"""The number of newest changes that keep their encoded events for sharing by current watchers."""

_LARGEST_FRAME_BYTES = 64 * 1024
"""Larger frames are made for each watcher again: copying is cheap, and 256 kept ones could hold hundreds of megabytes."""
_BATCH_BYTES = 256 * 1024
"""A reader that is far behind gets its changes in batches of about this size, which bounds the bytes in flight per client."""

_REVISION = attrgetter("revision")


def frame(change: Change, kind: ChangeType) -> bytes:
    """Return the encoded watch event: ``{"type":"ADDED","object":{…}}`` and a newline; shared by all watchers.

    ``kind`` is the event type for this watcher: with a selector, a modification may be seen as an added
    object (``ADDED``: the new content) or as a deleted one (``DELETED``: the old content with the new
    resource version).
    """
    encoded = change.encoded_events
    if kind == "MODIFIED":
        made = encoded.modified
    elif kind == "ADDED":
        made = encoded.added
    else:
        made = encoded.deleted
    if made is not None:
        return made
    if kind == "DELETED" and change.type != "DELETED" and change.before is not None:
        document = reencoded(change.before, change.revision)
    else:
        document = change.after.encoded
    made = b'{"type":"%s","object":%s}\n' % (kind.encode(), document)
    if encoded.kept and len(made) <= _LARGEST_FRAME_BYTES:
        if kind == "MODIFIED":
            encoded.modified = made
        elif kind == "ADDED":
            encoded.added = made
        else:
            encoded.deleted = made
    return made


class SharedChanges(list[Change]):
    """A list of changes that several readers share: it must not be modified.

    ``derived`` caches results computed from them, to share these, too.
    ``end`` is the number to continue from.
    """

    __slots__ = ("derived", "end")

    def __init__(self, changes: Sequence[Change], end: int) -> None:
        super().__init__(changes)
        self.derived: dict[object, object] = {}
        self.end = end


class History:
    """The newest changes of one collection, in order, and the readers that wait for the next.

    Changes are numbered from 0; a subscription is a number. A slow reader costs nothing else, and is overrun
    when changes that concern it have been dropped.
    """

    def __init__(self, settings: StorageSettings, *, volatile: bool) -> None:
        self._limit = settings.volatile_changes if volatile else settings.history_changes
        self._limit_bytes = settings.history_bytes
        self._changes: list[Change] = []
        self._first = 0
        self._bytes = 0
        self._last_dropped: dict[str, int] = {}
        """By namespace (``""``: any), the number of the last dropped change."""
        self._waiting: dict[str, dict[HistorySubscription, None]] = {}
        self._shared: dict[tuple[str, int], SharedChanges] = {}
        """By namespace and first number, the changes shared by readers that read up to the newest one."""
        self._shared_end = -1
        self.oldest = 0
        """The revision before the first retained change: reads start there or later."""

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def bytes(self) -> int:
        """The memory used only by the history."""
        return self._bytes

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self._first + len(self._changes)

    def append(self, change: Change) -> None:
        """Append the newest change without waking readers."""
        changes = self._changes
        changes.append(change)
        self._bytes += _weight(change)
        if len(changes) > _FRAMED_CHANGES:
            changes[-_FRAMED_CHANGES - 1].encoded_events.forget()

    def wake(self, first: int) -> None:
        """Wake readers that wait for a change from this number on."""
        waiting = self._waiting
        if not waiting:
            return
        fresh = self._changes[first - self._first :]
        for namespace in {"", *(change.after.key.namespace for change in fresh)}:
            for subscription in waiting.pop(namespace, ()):
                subscription.wake(first)

    def wake_all(self) -> None:
        """Close all waiting subscriptions: there will be no further changes."""
        for subscriptions in list(self._waiting.values()):
            for subscription in list(subscriptions):
                subscription.close()

    def too_many(self) -> int:
        """Return how many of the oldest changes exceed the limits, rounded up so that most changes need no check."""
        excess = len(self._changes) - self._limit
        count = excess + self._limit // 16 if excess > 0 else 0
        over = self._bytes - self._limit_bytes
        if over > 0:
            over += self._limit_bytes // 16
            for index, change in enumerate(self._changes):
                if over <= 0:
                    break
                over -= _weight(change)
                count = max(count, index + 1)
        return min(count, len(self._changes))

    def older_than(self, revision: int) -> int:
        """Return how many of the oldest changes are at or before a revision."""
        return bisect_right(self._changes, revision, key=_REVISION)

    def drop(self, count: int) -> Sequence[Change]:
        """Drop the oldest changes and return them."""
        dropped = self._changes[:count]
        if not dropped:
            return ()
        del self._changes[:count]
        for change in dropped:
            self._bytes -= _weight(change)
            self._last_dropped[change.after.key.namespace] = self._first
            self._first += 1
        self._last_dropped[""] = self._first - 1
        self.oldest = max(self.oldest, dropped[-1].revision)
        self._shared.clear()
        return dropped

    def back_to(self, revision: int) -> Sequence[Change]:
        """Return the changes after a revision. Raises RevisionCompactedError."""
        self._check(revision)
        return self._changes[self.older_than(revision) :]

    def number_after(self, revision: int) -> int:
        """Return the number of the first change after a revision. Raises RevisionCompactedError."""
        self._check(revision)
        return self._first + self.older_than(revision)

    def _check(self, revision: int) -> None:
        if revision < self.oldest:
            raise RevisionCompactedError(revision, self.oldest)

    def since(self, number: int, namespace: str) -> SharedChanges | None:
        """Return the next batch of changes (of a namespace) from a number on, ``None`` if one of them was dropped.

        A batch has up to about 256 KiB, and at least one change if any is pending.
        """
        if number < self._first:
            if self._last_dropped.get(namespace, -1) >= number:
                return None
            number = self._first
        end = self.end
        if number >= end:
            return SharedChanges((), end)
        if self._shared_end != end:
            self._shared.clear()
            self._shared_end = end
        shared = self._shared.get((namespace, number))
        if shared is None:
            shared = self._shared[namespace, number] = self._batch(number, namespace)
        return shared

    def _batch(self, number: int, namespace: str) -> SharedChanges:
        size = 0
        batch: list[Change] = []
        for change in islice(self._changes, number - self._first, None):
            if not namespace or change.after.key.namespace == namespace:
                size += len(change.after.encoded)
                if batch and size > _BATCH_BYTES:
                    break
                batch.append(change)
            number += 1
        return SharedChanges(batch, number)

    def add_waiting(self, subscription: "HistorySubscription") -> None:
        """Wake a subscription on the next change that concerns it."""
        self._waiting.setdefault(subscription.namespace, {})[subscription] = None

    def remove_waiting(self, subscription: "HistorySubscription") -> None:
        """Remove a subscription that no longer waits."""
        waiting = self._waiting.get(subscription.namespace)
        if waiting is not None:
            waiting.pop(subscription, None)
            if not waiting:
                del self._waiting[subscription.namespace]


def _weight(change: Change) -> int:
    # The newest content is kept anyway; the history costs the replaced content, and the deleted one.
    weight = 200 + (len(change.before.encoded) if change.before is not None else 0)
    return weight + len(change.after.encoded) if change.type == "DELETED" else weight


class HistorySubscription:
    """A reader of one history; see :class:`~.model.Subscription` for the guarantees. One reader at a time."""

    __slots__ = ("_after_revision", "_closed", "_history", "_number", "_overrun", "_woken", "namespace")

    def __init__(self, history: History, namespace: str, after_revision: int) -> None:
        self.namespace = namespace
        self._history = history
        self._number = history.number_after(after_revision)
        self._after_revision = after_revision
        self._closed = False
        self._overrun = False
        self._woken: Callable[[], None] | None = None

    @property
    def overrun(self) -> bool:
        """Whether it was disconnected for being slow."""
        return self._overrun

    def take(self) -> Sequence[Change] | None:
        """Return the next batch of changes, possibly none; ``None`` once it is closed or overrun."""
        if self._closed:
            return None
        history = self._history
        batch = history.since(self._number, self.namespace)
        if batch is None:
            self._overrun = self._closed = True
            return None
        self._number = batch.end
        if batch and batch[0].revision <= self._after_revision:
            # It was subscribed at a future revision.
            return [change for change in batch if change.revision > self._after_revision]
        return batch

    @property
    def has_more(self) -> bool:
        """Whether :meth:`take` may have changes to return."""
        return self._closed or self._number < self._history.end

    def arm(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` once when there is something to take; call this right after a take without changes."""
        assert self._woken is None, "a subscription has one reader"  # noqa: S101
        self._woken = woken
        self._history.add_waiting(self)
        if self._closed:
            self.close()

    def disarm(self) -> None:
        """Cancel :meth:`arm`; no-op if ``woken`` has been called."""
        self._woken = None
        self._history.remove_waiting(self)

    async def next_batch(self) -> Sequence[Change]:
        """Wait for changes; return the next batch. The sequence is shared and must not be modified."""
        while (batch := self.take()) is not None:
            if batch:
                return batch
            waiter = asyncio.get_running_loop().create_future()
            self.arm(lambda waiter=waiter: _resolve(waiter))  # type: ignore[misc]
            try:
                await waiter
            finally:
                self.disarm()
        return ()

    def wake(self, first: int) -> None:
        """Wake the waiting reader. Changes between its position and ``first`` do not concern it."""
        # Without this, a watcher of a quiet namespace would scan all of them.
        self._number = max(self._number, first)
        self._call()

    def close(self) -> None:
        """Close the subscription; a waiting reader gets an empty batch."""
        self._closed = True
        self._history.remove_waiting(self)
        self._call()

    def _call(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken()


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
