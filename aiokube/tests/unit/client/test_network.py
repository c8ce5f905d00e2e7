"""Network failures: the type states whether the server may have acted, the message names the peer."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of

from aiokube.api.core import PODS
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Bookmark
from aiokube.client import http
from aiokube.client.config import ClusterConfig
from aiokube.client.errors import (
    ConnectionFailedError,
    InternalServerError,
    NotFoundError,
    RequestTimedOutError,
    ResponseTruncatedError,
    ServiceUnavailableError,
    TransportError,
    UnexpectedResponseError,
)
from aiokube.client.network import Peer, transport_error
from aiokube.client.rest import Client
from aiokube.testing.virtual_time import ManualClock

KEY = ObjectKey("default", "a")
Script = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STORED = b'{"metadata":{"name":"a"}}'
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(STORED) + STORED


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[str]:
    """Run a server that sends exact bytes; ``script`` gets the connection's number."""
    connections = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await script(connections, reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ),
        0,
    )
    return head + await reader.readexactly(length)


def client_at(url: str, clock: ManualClock) -> Client:
    return Client.from_config(ClusterConfig(url), clock=clock)


def hang_up(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, without a graceful shutdown."""
    transport = writer.transport
    assert transport is not None
    transport.abort()


async def test_a_refused_connection_names_host_and_port_and_rules_out_side_effects(
    clock: ManualClock,
) -> None:
    async with raw_server(lambda number, reader, writer: asyncio.sleep(0)) as url:
        pass  # the port is closed now
    async with client_at(url, clock) as client:
        with pytest.raises(
            ConnectionFailedError, match=r"cannot connect to 127\.0\.0\.1:\d+: Connection refused"
        ) as raised:
            await client.create(ENDPOINTS, Endpoints(), namespace="default")
    assert not raised.value.may_have_acted
    assert raised.value.retryable


async def test_an_unknown_host_is_named_in_the_error(clock: ManualClock) -> None:
    async with client_at("http://no-such-host.invalid:6443", clock) as client:
        with pytest.raises(ConnectionFailedError, match=r"no-such-host\.invalid:6443: no such host"):
            await client.get(PODS, KEY)


async def test_a_post_with_a_lost_response_is_not_retried(clock: ManualClock) -> None:
    requests = 0

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1
        hang_up(writer)

    async with raw_server(script) as url, client_at(url, clock) as client:
        with pytest.raises(ConnectionFailedError, match="before") as raised:
            await client.create(ENDPOINTS, Endpoints(), namespace="default")
    assert raised.value.may_have_acted
    assert requests == 1


@pytest.mark.parametrize(
    "error", [aiohttp.ClientOSError(errno.ECONNRESET, "reset"), aiohttp.ServerDisconnectedError()]
)
def test_failures_after_sending_are_marked_as_possibly_processed(error: aiohttp.ClientError) -> None:
    found = transport_error(error, "POST", "/x", Peer("host", 1))
    assert isinstance(found, ConnectionFailedError)
    assert found.may_have_acted
    assert str(found).startswith("POST /x: ")
    assert "host:1" in str(found)
    assert isinstance(
        transport_error(error, "GET", "/x", Peer("host", 1), inside=True), ResponseTruncatedError
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_dropped_keep_alive_connection_is_replaced_for_idempotent_methods(
    clock: ManualClock, method: str
) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(WHOLE)
        await read_request(reader)
        if number == 1:
            hang_up(writer)  # the second request of the first connection finds it closed
        else:
            writer.write(WHOLE)

    async def ask(client: Client) -> None:
        if method == "GET":
            await client.get(ENDPOINTS, KEY)
        elif method == "PUT":
            await client.update(ENDPOINTS, Endpoints(), key=KEY)
        else:
            await client.delete(ENDPOINTS, KEY)

    async with raw_server(script) as url, client_at(url, clock) as client:
        await ask(client)
        await ask(client)


async def test_an_aborted_response_raises_a_truncation_error(clock: ManualClock) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n{")
        await writer.drain()

    async with raw_server(script) as url, client_at(url, clock) as client:
        with pytest.raises(ResponseTruncatedError, match="broke within the response") as raised:
            await client.get(PODS, KEY)
    assert raised.value.may_have_acted


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LINE = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_broken_watch_yields_complete_events_and_then_raises(
    clock: ManualClock, is_reset: bool
) -> None:
    read = asyncio.Event()

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(LINE + LINE[:20]))
        await read.wait()
        if is_reset:
            hang_up(writer)

    async with raw_server(script) as url, client_at(url, clock) as client, client.watch(PODS) as batches:
        assert await anext(batches) == [Bookmark("9")]
        read.set()
        with pytest.raises(ResponseTruncatedError, match="broke within the response"):
            await anext(batches)


async def test_a_watch_that_ends_cleanly_silently_drops_an_incomplete_line(clock: ManualClock) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(LINE + LINE[:20]) + b"0\r\n\r\n")

    async with raw_server(script) as url, client_at(url, clock) as client, client.watch(PODS) as batches:
        assert [batch async for batch in batches] == [[Bookmark("9")]]


async def test_a_watch_with_broken_framing_raises(clock: ManualClock) -> None:
    read = asyncio.Event()

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(LINE))
        await read.wait()
        writer.write(b"no length\r\n" + LINE)
        await writer.drain()

    async with raw_server(script) as url, client_at(url, clock) as client, client.watch(PODS) as batches:
        assert await anext(batches) == [Bookmark("9")]
        read.set()
        with pytest.raises(ResponseTruncatedError):
            await anext(batches)


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
    ],
    ids=["bad gzip", "bad gzip of a failure", "bad header", "long header", "204", "304"],
)
async def test_a_malformed_response_is_a_transport_error(clock: ManualClock, answer: bytes) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    async with raw_server(script) as url, client_at(url, clock) as client:
        with pytest.raises(TransportError, match=r"^GET /api/v1/pods: ") as raised:
            await client.list_page(PODS)
    assert raised.value.retryable


async def test_a_peer_that_does_not_speak_http_is_reported_as_such(clock: ManualClock) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await writer.drain()

    async with raw_server(script) as url, client_at(url, clock) as client:
        with pytest.raises(UnexpectedResponseError, match="does not respond with HTTP"):
            await client.get(PODS, KEY)


@pytest.mark.parametrize(
    ("code", "text", "kind", "message"),
    [
        (404, "404 page not found\n", NotFoundError, "GET /x: HTTP 404 Not Found: 404 page not found"),
        (502, "", ServiceUnavailableError, "GET /x: HTTP 502 Bad Gateway"),
        (500, "a\n  b", InternalServerError, "GET /x: HTTP 500 Internal Server Error: a b"),
        (599, "", InternalServerError, "GET /x: HTTP 599"),
    ],
)
async def test_an_error_response_without_a_status_is_reported_with_its_text(
    server: Server, clock: ManualClock, code: int, text: str, kind: type[Exception], message: str
) -> None:
    server.script(web.Response(status=code, text=text))
    async with client_of(server, clock) as client:
        with pytest.raises(kind) as raised:
            await client.request("GET", "/x")
    assert str(raised.value) == message


async def test_long_error_texts_are_truncated_and_html_pages_are_omitted(
    server: Server, clock: ManualClock
) -> None:
    server.script(
        web.Response(status=503, text="x" * 5000),
        web.Response(status=503, text="<html>", content_type="text/html"),
    )
    async with client_of(server, clock) as client:
        with pytest.raises(ServiceUnavailableError) as raised:
            await client.request("GET", "/x")
        assert len(str(raised.value)) < 300
        with pytest.raises(ServiceUnavailableError) as raised:
            await client.request("GET", "/x")
    assert "html" not in str(raised.value)


async def test_an_unexpected_response_body_raises_an_error_without_quoting_it(
    server: Server, clock: ManualClock
) -> None:
    server.script(web.Response(text="<html>welcome, secret</html>"))
    async with client_of(server, clock) as client:
        for ask in (client.get(PODS, KEY), client.list_page(PODS)):
            with pytest.raises(UnexpectedResponseError, match="cannot be read as pods") as raised:
                await ask
            assert "secret" not in str(raised.value)


async def test_other_pooled_connections_are_not_reused_after_one_was_found_dead(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy that keeps dead connections open, each request on one of them took a minute to fail."""
    monkeypatch.setattr(http, "_DISTRUSTED_ANSWER_SECONDS", 0.01)
    served: list[int] = []
    swallowed = asyncio.Event()

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                await read_request(reader)
            except EOFError:
                return
            if number == 1 and served:
                swallowed.set()
                await reader.read()  # dead from its second request on
                return
            served.append(number)
            writer.write(WHOLE)
            await writer.drain()

    async with raw_server(script) as url, client_at(url, clock) as client, asyncio.TaskGroup() as group:
        await client.get(ENDPOINTS, KEY)
        hanging = group.create_task(_outcome(client.get(ENDPOINTS, KEY)), name="hanging")
        await swallowed.wait()
        client.distrust_connections()
        await client.get(ENDPOINTS, KEY)
        assert served == [1, 2]
        assert isinstance(await hanging, RequestTimedOutError)
        for _ in range(10):  # as often as it may be
            client.distrust_connections()
            await client.get(ENDPOINTS, KEY)


async def test_open_watches_continue_when_pooled_connections_are_discarded(clock: ManualClock) -> None:
    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        await writer.drain()
        await distrusted.wait()
        line = b'{"type":"BOOKMARK","object":{"kind":"Endpoints","metadata":{"resourceVersion":"7"}}}\n'
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
        await writer.drain()

    distrusted = asyncio.Event()
    async with (
        raw_server(script) as url,
        client_at(url, clock) as client,
        client.watch(ENDPOINTS) as batches,
    ):
        client.distrust_connections()
        distrusted.set()
        assert [batch async for batch in batches] == [[Bookmark("7")]]


async def _outcome(request: Awaitable[object]) -> object:
    try:
        return await request
    except TransportError as error:
        return error
