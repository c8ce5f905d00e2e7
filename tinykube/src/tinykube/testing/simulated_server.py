"""The embedded API server on a simulated host: killed at any time, restarted from synced data, with a lagging replica."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from aiohttp import web
from multidict import CIMultiDict

from aiokube.clock import Clock
from aiokube.testing.simulated_loop import SimulatedHost, SimulatedLoop
from aiokube.testing.virtual_time import FakeClock
from tinykube.server.api_server import ApiServer
from tinykube.server.bootstrap import bootstrap
from tinykube.server.errors import expired
from tinykube.server.http.frames import Framer
from tinykube.server.http.identity import Identity
from tinykube.server.http.query import parse_query
from tinykube.server.http.responses import LargeAnswer
from tinykube.server.http.streams import Streams
from tinykube.server.objects import GroupResource
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.server.storage.loading import _change, load
from tinykube.server.storage.log import Batch, Done, Log, MemoryLog, Row
from tinykube.server.storage.model import Change, StorageSettings, Write
from tinykube.server.storage.store import ObjectStorage, _Commit
from tinykube.server.verbs.context import Backend
from tinykube.server.verbs.watch import Failure, Watch
from tinykube.testing.simulated_network import TOKEN, Answer, Exchange, Frontend, Link, Request, Story, short

_RESERVED_REVISIONS = 1_000
_RESERVE_AHEAD = 500

_author: contextvars.ContextVar[str] = contextvars.ContextVar("author of a write", default="")


class Written(NamedTuple):
    """One durable revision, and the host whose request created it; ``""``: the server itself."""

    row: Row
    author: str
    at_seconds: float


class Disk:
    """The data that survives the server: synced rows, and for invariants everything ever written."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.reserved = 0
        self.compacted: dict[GroupResource, int] = {}
        self.history: list[Written] = []
        self.authors: dict[int, str] = {}
        self.observers: list[Callable[[Written], None]] = []

    def sync(self, batch: Batch, now: float) -> None:
        """Apply a batch atomically."""
        for revision in batch.deletions:
            self.rows.pop(revision, None)
        for row in batch.rows:
            self.rows[row.revision] = row
        self.compacted.update(batch.compacted)
        if batch.last_revision > self.reserved - _RESERVE_AHEAD:
            self.reserved = batch.last_revision + _RESERVED_REVISIONS
        for row in batch.rows:
            written = Written(row, self.authors.get(row.revision, ""), now)
            self.history.append(written)
            for observer in self.observers:
                observer(written)


class _DiskLog:
    """The storage's log on a simulated disk: a batch is durable after ``sync_seconds``."""

    is_full = False

    def __init__(self, disk: Disk, loop: SimulatedLoop, sync_seconds: Callable[[], float]) -> None:
        self._disk = disk
        self._loop = loop
        self._sync_seconds = sync_seconds
        self._in_flight: Batch | None = None
        self.high_water = max(disk.reserved, max(disk.rows, default=0))
        self.compacted: Mapping[GroupResource, int] = dict(disk.compacted)

    def rows(self) -> Iterable[Row]:
        return [self._disk.rows[revision] for revision in sorted(self._disk.rows)]

    def try_recover(self) -> bool:
        return True

    def append(self, batch: Batch, done: Done) -> None:
        self._in_flight = batch

        def synced() -> None:
            self._in_flight = None
            self._disk.sync(batch, self._loop.now)
            done(None)

        self._loop.call_later(self._sync_seconds(), synced)

    def sync_in_flight(self) -> None:
        """Make the pending write durable without reporting it: a crash right after the sync."""
        if self._in_flight is not None:
            self._disk.sync(self._in_flight, self._loop.now)
            self._in_flight = None

    def close(self) -> None:
        return

    async def aclose(self) -> None:
        return


class _AttributedStorage(ObjectStorage):
    """The storage, recording the host whose request caused each write."""

    authors: dict[int, str] = {}  # noqa: RUF012 - replaced for each

    def _decide(self, writes: Sequence[Write]) -> tuple[Change, ...]:
        changes = super()._decide(writes)
        author = _author.get()
        for change in changes:
            self.authors[change.revision] = author
        return changes


class _SentStream(web.StreamResponse):
    """A stream whose parts have been sent over the link already."""


class _Streams(Streams):
    """Watches over a simulated link."""

    async def serve(
        self,
        request: Any,
        opened: Watch | Failure,
        framer: Framer,
        content_type: str,
        *,
        audit_id: str,
        warnings: list[str],
    ) -> web.StreamResponse:
        """Send a watch to its client until one of them ends it."""
        exchange: Exchange = request.exchange
        exchange.answer(Answer(200, {"Content-Type": content_type}), is_stream=True)
        if isinstance(opened, Failure):
            exchange.write(framer.frame((opened,)))
            exchange.end()
            return _SentStream()
        exchange.on_closed = opened.close
        fault = exchange.fault
        stalled_from = float("inf")
        if fault is not None:
            match fault.kind:
                case "end-watch":
                    exchange.link.call_later(fault.seconds, exchange.reset)
                case "stall-watch":
                    stalled_from = exchange.link.loop.now + fault.seconds
                case "expire-watch":
                    exchange.link.call_later(fault.seconds, _expire, exchange, opened, framer)
        try:
            while batch := await opened.next_batch():
                if exchange.link.loop.now < stalled_from:
                    exchange.write(framer.frame(batch))
        finally:
            exchange.on_closed = None
            opened.close()
        if exchange.link.loop.now < stalled_from:
            exchange.end()
        return _SentStream()


def _expire(exchange: Exchange, opened: Watch, framer: Framer) -> None:
    if not exchange.is_closed:
        exchange.write(framer.frame((Failure(expired("too old resource version: simulated")),)))
        opened.close()


class _Server(ApiServer):
    """The embedded server without sockets, certificates and files."""

    def __init__(
        self, settings: ServerSettings, clock: Clock, rng: random.Random, log: Log, authors: dict[int, str]
    ) -> None:
        super().__init__(settings, builtin_registry(), clock=clock, rng=rng)
        self._streams = _Streams(clock)
        self._identity = Identity(TOKEN, settings.user, lambda token: None)
        self.storage = _AttributedStorage(
            log, describe=self._registry.describe, clock=clock, settings=settings.storage
        )
        self.storage.authors = authors

    def open(self) -> None:
        """Handle requests; no objects are created and no controllers run."""
        backend = self._backend = self._new_backend(self.storage)
        self._custom.attach(self.storage)
        self.handle = self._dispatcher(backend).handle
        self._is_ready = True

    async def _start(self) -> None:
        self.open()
        self._load_strategies(self.backend)
        await self._start_lifecycle(self.backend)
        await bootstrap(self.backend, host="127.0.0.1", port=443, service_ip="")


class SimulatedApiServer:
    """An API server on a simulated host. It is a frontend for links; :meth:`kill` and :meth:`start` at any time."""

    def __init__(
        self,
        loop: SimulatedLoop,
        rng: random.Random,
        story: Story,
        *,
        name: str = "apiserver-a",
        sync_seconds: float = 0.002,
        storage: StorageSettings | None = None,
        has_lifecycle: bool = True,
    ) -> None:
        self.loop = loop
        self.disk = Disk()
        self.name = name
        self.host = SimulatedHost(name)
        self.host.is_dead = True
        self.links: list[Link] = []
        self.twins: list[LaggingApiServer] = []
        self.admission: Callable[[Request], None] | None = None
        """Called before each request is executed; it may change the body, as a mutating webhook does."""
        self._rng = rng
        self._story = story
        self._sync_seconds = sync_seconds
        self._settings = ServerSettings(
            token=TOKEN, lifecycle=has_lifecycle, service_ip="", storage=storage or StorageSettings()
        )
        self._server: _Server | None = None
        self._log: _DiskLog | None = None
        self._context = contextvars.Context()
        self._ready: asyncio.Future[None] = loop.create_future()

    @property
    def backend(self) -> Backend:
        """The components of the running server."""
        assert self._server is not None, "the server has not been started"  # noqa: S101 - part of the test kit
        return self._server.backend

    async def wait_ready(self) -> None:
        """Return once the last started server is ready."""
        await self._ready

    def start(self) -> None:
        """Start the server with the data on its disk."""
        self.host = SimulatedHost(self.name)
        self._ready = self.loop.create_future()
        self._story(self.name, f"starts, at revision {max(self.disk.rows, default=0)} on disk")
        self._context = contextvars.Context()
        self._context.run(self.loop.start, self.host, self._run(), name=self.name)

    def kill(self, *, after_sync: bool = False) -> None:
        """Kill the server; with ``after_sync`` its pending write becomes durable first, unreported."""
        self._story(self.name, "is killed" + (", after an unreported sync" if after_sync else ""))
        self.loop.kill(self.host)
        if after_sync and self._log is not None:
            self._log.sync_in_flight()
        for twin in self.twins:
            twin.stop()
        for link in self.links:
            link.reset_all(self)
            for twin in self.twins:
                link.reset_all(twin)

    async def _run(self) -> None:
        clock = FakeClock()
        self._log = log = _DiskLog(self.disk, self.loop, lambda: self._sync_seconds * self._rng.random())
        server = self._server = _Server(self._settings, clock, self._rng, log, self.disk.authors)
        async with server:
            for twin in self.twins:
                twin.follow(self.disk)
            self._ready.set_result(None)
            await asyncio.get_running_loop().create_future()

    def accept(self, request: Request) -> None:
        """Handle a request on the server's host."""
        server = self._server
        if server is None or not self._ready.done():
            request.exchange.reset()
            return
        self._handle(server, request)

    def _handle(self, server: _Server, request: Request) -> None:
        async def work() -> None:
            _author.set(request.exchange.link.name)
            if self.admission is not None:
                self.admission(request)
            response = await server.handle(request)  # type: ignore[arg-type]
            if isinstance(response, _SentStream):
                return
            body = _body_of(response)
            headers = {
                name: value
                for name, value in response.headers.items()
                if name in ("Content-Type", "Retry-After", "Location")
            }
            link = request.exchange.link
            if request.method != "GET" or response.status >= 400 or link.tells_reads:
                link.tell(_told(request, response.status, body))
            request.exchange.answer(Answer(response.status, headers, body))

        self.loop.start(self.host, work(), name="request")
        self.host.tasks.clear()

    async def call(
        self, method: str, target: str, body: bytes = b"", content_type: str = "application/json"
    ) -> Answer:
        """Execute a request immediately, without a network, as the test itself."""
        link = _Direct(self.loop, self._story)
        exchange = Exchange(link, self, method, "", target)
        headers = CIMultiDict(
            {"Accept": "application/json", "Content-Type": content_type, "Authorization": f"Bearer {TOKEN}"}
        )
        self.accept(Request(exchange, method, target, headers, body))
        response = await exchange.started
        return Answer(response.status, response.headers, await response.content.readany())


def _body_of(response: web.StreamResponse) -> bytes:
    """Return the body. Raises TypeError for a kind of response that this network cannot carry."""
    match response:
        case LargeAnswer():
            return b"".join(response.pieces)
        case web.Response(body=bytes() | None as body):
            return body or b""
        case _:
            raise TypeError(f"a simulated link cannot carry {response!r}")


def _told(request: Request, status: int, body: bytes) -> str:
    revision = ""
    at = body.find(b'"resourceVersion":"')
    if 200 <= status < 300 and at >= 0:
        revision = " at " + body[at + 19 : body.find(b'"', at + 19)].decode()
    return f"{request.method} {short(request.raw_path)}: {status}{revision}"


class _Direct(Link):
    """No network: messages arrive immediately."""

    def __init__(self, loop: SimulatedLoop, story: Story) -> None:
        super().__init__(loop, "test", [], random.Random(0), story)  # noqa: S311 - not used

    def latency_seconds(self) -> float:
        return 0.0


class LaggingApiServer:
    """A second API server with a lagging watch cache: watches and reads with a version show an older state.

    As in Kubernetes, writes and reads without a version use the same storage as the first server.
    """

    def __init__(
        self, primary: SimulatedApiServer, rng: random.Random, story: Story, *, lag_seconds: float = 0.5
    ) -> None:
        self.name = "apiserver-b"
        self.lag_seconds = lag_seconds
        self._primary = primary
        self._rng = rng
        self._story = story
        self._server: _Server | None = None
        self._storage: ObjectStorage | None = None
        self._queue: list[Written] = []
        self._host = SimulatedHost(self.name)
        self._context = contextvars.Context()
        self._is_frozen = False
        primary.twins.append(self)
        primary.disk.observers.append(self._observe)

    @property
    def host(self) -> SimulatedHost:
        """The host, which fails with the first server's."""
        return self._host

    def stop(self) -> None:
        """Stop with the storage."""
        self._primary.loop.kill(self._host)
        self._server = None

    def freeze(self, *, frozen: bool) -> None:
        """Freeze the watch cache, or let it catch up."""
        self._is_frozen = frozen
        self._story(self.name, "its watch cache stops" if frozen else "its watch cache catches up")
        if not frozen:
            self._apply_due(float("inf"))

    def follow(self, disk: Disk) -> None:
        """Start with the data on disk."""
        self._host = SimulatedHost(self.name)
        self._queue.clear()
        primary = self._primary
        log = MemoryLog()
        server = _Server(primary._settings, FakeClock(), self._rng, log, {})
        server.open()
        storage = server.storage
        self._server, self._storage = server, storage
        rows = [disk.rows[revision] for revision in sorted(disk.rows)]
        load(cast("Any", _Rows(rows, disk.compacted)), storage._collection, server._registry.describe)
        storage._revision = storage._accepted_revision = max(disk.rows, default=1)

    def _observe(self, written: Written) -> None:
        if self._server is None:
            return
        self._queue.append(written)
        lag = self.lag_seconds * self._rng.random()
        self._context.run(self._primary.loop.call_later, lag, self._apply_due, written.row.revision)

    def _apply_due(self, revision: float) -> None:
        storage, server = self._storage, self._server
        if self._is_frozen or storage is None or server is None:
            return
        while self._queue and self._queue[0].row.revision <= revision:
            self._apply(storage, server, self._queue.pop(0).row)

    def _apply(self, storage: ObjectStorage, server: _Server, row: Row) -> None:
        resource = GroupResource(row.group, row.plural)
        collection = storage._collection(resource)
        change = _change(resource, row, collection.get(row.namespace, row.name), server._registry.describe)
        if change is None:
            return
        done = self._primary.loop.create_future()
        storage._publish([_Commit((change,), done, makes_room=True)])

    def accept(self, request: Request) -> None:
        """Answer reads from the watch cache, and delegate everything else to the first server."""
        server = self._server
        query = parse_query(request.raw_path.partition("?")[2])
        from_cache = request.method == "GET" and ("watch" in query or bool(query.get("resourceVersion")))
        if server is None or not from_cache:
            self._primary.accept(request)
            return
        self._primary._handle(server, request)


class _Rows:
    def __init__(self, rows: Sequence[Row], compacted: Mapping[GroupResource, int]) -> None:
        self._rows = rows
        self.compacted = compacted
        self.high_water = 0
        self.is_full = False

    def rows(self) -> Iterable[Row]:
        return self._rows


__all__ = ["Disk", "Frontend", "LaggingApiServer", "SimulatedApiServer", "Written"]
