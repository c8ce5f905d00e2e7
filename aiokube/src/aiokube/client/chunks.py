"""An answer that is read as it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import aiohttp

from aiokube.client.network import HTTP_ERRORS, Peer, transport_error


class Chunks:
    """What has arrived of an answer, each time that it is asked; no generator, which would need closing.

    Raises ResponseTruncatedError, or another TransportError, where the connection breaks; what had arrived and was
    not asked for before is lost then.
    """

    def __init__(self, response: aiohttp.ClientResponse, path: str, peer: Peer) -> None:
        self._content = response.content
        self._path = path
        self._peer = peer
        _fail_when_closed(response)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._content.readany()
        except HTTP_ERRORS as problem:
            raise transport_error(problem, "GET", self._path, self._peer, inside=True) from None
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _fail_when_closed(response: aiohttp.ClientResponse) -> None:
    """End the reading of an answer whose connection is closed.

    aiohttp (3.14) closes a connection on which a later chunk is badly framed and forgets who is reading, who
    would wait forever.
    """
    connection = response.connection
    closed = (
        connection.protocol.closed if connection is not None and connection.protocol is not None else None
    )
    if closed is None:
        return
    content = response.content

    def fail(closing: asyncio.Future[None]) -> None:
        if not closing.cancelled():
            closing.exception()  # seen: it is told to who reads
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection was closed"))

    closed.add_done_callback(fail)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that has not ended, at once.

    A polite end of TLS waits for the other side, which may be gone, and outlives the client that it belongs to.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class Opened:
    """Something read out of an answer: entering it sends the request, leaving it closes what has not ended.

    ``what`` and ``verb`` are for the error of who reads before: ``a watch``, and the client's method that gives it.
    """

    def __init__(
        self, stream: AbstractAsyncContextManager[AsyncIterator[bytes]], what: str, verb: str
    ) -> None:
        self._stream = stream
        self._what = what
        self._verb = verb
        self._arriving: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        self._arriving = await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)

    def __aiter__(self) -> Self:
        return self

    @property
    def _chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the answer. Raises ``RuntimeError`` before it was entered."""
        if self._arriving is None:
            raise RuntimeError(
                f"{self._what} has to be entered before it is read: async with client.{self._verb}(...)"
            )
        return self._arriving
