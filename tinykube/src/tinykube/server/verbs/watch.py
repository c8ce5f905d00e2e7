"""Watch a collection: the changes since a revision, filtered for one client."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from aiokube.clock import Clock
from tinykube.server.errors import StatusError, expired
from tinykube.server.storage.model import (
    Change,
    RevisionCompactedError,
    StoredObject,
    Subscription,
)
from tinykube.server.storage.watch import SharedChanges
from tinykube.server.verbs.context import Backend, Target
from tinykube.server.verbs.options import ListOptions
from tinykube.server.verbs.read import wait_for
from tinykube.server.verbs.selection import Selection, parse_selection

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

BOOKMARK_SECONDS = 60.0
_SHORTEST_WATCH_SECONDS = 1800.0
_LAST_BOOKMARK_SECONDS = 2.0
_INITIAL_BATCH = 500
_INITIAL_BATCH_BYTES = 256 * 1024


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of one object, or (``change`` is ``None``) an object of the initial state.

    For an object that left the selection, ``stored`` is its previous state, while the event's
    :attr:`revision` is that of the change that removed it from the selection.
    """

    type: EventType
    stored: StoredObject
    change: Change | None = None

    @property
    def revision(self) -> int:
        """The resource version of the object in this event."""
        return self.stored.revision if self.change is None else self.change.revision


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """All changes up to this revision have been delivered. ``ends_initial``: it ends the initial state."""

    revision: int
    ends_initial: bool


class Failure(msgspec.Struct, frozen=True):
    """The error that ends the watch."""

    status: StatusError


Batch = Sequence[Event | Bookmark | Failure]


class Watch:
    """One watch, from :func:`open_watch`. Call :meth:`next_batch` until it returns an empty batch, then :meth:`close`.

    It delivers each change of the selection after its start once and in order, and bookmarks, if requested,
    once a minute and before the end. A reader that falls too far behind gets 410 and is disconnected.

    To serve many watches without a task each, use :meth:`take` and, after it returned ``None``, :meth:`arm`
    and :attr:`due_at`.
    """

    def __init__(
        self,
        subscription: Subscription,
        selection: Selection,
        clock: Clock,
        initial: Iterator[Batch],
        *,
        revision: int,
        bookmarks: bool,
        timeout_seconds: float,
    ) -> None:
        self._subscription = subscription
        self._selection = selection
        self._clock = clock
        self._initial: Iterator[Batch] | None = initial
        self._revision = revision
        self._bookmarks = bookmarks
        self._ends_at = clock.monotonic() + timeout_seconds
        self._bookmark_at = self._next_bookmark()
        self._over = False

    def close(self) -> None:
        """End the watch now: a waiting reader gets an empty batch."""
        self._over = True
        self._subscription.close()

    @property
    def due_at(self) -> float:
        """The time (of the clock) of the next bookmark or of the end, whichever is first."""
        return min(self._ends_at, self._bookmark_at) if self._bookmarks else self._ends_at

    async def next_batch(self) -> Batch:
        """Wait for the next batch; it is empty at the end (timeout, or closed)."""
        loop = asyncio.get_running_loop()
        while (batch := self.take()) is None:
            waiter = loop.create_future()
            self.arm(lambda waiter=waiter: waiter.done() or waiter.set_result(None))  # type: ignore[misc]
            try:
                async with asyncio.timeout(max(self.due_at - self._clock.monotonic(), 0.0)):
                    await waiter
            except TimeoutError:
                pass
            finally:
                self.disarm()
        return batch

    def take(self) -> Batch | None:
        """Return the pending batch: ``None`` if there is nothing to deliver, empty at the end."""
        if self._initial is not None:
            batch = next(self._initial, None)
            if batch is not None and not self._over:
                return batch
            self._initial = None
        while not self._over:
            changes = self._subscription.take()
            if changes is None:
                self._over = True
                return (Failure(_cut_off(self._revision)),) if self._subscription.overrun else ()
            if changes:
                self._revision = changes[-1].revision
                events = self._events(changes)
                if events:
                    return events
                continue
            now = self._clock.monotonic()
            if now >= self._ends_at:
                self._over = True
            elif self._bookmarks and now >= self._bookmark_at:
                return (self._bookmark(),)
            else:
                return None
        return ()

    @property
    def has_more(self) -> bool:
        """Whether :meth:`take` may have events to return: then the watch must not be armed."""
        return self._initial is not None or self._subscription.has_more

    def arm(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` once when there may be a batch to take. Call this right after a :meth:`take` of ``None``."""
        self._subscription.arm(woken)

    def disarm(self) -> None:
        """Cancel :meth:`arm`."""
        self._subscription.disarm()

    def _bookmark(self) -> Bookmark:
        self._bookmark_at = self._next_bookmark()
        return Bookmark(self._revision, False)

    def _next_bookmark(self) -> float:
        now = self._clock.monotonic()
        before_the_end = self._ends_at - _LAST_BOOKMARK_SECONDS
        later = now + BOOKMARK_SECONDS
        return before_the_end if now < before_the_end < later else later

    def _events(self, changes: Sequence[Change]) -> "Events":
        """Convert changes to the events of this watch; the result is shared by watches with equal changes and selection."""
        if not isinstance(changes, SharedChanges):
            return _select(changes, self._selection)
        known = changes.derived.get(self._selection)
        if not isinstance(known, Events):
            known = changes.derived[self._selection] = _select(changes, self._selection)
        return known


class Events(list[Event | Bookmark | Failure]):
    """A batch that may be shared by many watches and must not be modified. ``plain`` caches its encoded chunk."""

    __slots__ = ("plain",)

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__(events)
        self.plain = b""


def _select(changes: Sequence[Change], selection: Selection) -> Events:
    matches = selection.matcher()
    if matches is None:
        return Events([Event(change.type, change.after, change) for change in changes])
    return Events([event for change in changes if (event := _selected(change, matches)) is not None])


def _selected(change: Change, matches: Callable[[StoredObject], bool]) -> Event | None:
    """Convert a change to the event that a client with this selection sees, if any."""
    after, before = change.after, change.before
    if change.type == "DELETED":
        return Event("DELETED", after, change) if matches(before or after) else None
    did_match = before is not None and matches(before)
    if matches(after):
        return Event("MODIFIED" if did_match else "ADDED", after, change)
    return Event("DELETED", before, change) if did_match and before is not None else None


async def open_watch(backend: Backend, target: Target, options: ListOptions) -> Watch | Failure:
    """Start a watch: without a version (or with 0) from the current state, else after that version.

    A compacted version, and a WatchList of a version that is not reached, give a :class:`Failure` (clients
    get it as an event, not as a response status). Raises 400 and 422.
    """
    options.check_watch()
    selection = parse_selection(target.definition, options.label_selector, options.field_selector)
    revision = _requested_revision(options.resource_version)
    storage, resource = backend.storage, target.definition.storage_resource
    initial: Iterator[Batch] = iter(())
    with_initial = options.send_initial_events
    if with_initial is None:
        with_initial = revision == 0
    if with_initial:
        if revision:
            try:
                await wait_for(storage, revision)
            except StatusError as error:
                return Failure(error)
        snapshot = storage.snapshot(resource, target.namespace)
        revision = snapshot.revision
        matches = selection.matcher()
        objects = snapshot.after("", "")
        initial = _initial_batches(
            objects if matches is None else filter(matches, objects),
            Bookmark(revision, True) if options.allow_bookmarks else None,
        )
    elif revision == 0:
        revision = storage.revision
    try:
        subscription = storage.subscribe(resource, target.namespace, after_revision=revision)
    except RevisionCompactedError as error:
        return Failure(expired(f"too old resource version: {error.asked} ({error.oldest})"))
    return Watch(
        subscription,
        selection,
        backend.clock,
        initial,
        revision=revision,
        bookmarks=options.allow_bookmarks,
        timeout_seconds=_timeout_seconds(options, backend.rng),
    )


def _initial_batches(objects: Iterable[StoredObject], end: Bookmark | None) -> Iterator[Batch]:
    batch: list[Event | Bookmark | Failure] = []
    size = 0
    for stored in objects:
        batch.append(Event("ADDED", stored))
        size += len(stored.encoded)
        if len(batch) == _INITIAL_BATCH or size >= _INITIAL_BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if end is not None:
        batch.append(end)
    if batch:
        yield batch


def _requested_revision(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise StatusError(
            500,
            "",
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax',
        )
    return int(text)


def _timeout_seconds(options: ListOptions, rng: random.Random) -> float:
    """Return the duration of the watch: as requested, or 30 to 60 minutes, so that not all watches end together."""
    if options.timeout_seconds is not None and options.timeout_seconds > 0:
        return float(options.timeout_seconds)
    return _SHORTEST_WATCH_SECONDS * (1.0 + rng.random())


def _cut_off(revision: int) -> StatusError:
    return expired(f"too old resource version: {revision} (the watcher read too slowly)")
