"""A misbehaving fake source, for tests of everything that lists and watches.

By default it behaves like kube-apiserver (versions, pages, bookmarks, compaction, all forms of 410). It is
deterministic, without randomness, and uses only the running loop's time, so run it in virtual time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, version_number
from aiokube.api.resource import Bookmark, Page, WatchError, WatchEvent
from aiokube.client.errors import ConnectionFailedError, ResponseTruncatedError
from aiokube.testing.api_errors import expired_error, status_error, too_large_error
from aiokube.testing.fake_history import FIRST_VERSION, Backup, FakeHistory

T = TypeVar("T", bound=KubernetesObject)

Batch = list[WatchEvent[T] | Bookmark | WatchError]
RequestKind = Literal["list", "watch", "any"]

_TIMER_SLACK_SECONDS = 1e-9
"""asyncio may run a timer this much early. Virtual time does not advance then, so waiting again would never
end."""
_LAST_BOOKMARK_SECONDS = 2.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request that the source received, in order."""

    kind: Literal["list", "watch"]
    at_seconds: float
    resource_version: str | None = None
    resource_version_match: str | None = None
    limit: int | None = None
    continue_token: str = ""
    send_initial_events: bool = False
    timeout_seconds: int | None = None


class FakeSource(FakeHistory[T]):
    """One resource of a fake server; implements :class:`aiokube.runtime.source.Source`.

    Writes are synchronous (:meth:`create`, :meth:`modify`, :meth:`delete`), with versions that increase by
    one; open watches see them at their next read. All other methods inject the fault in their name.
    """

    def __init__(
        self,
        items: Iterable[T] = (),
        *,
        first_version: int = FIRST_VERSION,
        bookmark_seconds: float | None = 60.0,
    ) -> None:
        super().__init__(first_version=first_version)
        self._lists: dict[str, tuple[list[T], int]] = {}  # by continue token
        self._faults: deque[tuple[RequestKind, BaseException | None]] = deque()
        self._watches: list[_FakeWatch[T]] = []
        self.requests: list[Request] = []
        """All requests so far."""
        self.bookmark_seconds = bookmark_seconds
        """The interval of bookmarks, apart from the one before a watch ends; None for a server without
        bookmarks."""
        self.knows_watch_list = True
        """Whether ``sendInitialEvents`` is supported (kube-apiserver 1.27 and later); if not, it is refused
        with 422."""
        self.ignores_watch_list = False
        """Whether ``sendInitialEvents`` is ignored, as by an older server."""
        self.sends_initial_events_end = True
        """Whether the bookmark that ends the initial events is delivered (k9s#4186)."""
        self.says_expired_in_stream = True
        """Whether a watch from a compacted version gets 200 and an ERROR event, or a 410 response."""
        self.page_delay_seconds = 0.0
        """The duration of each list page."""
        self.mangle: Callable[[Batch[T]], Batch[T]] | None = None
        """Transforms each batch on its way: it may drop, duplicate or reorder events. Empty batches are not
        sent."""
        self._silent = False
        for item in items:
            self.create(item)

    # ------------------------------------------------------------------------------------------------
    # requests

    @property
    def open_watches(self) -> int:
        """The number of open watches."""
        return len(self._watches)

    @property
    def lists(self) -> list[Request]:
        """The received list requests, page by page."""
        return [request for request in self.requests if request.kind == "list"]

    @property
    def watches(self) -> list[Request]:
        """The received watch requests."""
        return [request for request in self.requests if request.kind == "watch"]

    # ------------------------------------------------------------------------------------------------- faults

    @property
    def silent(self) -> bool:
        """Whether open watches send nothing, like connections to a dead peer. Can be set."""
        return self._silent

    @silent.setter
    def silent(self, silent: bool) -> None:
        self._silent = silent
        self.changed()

    @property
    def pending_faults(self) -> int:
        """The number of faults from :meth:`fail_next` and :meth:`hang_next` that have not occurred yet."""
        return len(self._faults)

    def fail_next(self, *errors: BaseException, on: RequestKind = "any") -> None:
        """Fail the next requests with these errors, one each."""
        self._faults.extend((on, error) for error in errors)

    def hang_next(self, count: int = 1, *, on: RequestKind = "any") -> None:
        """Never respond to the next requests."""
        self._faults.extend([(on, None)] * count)

    def clear_faults(self) -> None:
        """Cancel the pending faults."""
        self._faults.clear()

    def break_watches(self, error: BaseException | None = None) -> None:
        """Break the connections of all open watches, by default as if the server had died."""
        for watch in self._watches:
            watch.fail(error if error is not None else ResponseTruncatedError("the connection was reset"))

    def abandon_watches(self) -> None:
        """Make all open watches hang, like connections to a peer that silently disappeared."""
        for watch in self._watches:
            watch.abandon()

    def end_watches(self) -> None:
        """End all open watches normally."""
        for watch in self._watches:
            watch.end()

    def inject(self, *events: WatchEvent[T] | Bookmark | WatchError | BaseException) -> None:
        """Send arbitrary events on all open watches, in one batch each; an exception is raised after it."""
        for watch in self._watches:
            watch.inject(events)

    def send_bookmarks(self) -> None:
        """Send a bookmark on all open watches now."""
        self.inject(Bookmark(str(self.view_version)))

    def compact(self) -> None:
        """Compact the history: no watch can start, and no list continue, from an earlier version."""
        super().compact()
        self._lists.clear()

    def restore(self, backup: Backup[T]) -> None:
        """Restore a backup, as of a database: later writes are lost, and open watches break."""
        super().restore(backup)
        self._lists.clear()
        self.break_watches(ConnectionFailedError("localhost:6443: connection refused"))

    # ------------------------------------------------------------------------------------------- source
    # protocol

    async def list_page(
        self,
        *,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str | None = None,
        resource_version_match: str | None = None,
    ) -> Page[T]:
        """Return one page in the order of keys; see :class:`aiokube.runtime.source.Source`."""
        self.requests.append(
            Request(
                kind="list",
                at_seconds=asyncio.get_running_loop().time(),
                resource_version=resource_version,
                resource_version_match=resource_version_match,
                limit=limit,
                continue_token=continue_token,
            )
        )
        await self.meet_fault("list")
        if self.page_delay_seconds:
            await asyncio.sleep(self.page_delay_seconds)
        if continue_token:
            if continue_token not in self._lists:
                fresh = f"fresh:{len(self.requests)}"
                raise status_error(
                    410, "Expired", "The provided continue parameter is too old", continue_token=fresh
                )
            items, version = self._lists[continue_token]
        else:
            view = self.view() if resource_version else self.backup()
            asked = version_number(resource_version)
            if asked > view.version:
                raise too_large_error(asked, view.version)
            items, version = [view.objects[key] for key in sorted(view.objects)], view.version
        if not limit or len(items) <= limit:
            return Page(tuple(items), str(version))
        token = f"{version}:{len(self.requests)}"
        self._lists[token] = (items[limit:], version)
        return Page(tuple(items[:limit]), str(version), token, len(items) - limit)

    def watch(
        self,
        *,
        resource_version: str | None = None,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch[T]]]:
        """Return a watch; see :class:`aiokube.runtime.source.Source`."""
        return _FakeWatch(self, resource_version or "", send_initial_events, timeout_seconds)

    # ---------------------------------------------------------------------------------------- used by the
    # watches

    def changed(self) -> None:
        """Wake the watches: they may have new events."""
        for watch in self._watches:
            watch.wake()

    async def meet_fault(self, kind: Literal["list", "watch"]) -> None:
        """Fail or hang if the next fault is for this kind of request."""
        for index, (on, fault) in enumerate(self._faults):
            if on in (kind, "any"):
                del self._faults[index]
                if fault is not None:
                    raise fault
                await asyncio.get_running_loop().create_future()

    def opened(self, watch: "_FakeWatch[T]") -> None:
        """Register a watch whose request succeeded."""
        self._watches.append(watch)

    def closed(self, watch: "_FakeWatch[T]") -> None:
        """Unregister a watch that the client has closed."""
        self._watches.remove(watch)


class _FakeWatch(Generic[T]):
    def __init__(
        self, source: FakeSource[T], resource_version: str, initial: bool, timeout_seconds: int | None
    ) -> None:
        self._source = source
        self._resource_version = resource_version
        self._initial = initial
        self._timeout_seconds = timeout_seconds
        self._position = 0
        self._ready: deque[Batch[T] | BaseException] = deque()
        self._over = False
        self._abandoned = False
        self._woken = asyncio.Event()
        self._ends_at = self._bookmark_at = float("inf")

    async def __aenter__(self) -> Self:
        source = self._source
        loop = asyncio.get_running_loop()
        source.requests.append(
            Request(
                kind="watch",
                at_seconds=loop.time(),
                resource_version=self._resource_version or None,
                send_initial_events=self._initial,
                timeout_seconds=self._timeout_seconds,
            )
        )
        await source.meet_fault("watch")
        if self._initial and not source.knows_watch_list:
            raise status_error(
                422,
                "Invalid",
                'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            )
        self._begin()
        if self._timeout_seconds is not None:
            self._ends_at = loop.time() + self._timeout_seconds
        if source.bookmark_seconds is not None:
            self._bookmark_at = self._next_bookmark(loop.time(), source.bookmark_seconds)
        source.opened(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._source.closed(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch[T]:
        while True:
            self._woken.clear()
            if not self._source.silent and not self._abandoned:
                batch = self._next_batch()
                if batch:
                    return batch
                if self._over:
                    raise StopAsyncIteration
            await self._wait()

    def wake(self) -> None:
        self._woken.set()

    def abandon(self) -> None:
        self._abandoned = True
        self.wake()

    def end(self) -> None:
        self._over = True
        self.wake()

    def fail(self, error: BaseException) -> None:
        self._ready.append(error)
        self._over = True
        self.wake()

    def inject(self, events: Iterable[WatchEvent[T] | Bookmark | WatchError | BaseException]) -> None:
        batch: Batch[T] = []
        for event in events:
            if isinstance(event, BaseException):
                if batch:
                    self._ready.append(batch)
                    batch = []
                self._ready.append(event)
            else:
                batch.append(event)
        if batch:
            self._ready.append(batch)
        self.wake()

    def _begin(self) -> None:
        source, asked = self._source, version_number(self._resource_version)
        initial = self._initial and not source.ignores_watch_list
        view = source.view() if asked or not initial else source.backup()
        if initial and asked > view.version:
            raise too_large_error(asked, view.version)
        if initial or not asked:
            state: Batch[T] = [WatchEvent("ADDED", view.objects[key]) for key in sorted(view.objects)]
            if source.sends_initial_events_end and not source.ignores_watch_list:
                state.append(Bookmark(str(view.version), initial_events_end=True))
            if source.mangle is not None:
                state = source.mangle(state)
            if state:
                self._ready.append(state)
            self._position = view.version
        elif asked < source.compacted:
            error = expired_error(asked, source.version)
            if not source.says_expired_in_stream:
                raise error
            self._ready.append([WatchError(error.status)])
            self._over = True
        else:
            self._position = asked

    def _next_batch(self) -> Batch[T]:
        source = self._source
        if self._ready:
            ready = self._ready.popleft()
            if isinstance(ready, BaseException):
                raise ready
            return ready
        if self._over:
            return []
        events, self._position = source.events_after(self._position)
        batch: Batch[T] = [*events]
        now = asyncio.get_running_loop().time() + _TIMER_SLACK_SECONDS
        if now >= self._bookmark_at and source.bookmark_seconds is not None:
            self._bookmark_at = self._next_bookmark(now, source.bookmark_seconds)
            batch.append(Bookmark(str(source.view_version)))
        if now >= self._ends_at:
            self._over = True
        return source.mangle(batch) if source.mangle is not None and batch else batch

    def _next_bookmark(self, now: float, seconds: float) -> float:
        """Return the time of the next bookmark; the last one is just before the end, as from kube-apiserver."""
        before_the_end = self._ends_at - _LAST_BOOKMARK_SECONDS
        return min(now + seconds, before_the_end) if before_the_end > now else now + seconds

    async def _wait(self) -> None:
        until = min(self._bookmark_at, self._ends_at)
        if self._source.silent or self._abandoned or until == float("inf"):
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout_at(until):
                await self._woken.wait()
        except TimeoutError:
            pass
