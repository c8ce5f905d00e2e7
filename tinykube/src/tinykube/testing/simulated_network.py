"""A network in this process, for simulations: links that are slow, lose messages, break or go silent.

:mod:`tinykube.testing.simulated_client` sends the real client's requests over a link. All randomness comes from the
link's random source.
"""

import asyncio
import contextvars
import errno
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import aiohttp
import msgspec
from multidict import CIMultiDict

from aiokube.testing.simulated_loop import SimulatedHost, SimulatedLoop
from tinykube.server.http.faults import refusal
from tinykube.server.http.paths import parse_resource_path, segments_of

TOKEN = "simulatedsimulated"  # noqa: S105 - of a server that only exists in a simulation
_UNACKNOWLEDGED_SECONDS = 14.0
"""The time without an acknowledgement after which the real client's sockets report a broken connection."""


class Story(Protocol):
    """Records one line of the simulation's log."""

    def __call__(self, who: str, what: str) -> None:
        """Record a line."""
        ...


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fault for the next matching request. Empty ``verb`` and ``resource`` match everything.

    ============== ==========================================================================================
    lose-request   the connection breaks before the server has read the request
    lose-answer    the connection breaks after the server has acted
    silence        the server acts; its answer never arrives, without any error (a half-open connection)
    slow           the request takes ``seconds`` to arrive
    status         the server answers ``code`` instead of acting
    act-and-status the server acts, and answers ``code``
    end-watch      the connection of a watch breaks after ``seconds``
    stall-watch    a watch delivers nothing after ``seconds``, without any error
    expire-watch   a watch ends after ``seconds`` with an ERROR event of code 410
    ============== ==========================================================================================
    """

    kind: str
    verb: str = ""
    resource: str = ""
    code: int = 0
    seconds: float = 0.0
    retry_after_seconds: int | None = None

    def matches(self, verb: str, resource: str) -> bool:
        """Return whether the fault applies to a request."""
        if self.kind.endswith("-watch") != (verb == "watch"):
            return False
        return self.verb in ("", verb) and self.resource in ("", resource)

    def __str__(self) -> str:
        target = " ".join(part for part in (self.verb, self.resource) if part) or "any request"
        details = "".join(
            (
                f" {self.code}" if self.code else "",
                f" after {self.seconds:g} s" if self.seconds else "",
                f" Retry-After {self.retry_after_seconds}" if self.retry_after_seconds is not None else "",
            )
        )
        return f"{self.kind}{details} on the next {target}"


class Answer(NamedTuple):
    """A response; the body of a stream follows later."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Request:
    """A request on the server's side: the subset of aiohttp's request that the server uses, and the way back."""

    def __init__(
        self, exchange: "Exchange", method: str, target: str, headers: CIMultiDict[str], body: bytes
    ) -> None:
        self.exchange = exchange
        self.method = method
        self.raw_path = target
        self.path = target.partition("?")[0]
        self.headers = headers
        self.content_length = len(body)
        self.body = body

    async def read(self) -> bytes:
        """Return the body."""
        return self.body


class Frontend(Protocol):
    """An API server as seen by the network."""

    @property
    def host(self) -> SimulatedHost:
        """The host that it currently runs on."""
        ...

    def accept(self, request: Request) -> None:
        """Start handling a request; called outside of any host."""
        ...


class Exchange:
    """One request and its response, possibly a stream. The server's side calls ``answer``, ``write``, ``end``, ``reset``."""

    def __init__(self, link: "Link", frontend: Frontend, verb: str, resource: str, target: str) -> None:
        self.link = link
        self.frontend = frontend
        self.verb = verb
        self.resource = resource
        self.target = target
        self.started: asyncio.Future[SimulatedResponse] = link.loop.create_future()
        self.on_closed: Callable[[], None] | None = None
        self.fault: Fault | None = None
        self.is_closed = False
        self._response: SimulatedResponse | None = None
        self._held: deque[Callable[[], None]] = deque()
        self._expected_at = 0.0

    # ----------------------------------------------------------------------------------------- server side

    def answer(self, answer: Answer, *, is_stream: bool = False) -> None:
        """Send the response, or the headers of a stream."""
        if self.fault is not None and not is_stream:
            match self.fault.kind:
                case "lose-answer":
                    self.reset()
                    return
                case "silence":
                    return
                case "act-and-status":
                    answer = failure(self.fault)
        self._send(lambda: self._deliver_answer(answer, is_stream))

    def write(self, data: bytes) -> None:
        """Send a part of a stream."""
        link = self.link
        seconds = link.withheld.get(link.deliveries, 0.0)
        link.deliveries += 1
        if seconds:
            link.tell(f"{self.verb} {self.resource}: delivery delayed by {seconds:g} s")
            self._expected_at = max(self._expected_at, link.loop.now + seconds)
        self._send(lambda: self._deliver(data))

    def end(self) -> None:
        """End a stream cleanly."""
        self._send(lambda: self._deliver(None))

    def reset(self) -> None:
        """Break the connection."""
        self._send(self._deliver_reset)

    # ----------------------------------------------------------------------------------------- client side

    def close(self) -> None:
        """Close the connection from the client's side; the server notices immediately."""
        if not self.is_closed:
            self.is_closed = True
            self.link.exchanges.pop(self, None)
            closed, self.on_closed = self.on_closed, None
            if closed is not None:
                closed()

    def time_out(self) -> None:
        """Report the connection as dead to the client: nothing was acknowledged for too long."""
        if not self.is_closed:
            self._fail(aiohttp.ClientOSError(errno.ETIMEDOUT, "Connection timed out"))

    def release(self) -> None:
        """Deliver messages delayed while the link was cut."""
        for _ in range(len(self._held)):
            self._schedule()

    def _send(self, deliver: Callable[[], None]) -> None:
        if self.is_closed:
            return
        self._held.append(deliver)
        if not self.link.is_cut:
            self._schedule()

    def _schedule(self) -> None:
        loop = self.link.loop
        # In order, regardless of each message's latency.
        self._expected_at = max(loop.now + self.link.latency_seconds(), self._expected_at)
        self.link.call_later(self._expected_at - loop.now, self._arrive)

    def _arrive(self) -> None:
        if self.link.is_cut or self.is_closed or not self._held:
            return
        self._held.popleft()()

    def _deliver_answer(self, answer: Answer, is_stream: bool) -> None:
        self._response = SimulatedResponse(self, answer)
        if not is_stream:
            self._response.content.feed(answer.body)
            self._response.content.feed(None)
            self.is_closed = True
            self.link.exchanges.pop(self, None)
        if not self.started.done():
            self.started.set_result(self._response)

    def _deliver(self, data: bytes | None) -> None:
        if self._response is not None:
            self._response.content.feed(data)
        if data is None:
            self.is_closed = True
            self.link.exchanges.pop(self, None)

    def _deliver_reset(self) -> None:
        self._fail(aiohttp.ServerDisconnectedError())

    def _fail(self, error: aiohttp.ClientError) -> None:
        if not self.started.done():
            self.started.set_exception(error)
            self.started.exception()
        elif self._response is not None:
            self._response.content.set_exception(aiohttp.ClientPayloadError("the connection broke"))
        self.close()


class _Content:
    """The body of a response as it arrives: the subset of aiohttp's StreamReader that the client uses."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._parts: list[bytes] = []
        self._is_complete = False
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes | None) -> None:
        if data is None:
            self._is_complete = True
        else:
            self._parts.append(data)
        self._wake()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def exception(self) -> BaseException | None:
        return self._error

    def is_eof(self) -> bool:
        return self._is_complete

    def at_eof(self) -> bool:
        return self._is_complete and not self._parts

    async def readany(self) -> bytes:
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._is_complete:
                return b""
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class SimulatedResponse:
    """The subset of aiohttp's response that the client uses."""

    connection = None

    def __init__(self, exchange: Exchange, answer: Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.content = _Content(exchange.link.loop)
        self._exchange = exchange

    @property
    def content_type(self) -> str:
        """The media type."""
        return self.headers.get("Content-Type", "").partition(";")[0]

    def close(self) -> None:
        """Close the connection, unless the response is complete."""
        self._exchange.close()


@dataclass(slots=True)
class Latency:
    """The latency of messages: at least ``least_seconds``, occasionally ``slow_seconds`` more."""

    least_seconds: float = 0.001
    spread_seconds: float = 0.004
    slow_seconds: float = 0.0
    slow_share: float = 0.0


class Link:
    """The network between one host and the API servers: its latency, its faults, and whether it is cut.

    A cut link holds messages. If it is repaired soon they arrive late, as TCP retransmits them; after 14
    seconds, connections with unacknowledged data, or with a watch, are reported to the client as broken.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        frontends: list[Frontend],
        rng: random.Random,
        story: Story,
        latency: Latency | None = None,
    ) -> None:
        self.loop = loop
        self.name = name
        self.is_cut = False
        self.exchanges: dict[Exchange, None] = {}
        self.faults: list[Fault] = []
        self.tells_reads = False
        """Whether successful reads are logged, too."""
        self.deliveries = 0
        """The number of watch messages sent so far."""
        self.withheld: dict[int, float] = {}
        """Delays in seconds by delivery number; later deliveries of the same watch wait, too."""
        self.on_sent: Callable[[str, str, str, bytes], None] | None = None
        """Called with verb, resource, target and body when the bytes of a write leave the host."""
        self._frontends = frontends
        self._rng = rng
        self._story = story
        self._latency = latency or Latency()
        self._network = contextvars.Context()
        self._cuts = 0

    def latency_seconds(self) -> float:
        """Return the latency of the next message."""
        latency = self._latency
        draw = self._rng.random()
        seconds = latency.least_seconds + latency.spread_seconds * draw * draw
        if latency.slow_share and self._rng.random() < latency.slow_share:
            seconds += latency.slow_seconds * self._rng.random()
        return seconds

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Call back in virtual time, outside of any host."""
        self._network.run(self.loop.call_later, max(seconds, 0.0), callback, *arguments)

    def choose_frontend(self) -> Frontend:
        """Return the API server for a new connection."""
        return self._rng.choice(self._frontends) if len(self._frontends) > 1 else self._frontends[0]

    def cut(self) -> None:
        """Stop deliveries in both directions."""
        self.is_cut = True
        self._cuts += 1
        self.call_later(_UNACKNOWLEDGED_SECONDS, self._notice, self._cuts)

    def restore(self) -> None:
        """Resume deliveries, starting with the delayed messages."""
        if self.is_cut:
            self.is_cut = False
            for exchange in list(self.exchanges):
                exchange.release()

    def _notice(self, cut: int) -> None:
        if self.is_cut and cut == self._cuts:
            for exchange in list(self.exchanges):
                exchange.time_out()

    def close_all(self) -> None:
        """Close the connections of a killed host, as its kernel does."""
        for exchange in list(self.exchanges):
            if self.is_cut:
                exchange.on_closed = None
            exchange.close()

    def reset_all(self, frontend: Frontend) -> None:
        """Break the connections to a killed server."""
        for exchange in list(self.exchanges):
            if exchange.frontend is frontend:
                exchange.reset()

    def take_fault(self, verb: str, resource: str) -> Fault | None:
        """Remove and return the fault for a request."""
        for index, fault in enumerate(self.faults):
            if fault.matches(verb, resource):
                del self.faults[index]
                return fault
        return None

    def tell(self, what: str) -> None:
        """Record a line in the log."""
        self._story(self.name, what)


def failure(fault: Fault) -> Answer:
    """Return the error response of a fault."""
    error = refusal(fault.code, fault.retry_after_seconds)
    headers = {"Content-Type": "application/json", **error.headers}
    return Answer(fault.code, headers, msgspec.json.encode(error.to_status()))


def describe(method: str, target: str) -> tuple[str, str]:
    """Return the verb and plural name of a request."""
    path, _, query = target.partition("?")
    resource = parse_resource_path(segments_of(path))
    plural = resource.plural if resource is not None else ""
    if method == "GET":
        if "watch=true" in query:
            return "watch", plural
        return ("get" if resource is not None and resource.name else "list"), plural
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
        method, method
    ), plural


def short(target: str) -> str:
    """Return a path without its API prefix, for the log."""
    path, _, query = target.partition("?")
    parts = [part for part in path.split("/") if part and part not in ("api", "apis", "v1", "namespaces")]
    version = [part for part in query.split("&") if part.startswith("resourceVersion=")]
    return "/".join(parts) + (f" from {version[0].partition('=')[2]}" if version else "")
