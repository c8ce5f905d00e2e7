"""Responses that are read as they arrive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import aiohttp

from aiokube.client.network import HTTP_ERRORS, Peer, transport_error


class Chunks:
    """An async iterator over the chunks of a response; unlike a generator, it needs no closing.

    Raises ResponseTruncatedError, or another TransportError, if the connection breaks; bytes that arrived
    but were not yet read are lost then.
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
    """Fail reads of a response when its connection is closed.

    aiohttp (3.14) closes a connection with a malformed chunk but does not wake the reader, which would wait
    forever.
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
            closing.exception()  # mark it as retrieved: the reader gets the error below
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection was closed"))

    closed.add_done_callback(fail)


def abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an unfinished response immediately.

    A graceful TLS shutdown waits for the peer, which may be unreachable, and would outlive the client.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class StreamContext:
    """A streamed response as a context manager: entering sends the request, leaving closes the connection.

    ``what`` and ``verb`` word the error of a read before entering: ``a watch``, and the client method that
    returns it.
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
        """Return the chunks of the response. Raises ``RuntimeError`` before entering."""
        if self._arriving is None:
            raise RuntimeError(
                f"{self._what} must be entered before it is read: async with client.{self._verb}(...)"
            )
        return self._arriving
