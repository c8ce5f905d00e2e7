"""The reflector: keeps a store in sync with a resource of a server, through any failure.

It drives the watch machine (:mod:`aiokube.runtime.watch_machine`): performs its actions on a source, updates
the store, and passes the outcome to the machine. All waiting, timing and randomness of watches is here.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator
from typing import Generic, NoReturn, TypeVar, assert_never, cast

from aiokube.api.meta import KubernetesObject, ObjectKey, key_of, version_number
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.errors import (
    AnswerTooLargeError,
    ApiError,
    ConnectionFailedError,
    ResponseTruncatedError,
    UndecodableEventError,
)
from aiokube.clock import Clock
from aiokube.runtime.pacing import LoopPacer, Steps
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.reachability import Reachability
from aiokube.runtime.reflector_settings import (
    NotSyncedError,
    Phase,
    ReflectorSettings,
    ReflectorStatistics,
)
from aiokube.runtime.source import Batch, PoolsConnections, Source, StreamsLists
from aiokube.runtime.store import Store
from aiokube.runtime.watch_faults import SURVIVABLE, Fault, FaultKind, classify, classify_status
from aiokube.runtime.watch_machine import begin, step
from aiokube.runtime.watch_record import WatchRecord
from aiokube.runtime.watch_states import (
    Action,
    AskVersion,
    CheckingVersion,
    DropGathered,
    EventUnreadable,
    Failed,
    FellBehind,
    InitialEventsEnded,
    InitialEventsStalled,
    Input,
    Listing,
    ListPage,
    LogMessage,
    OpenWatch,
    PageReceived,
    ReadWatch,
    RelistWanted,
    ReplaceStore,
    State,
    StoreInconsistent,
    Streaming,
    Transition,
    VersionReceived,
    Wait,
    Waited,
    Waiting,
    WatchContext,
    WatchEnded,
    Watching,
    WatchOpened,
    WatchSummary,
    WatchTimedOut,
)

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubernetesObject)

BOOKMARKS_BEHIND = 3
"""Consecutive bookmarks that may have an older version than ours, as from a lagging replica."""

_EVENTS_BETWEEN_YIELDS = 500
_LONGEST_LIST_REST_SECONDS = 30.0
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Reflector(Generic[T]):
    """Keeps ``store`` in sync with ``source``.

    Guarantees:

    * Lists and initial events are collected first and stored in one step, at the start and on every relist.
      The first one makes the store ``synced``.
    * While the source is reachable, the store lags only by the network, and a silently dead connection is
      detected after ``silence_seconds``. No restart is ever needed; the watch machine has the rules.
    * Reflectors of one server that share a ``reachability`` recover together: the first one that succeeds
      wakes the others.
    * :meth:`run` ends only by cancellation, or with an exception that is a bug (not one of
      :data:`aiokube.runtime.watch_faults.SURVIVABLE`). It can be cancelled at any time, never leaves a
      partial batch in the store, and can be run again: it resumes from the store's version.

    The clock must be the one of the running loop.
    """

    def __init__(
        self,
        source: Source[T],
        store: Store[T],
        *,
        clock: Clock,
        rng: random.Random,
        settings: ReflectorSettings | None = None,
        reachability: Reachability | None = None,
        pacer: LoopPacer | None = None,
    ) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self._rng = rng
        self._settings = settings if settings is not None else ReflectorSettings()
        self._state: State | None = None
        self._action: Action = ReadWatch()
        self._since = clock.monotonic()
        self._gathered: dict[ObjectKey, T] = {}
        self._pacer = pacer
        self._dispatching: Steps[None] | None = None
        self._in_pages = False
        self._sends_bookmarks = False
        self._behind = 0
        self._mute_watches = 0
        self._list_seconds = 0.0
        self._reachability = (
            reachability
            if reachability is not None
            else Reachability(clock=clock, rng=rng, server=store.name)
        )
        self._following_since: float | None = None
        self._relist_wanted = False
        self._caught_up = asyncio.Event()
        self._backing_off_since: float | None = None
        self._last_contact: float | None = None
        self._last_error = ""
        self._last_error_at: float | None = None
        self._errors = 0
        self._lists = 0
        self._watches = 0
        self._undecodable_events = 0
        self._events_since_yield = 0
        self._following = asyncio.Event()
        self._denied = asyncio.Event()

    @property
    def name(self) -> str:
        """The store's name, for messages."""
        return self._store.name

    async def run(self) -> NoReturn:
        """Keep the store in sync until cancelled. Raises RuntimeError if it is already running."""
        if self._state is not None:
            raise RuntimeError(f"{self.name}: this reflector is running already")
        context = WatchContext(
            seen=self._store.resource_version,
            synced=self._store.synced,
            watch_list=self._settings.initial == "watch-list",
        )
        try:
            self._take(begin(context, self._settings.rules))
            while True:
                await self._perform(self._action)
                await self._dispatch_relist()
        finally:
            if self._dispatching is not None:
                self._dispatching.close()
                self._dispatching = None
            self._state = None
            self._following_since = None
            self._reachability.forget(self.name)
            self._gathered = {}
            self._since = self._clock.monotonic()

    async def wait_synced(self, timeout_seconds: float | None = None) -> None:
        """Wait until the store has synced. Raises :class:`NotSyncedError`, with the cause, after the timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._store.wait_synced()
        except TimeoutError:
            raise NotSyncedError(self.statistics(), timeout_seconds or 0.0) from None

    async def wait_denied(self) -> None:
        """Wait until the initial state cannot be read without a new permission or configuration."""
        await self._denied.wait()

    async def wait_following(self) -> None:
        """Wait until the first watch is open: from then on changes, or their failure, are noticed."""
        await self._following.wait()

    async def wait_current(self) -> None:
        """Return once the store is as new as this call: immediately if it has been watched without a gap.

        Otherwise relist as soon as the server responds, because decisions must not ignore the missed changes.
        """
        while self._following_since is None:
            self._relist_wanted = True
            await self._caught_up.wait()

    def statistics(self) -> ReflectorStatistics:
        """Return a snapshot of the reflector."""
        return ReflectorStatistics(
            name=self.name,
            phase=self._phase(),
            since=self._since,
            last_contact=self._last_contact,
            resource_version=self._store.resource_version,
            synced=self._store.synced,
            failures=self._failures(),
            following_since=self._following_since,
            last_error=self._last_error,
            last_error_at=self._last_error_at,
            errors=self._errors,
            lists=self._lists,
            watches=self._watches,
            undecodable_events=self._undecodable_events,
            followed=self._following.is_set(),
        )

    def _failures(self) -> int:
        if self._state is None:
            return 0
        return self._state.context.failures + self._state.context.reconnects

    # ----------------------------------------------------------------------------------------------- the
    # machine

    def _tell(self, event: Input) -> bool:
        """Step the machine; return whether to continue reading the open watch."""
        if self._state is None:
            raise RuntimeError(f"{self.name}: not running")
        self._take(step(self._state, event, self._settings.rules))
        if isinstance(event, Failed):
            self._note_error(event.fault.text)
            if event.fault.permanent and isinstance(self._action, Wait) and not self._store.synced:
                self._denied.set()
        elif isinstance(self._action, Wait):
            self._note_error(self._action.why)
        return isinstance(self._action, ReadWatch)

    def _take(self, transition: Transition) -> None:
        before = self._phase()
        self._state, self._action = transition.state, transition.action
        if self._phase() != before:
            self._since = self._clock.monotonic()
        for effect in transition.effects:
            match effect:
                case ReplaceStore():
                    self._relist_wanted = False
                    self._replace(effect.resource_version)
                case DropGathered():
                    self._gathered = {}
                case LogMessage():
                    log.log(_LEVELS[effect.level], "watch: resource=%s note=%s", self.name, effect.text)
                case _:
                    assert_never(effect)
        self._note_following()

    def _replace(self, resource_version: str) -> None:
        """Store a list in one step; dispatch the differences now, or later in slices of loop turns."""
        if self._pacer is None:
            self._store.replace(self._gathered.values(), resource_version)
            return
        steps = self._store.replace_steps(self._gathered.values(), resource_version)
        if next(steps, None) is not None:
            self._dispatching = steps

    async def _dispatch_relist(self) -> None:
        """Dispatch the rest of a relist; no event may be stored before its end."""
        steps, self._dispatching = self._dispatching, None
        if steps is not None and self._pacer is not None:
            await self._pacer.run(steps)

    def _note_following(self) -> None:
        state = self._state
        if isinstance(state, Watching) and state.opened:
            if self._following_since is None and not self._relist_wanted:
                self._following_since = self._clock.monotonic()
                self._caught_up.set()
        elif not (isinstance(state, Watching) and self._following_since is not None):
            # A watch that ended normally and is reopened immediately leaves no gap.
            self._following_since = None
            self._caught_up.clear()

    def _answered(self) -> None:
        """Record a successful response, and wake the other sources."""
        self._last_contact = self._clock.monotonic()
        self._reachability.answered(self.name)
        if self._backing_off_since is not None:
            log.info(
                "watch recovered: resource=%s after_seconds=%.1f",
                self.name,
                self._last_contact - self._backing_off_since,
            )
            self._backing_off_since = None

    def _phase(self) -> Phase:
        state = self._state
        match state:
            case None:
                return "stopped"
            case Listing():
                return "listing"
            case Streaming():
                return "streaming" if state.opened else "connecting"
            case Watching():
                return "watching" if state.opened or self._following_since is not None else "connecting"
            case CheckingVersion():
                return "connecting"
            case Waiting():
                return "waiting"
            case _:
                assert_never(state)

    async def _perform(self, action: Action) -> None:
        match action:
            case ListPage():
                self._tell(await self._list(action))
            case AskVersion():
                self._tell(await self._ask_version())
            case OpenWatch():
                await self._watch(action)
            case Wait():
                await self._wait(action)
                self._tell(Waited())
            case ReadWatch():
                raise RuntimeError(f"{self.name}: there is no open watch to read")
            case _:
                assert_never(action)

    async def _wait(self, wait: Wait) -> None:
        if wait.pace == "reconnect":
            # An interrupted list was expensive for the server: wait for as long as it took.
            rest_seconds = min(self._list_seconds, _LONGEST_LIST_REST_SECONDS)
            await self._reachability.wait_turn(
                self.name, wait.why, at_least_seconds=max(wait.at_least_seconds, rest_seconds)
            )
            return
        self._reachability.forget(self.name)
        if self._backing_off_since is None:
            self._backing_off_since = self._clock.monotonic()
        backoff_seconds = self._settings.backoff.delay_seconds(wait.failures, self._rng)
        delay_seconds = max(backoff_seconds, wait.at_least_seconds)
        # A warning at first; later the statistics have the cause.
        level = logging.WARNING if wait.failures < 2 else logging.INFO
        log.log(
            level,
            "watch interrupted: resource=%s next_try_seconds=%.1f cause=%s",
            self.name,
            delay_seconds,
            with_hint(wait.why),
        )
        await self._clock.sleep(delay_seconds)

    def _note_error(self, text: str) -> None:
        self._errors += 1
        self._last_error = text
        self._last_error_at = self._clock.monotonic()

    # -------------------------------------------------------------------------------------------------
    # listing

    async def _list(self, action: ListPage) -> Input:
        if not action.continue_token:
            self._lists += 1
        source = self._source
        whole = source if isinstance(source, StreamsLists) else None
        if action.continue_token or self._in_pages:
            whole = None
        self._reachability.attempting(self.name)
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._settings.request_seconds) as watchdog:
                if whole is not None:
                    came = await self._list_whole(whole, action)
                else:
                    came = await self._list_page(action)
        except SURVIVABLE as error:
            if isinstance(error, ResponseTruncatedError):
                self._list_seconds = self._clock.monotonic() - began
            if whole is not None and not isinstance(error, ApiError | ConnectionFailedError):
                self._in_pages = True  # a proxy may limit long responses: small ones may pass
            fault = self._too_slow("a page of the list") if watchdog.expired() else classify(error)
            return Failed(fault, self._summary(None))
        self._list_seconds = 0.0
        self._answered()
        return came

    async def _ask_version(self) -> Input:
        self._reachability.attempting(self.name)
        try:
            async with asyncio.timeout(self._settings.open_seconds) as watchdog:
                page = await self._source.list_page(limit=1)
        except SURVIVABLE as error:
            if watchdog.expired() and isinstance(self._source, PoolsConnections):
                self._source.distrust_connections()
            fault = (
                self._too_slow("the version of the server", opening=True)
                if watchdog.expired()
                else classify(error)
            )
            return Failed(fault, self._summary(None))
        self._answered()
        return VersionReceived(page.resource_version)

    async def _list_page(self, action: ListPage) -> PageReceived:
        page = await self._source.list_page(
            limit=action.limit,
            continue_token=action.continue_token,
            resource_version=action.resource_version,
            resource_version_match=action.resource_version_match,
        )
        before = len(self._gathered)
        for item in page.items:
            self._gathered[key_of(item)] = item
        self._check_gathered()
        return PageReceived(page.resource_version, page.continue_token, len(self._gathered) == before)

    async def _list_whole(self, source: StreamsLists[T], action: ListPage) -> PageReceived:
        async with source.list_stream(
            resource_version=action.resource_version, resource_version_match=action.resource_version_match
        ) as stream:
            async for items in stream:
                for item in items:
                    self._gathered[key_of(item)] = item
                self._check_gathered()
                await self._clock.sleep(0)  # buffered data is read without suspending
        return PageReceived(stream.resource_version, stream.continue_token)

    def _check_gathered(self) -> None:
        if len(self._gathered) > self._settings.max_objects:
            self._gathered = {}
            raise AnswerTooLargeError(
                f"more than {self._settings.max_objects} objects in one list (raise max_objects if there are so many)"
            )

    def _too_slow(self, what: str, *, opening: bool = False) -> Fault:
        settings = self._settings
        opening = opening and isinstance(self._state, Watching | CheckingVersion)
        seconds = settings.open_seconds if opening else settings.request_seconds
        return Fault(FaultKind.UNREACHABLE, f"{what} did not arrive within {seconds:g} s")

    # -------------------------------------------------------------------------------------------------
    # watching

    async def _watch(self, action: OpenWatch) -> None:
        """Open a watch, and read it until the machine chooses another action."""
        settings = self._settings
        self._reachability.attempting(self.name)
        timeout_seconds = self._rng.randint(settings.shortest_watch_seconds, settings.longest_watch_seconds)
        if action.initial_events:
            self._lists += 1
            timeout_seconds = max(timeout_seconds, math.ceil(settings.longest_stream_seconds))
        watch: WatchRecord | None = None
        over: Input | None = None
        decided = False  # by the watch's content; then errors of closing it do not matter
        try:
            async with (
                asyncio.timeout(
                    settings.request_seconds if action.initial_events else settings.open_seconds
                ) as watchdog,
                self._source.watch(
                    resource_version=action.resource_version,
                    send_initial_events=action.initial_events,
                    timeout_seconds=timeout_seconds,
                ) as batches,
            ):
                watch = WatchRecord(
                    self._clock.monotonic(),
                    timeout_seconds,
                    self._store.resource_version,
                    with_state=action.initial_events,
                )
                self._watches += 1
                self._answered()
                self._following.set()
                self._tell(WatchOpened())
                if self._relist_wanted and isinstance(self._state, Watching):
                    over = RelistWanted(self._summary(watch))
                else:
                    over = await self._read(batches, watch, watchdog)
                decided = True
        except SURVIVABLE as error:
            if not decided:
                over = (
                    self._out_of_time(watch)
                    if watchdog.expired()
                    else Failed(classify(error), self._summary(watch))
                )
        if over is not None:
            self._tell(over)

    async def _read(
        self, batches: AsyncIterator[Batch[T]], watch: WatchRecord, watchdog: asyncio.Timeout
    ) -> Input | None:
        """Read until the end of the watch; return None if the machine has been informed already."""
        while True:
            streaming = isinstance(self._state, Streaming)
            watchdog.reschedule(watch.deadline(self._settings, streaming=streaming))
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return WatchEnded(self._summary_at_end(watch))
            except UndecodableEventError as error:
                watch.last_heard = self._last_contact = self._clock.monotonic()
                event = self._unreadable(error, watch)
                if isinstance(event, Failed):
                    return event
                if not self._tell(event):
                    return None
                continue
            watch.last_heard = self._last_contact = self._clock.monotonic()
            failure = batch.pop() if isinstance(batch[-1], WatchError) else None
            changes = cast("list[WatchEvent[T] | Bookmark]", batch)
            watch.heard = watch.heard or bool(changes)
            self._events_since_yield += len(changes)
            if streaming:
                end = self._gather(changes, watch)
                if end is not None and not self._tell(end):
                    return None
                await self._dispatch_relist()
            if changes:
                is_behind = False
                if isinstance(changes[-1], Bookmark):
                    self._sends_bookmarks = True
                    watch.note_bookmark(watch.last_heard)
                    is_behind = self._is_behind(changes[-1])
                self._store.apply(changes)
                if is_behind:
                    return FellBehind(self._summary(watch))
                if self._store.needs_relist:
                    return StoreInconsistent(self._summary(watch))
            if isinstance(failure, WatchError):
                return Failed(classify_status(failure.status), self._summary(watch))
            if self._events_since_yield >= _EVENTS_BETWEEN_YIELDS:  # buffered data is read without suspending
                self._events_since_yield = 0
                await self._clock.sleep(0)

    def _gather(
        self, changes: list[WatchEvent[T] | Bookmark], watch: WatchRecord
    ) -> InitialEventsEnded | None:
        """Move initial events out of ``changes``, and keep the changes after their end, if it is included."""
        before = len(self._gathered)
        for index, change in enumerate(changes):
            if isinstance(change, Bookmark):
                if change.initial_events_end:
                    del changes[: index + 1]
                    return InitialEventsEnded(change.resource_version)
            elif change.type == "DELETED":
                self._gathered.pop(key_of(change.item), None)
            else:
                self._gathered[key_of(change.item)] = change.item
        changes.clear()
        self._check_gathered()
        if len(self._gathered) > before:
            watch.last_growth = watch.last_heard
        return None

    def _unreadable(self, error: UndecodableEventError, watch: WatchRecord) -> Failed | EventUnreadable:
        """Isolate an event that cannot be decoded, so that the watch continues."""
        self._undecodable_events += 1
        self._note_error(str(error))
        log.error("event cannot be decoded: resource=%s error=%s", self.name, error)
        if isinstance(self._state, Streaming):
            if error.key is None:
                return Failed(classify(error), self._summary(watch))
            stored = self._store.get(error.key)
            if stored is not None:  # it exists: an old state is better than none
                self._gathered.setdefault(error.key, stored)
        return EventUnreadable(self._summary(watch))

    def _out_of_time(self, watch: WatchRecord | None) -> Input:
        if watch is not None and watch.with_state and isinstance(self._state, Watching):
            # It had the time limit of initial events; the next watch ends soon enough to show that the server
            # is alive.
            return WatchEnded(self._summary(watch))
        if isinstance(self._source, PoolsConnections):
            self._source.distrust_connections()
        if watch is None:
            return Failed(self._too_slow("the response to a watch", opening=True), self._summary(None))
        if isinstance(self._state, Streaming):
            return InitialEventsStalled()
        return WatchTimedOut(self._summary(watch))

    def _is_behind(self, bookmark: Bookmark) -> bool:
        """Record a bookmark; return whether the server has been behind us for too long, over several watches."""
        older = version_number(bookmark.resource_version) < version_number(self._store.resource_version)
        self._behind = self._behind + 1 if older else 0
        if self._behind < BOOKMARKS_BEHIND:
            return False
        self._behind = 0
        return True

    def _summary_at_end(self, watch: WatchRecord) -> WatchSummary:
        summary = watch.summary(
            self._store.resource_version, self._clock.monotonic(), sends_bookmarks=self._sends_bookmarks
        )
        if summary.mute:
            self._mute_watches += 1
            if self._mute_watches >= self._settings.rules.silences:
                self._sends_bookmarks = False  # it may be another server now: detect it again
        else:
            self._mute_watches = 0
        return summary

    def _summary(self, watch: WatchRecord | None) -> WatchSummary:
        seen, now = self._store.resource_version, self._clock.monotonic()
        return WatchSummary(seen, now) if watch is None else watch.summary(seen, now)
