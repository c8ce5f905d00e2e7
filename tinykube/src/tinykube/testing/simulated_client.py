"""The real client over a simulated link: only the HTTP library's session is replaced.

Retries, credentials and the write fence stay in place; the fence is checked just before bytes would be sent.
"""

import asyncio
import errno
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict

from aiokube.client.config import ClusterConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.http import RetryPolicy, Transport
from aiokube.client.rest import Client
from aiokube.clock import Clock
from tinykube.testing.simulated_network import (
    TOKEN,
    Exchange,
    Frontend,
    Link,
    Request,
    SimulatedResponse,
    describe,
    failure,
    short,
)

_URL = "http://apiserver.simulated"
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_CONNECT_TIMEOUT_SECONDS = 15.0


class SimulatedSession:
    """The subset of aiohttp's session that the client uses: one connection pool over one link."""

    def __init__(self, link: Link, user_agent: str) -> None:
        self._link = link
        self._user_agent = user_agent
        self._frontend: Frontend | None = None

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""

    async def request(
        self, method: str, url: Any, *, data: Any, headers: Mapping[str, str], **_: Any
    ) -> SimulatedResponse:
        """Send a request and return the response once its headers have arrived."""
        parts = urlsplit(str(url))
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        # Like aiohttp: if a reused connection breaks, an idempotent request is retried once.
        may_retry = method in _IDEMPOTENT and self._frontend is not None
        while True:
            try:
                return await self._send(method, target, data, headers)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                self._frontend = None
                if not may_retry:
                    raise
                may_retry = False
                if hasattr(data, "seek"):
                    data.seek(0)

    async def _send(
        self, method: str, target: str, data: Any, headers: Mapping[str, str]
    ) -> SimulatedResponse:
        link = self._link
        if self._frontend is None or self._frontend.host.is_dead:
            self._frontend = await self._connect()
        body = data.read() if hasattr(data, "read") else data or b""  # the fence is checked here
        verb, resource = describe(method, target)
        exchange = Exchange(link, self._frontend, verb, resource, target)
        exchange.fault = link.take_fault(verb, resource)
        if exchange.fault is not None:
            link.tell(f"fault: {exchange.fault.kind} {exchange.fault.code or ''} for {verb} {short(target)}")
        if method not in ("GET", "HEAD") and link.on_sent is not None:
            link.on_sent(verb, resource, target, body)
        link.exchanges[exchange] = None
        all_headers = CIMultiDict({"Accept": "application/json", "User-Agent": self._user_agent, **headers})
        request = Request(exchange, method, target, all_headers, body)
        self._dispatch(exchange, request)
        try:
            return await exchange.started
        except asyncio.CancelledError:
            exchange.close()
            raise

    def _dispatch(self, exchange: Exchange, request: Request) -> None:
        link, fault = self._link, exchange.fault
        seconds = link.latency_seconds()
        if fault is not None:
            if fault.kind == "lose-request":
                link.call_later(seconds, exchange.reset)
                return
            if fault.kind == "slow":
                seconds += fault.seconds
            if fault.kind == "status":
                link.call_later(seconds, exchange.answer, failure(fault))
                return
        link.call_later(seconds, self._reach, exchange, request)

    def _reach(self, exchange: Exchange, request: Request) -> None:
        link = self._link
        if link.is_cut:
            if not exchange.is_closed:  # retransmitted until the client gives up
                link.call_later(0.5, self._reach, exchange, request)
            return
        if exchange.frontend.host.is_dead:
            exchange.reset()
            return
        exchange.frontend.accept(request)

    async def _connect(self) -> Frontend:
        link = self._link
        frontend = link.choose_frontend()
        arrived: asyncio.Future[None] = link.loop.create_future()
        link.call_later(2 * link.latency_seconds(), _resolve, arrived)
        await arrived
        if link.is_cut:
            await asyncio.sleep(_CONNECT_TIMEOUT_SECONDS)
            raise aiohttp.ConnectionTimeoutError("Connection timeout to host")
        if frontend.host.is_dead:
            key = cast("Any", _ConnectionKey("apiserver.simulated", 443, False))
            raise aiohttp.ClientConnectorError(key, OSError(errno.ECONNREFUSED, "Connection refused"))
        return frontend


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _ConnectionKey(NamedTuple):
    host: str
    port: int
    is_ssl: bool
    ssl: bool = False


def simulated_client(
    link: Link,
    *,
    clock: Clock,
    user_agent: str = "simulated",
    retry: RetryPolicy | None = None,
    timeout_seconds: float = 60.0,
) -> Client:
    """Return the real client over a simulated link."""
    config = ClusterConfig(
        server=_URL,
        credentials=StaticCredentials(Credential(authorization=bearer(TOKEN))),
        origin="the simulation",
    )
    return Client(
        Transport(
            config,
            clock=clock,
            user_agent=user_agent,
            retry=retry,
            timeout_seconds=timeout_seconds,
            new_session=lambda: cast("Any", SimulatedSession(link, user_agent)),
        )
    )
