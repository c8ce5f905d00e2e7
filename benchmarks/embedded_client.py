"""A minimal client for loading an API server: HTTP/1.1 over TLS, one request at a time per connection.

It does little work per response, so that the server gets most of two cores.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

_END_OF_HEADERS = b"\r\n\r\n"
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"
_EVENT = b'{"type":"'
_TIMEOUT_SECONDS = 300.0

STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class AnswerError(RuntimeError):
    """The server rejected a request or closed the connection: the measurement is invalid."""


class Address(msgspec.Struct, frozen=True):
    """Address and credentials of a server. ``token`` is a secret."""

    url: str
    authority: bytes
    """CA certificate (PEM) that verifies the server's."""
    token: str

    def __repr__(self) -> str:
        """Return a printable form without the token."""
        return f"Address({self.url!r})"

    @property
    def endpoint(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 443

    def context(self) -> ssl.SSLContext:
        """Return the clients' TLS settings."""
        return ssl.create_default_context(cadata=self.authority.decode())


class Answer(msgspec.Struct, frozen=True):
    """A complete response; ``body`` still includes chunk framing if the server used it."""

    code: int
    body: bytes


class Connection(asyncio.Protocol):
    """A persistent connection, made by :func:`connect`; one request at a time."""

    def __init__(self, address: Address) -> None:
        self._host = urlsplit(address.url).netloc
        self._common = (
            f"Host: {self._host}\r\nAuthorization: Bearer {address.token}\r\n"
            "User-Agent: endpointd-benchmarks\r\nAccept: application/json\r\n"
        )
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._length = 0
        self._whole = -1
        """Bytes of the complete response; -1 while unknown, 0 if only the end of the stream marks it."""
        self._waiter: asyncio.Future[bytes] | None = None
        self._lost = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = f"the server has hung up ({exc})" if exc else "the server has hung up"
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(AnswerError(self._lost))

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._length += len(data)
        if self._whole < 0:
            self._look_at_headers()
        if self._whole > 0:
            is_whole = self._length >= self._whole
        else:
            is_whole = self._whole == 0 and self._tail().endswith(_END_OF_CHUNKS)
        if is_whole and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(b"".join(self._parts))

    def _look_at_headers(self) -> None:
        seen = b"".join(self._parts)
        head, found, _ = seen.partition(_END_OF_HEADERS)
        if not found:
            return
        _, has_length, rest = head.lower().partition(b"\r\ncontent-length:")
        self._whole = len(head) + len(_END_OF_HEADERS) + int(rest.split(b"\r\n")[0]) if has_length else 0

    def _tail(self) -> bytes:
        last = self._parts[-1]
        return last if len(last) >= len(_END_OF_CHUNKS) else b"".join(self._parts[-8:])

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> Answer:
        """Return the complete response. Raises AnswerError for any status but 2xx, TimeoutError."""
        self.send(method, path, body, content_type)
        self._waiter = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            whole = await self._waiter
        head, _, content = whole.partition(_END_OF_HEADERS)
        code = int(head[9:12])
        if not 200 <= code < 300:
            raise AnswerError(f"{method} {path}: {code} {content[:300].decode(errors='replace')}")
        return Answer(code, content)

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> None:
        """Send a request without waiting. Raises AnswerError if the connection is closed."""
        if self._transport is None or self._lost:
            raise AnswerError(self._lost or "not connected")
        self._parts, self._length, self._whole = [], 0, -1
        head = f"{method} {path} HTTP/1.1\r\n{self._common}"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(f"{head}\r\n".encode() + body)

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.abort()


class Watcher(Connection):
    """A watching connection that counts events without decoding them."""

    def __init__(self, address: Address, told: Callable[[int], None]) -> None:
        super().__init__(address)
        self.events = 0
        self._told = told
        self._rest = b""
        self._is_open = False
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self._is_open:
            head, found, rest = data.partition(_END_OF_HEADERS)
            if not found:
                self._rest = data
                return
            self._is_open, data = True, rest
            if b" 200 " in head[:16]:
                self.opened.set_result(None)
            else:
                self.opened.set_exception(AnswerError(f"the watch was refused: {head[:40]!r}"))
        count = data.count(_EVENT)
        self._rest = data[-len(_EVENT) + 1 :] if not data.endswith(b"\n") else b""
        if count:
            self.events += count
            self._told(count)


@asynccontextmanager
async def connections(address: Address, count: int) -> AsyncIterator[Sequence[Connection]]:
    """Open ``count`` connections for the block. Raises OSError."""
    loop, tls = asyncio.get_running_loop(), address.context()
    opened: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(
                lambda: Connection(address), *address.endpoint, ssl=tls
            )
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()


@asynccontextmanager
async def watchers(
    address: Address, count: int, path: str, told: Callable[[int], None]
) -> AsyncIterator[Sequence[Watcher]]:
    """Open ``count`` accepted watches for the block. Raises OSError, AnswerError."""
    loop, tls = asyncio.get_running_loop(), address.context()
    opened: list[Watcher] = []
    try:
        for _ in range(count):
            _, watcher = await loop.create_connection(
                lambda: Watcher(address, told), *address.endpoint, ssl=tls
            )
            opened.append(watcher)
            watcher.send("GET", path)
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await watcher.opened
        yield opened
    finally:
        for watcher in opened:
            watcher.close()
