"""Silent, slow and excess clients are disconnected in time, and others are served."""

import asyncio
import ssl
from contextlib import suppress
from typing import cast

import pytest
from aiohttp import web
from tests.unit.server.http.served import TOKEN, ServedApi, a_server

from tinykube.server.http import connections
from tinykube.server.http import request_info as asked
from tinykube.server.http.connections import Connection, Connections
from tinykube.server.settings import ConnectionLimits

SHORT = ConnectionLimits(head_seconds=0.4, idle_seconds=0.4, write_seconds=0.4)
GET = f"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"


async def connect(api: ServedApi) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = ssl.create_default_context(cadata=api.server.authority.decode())
    port = int(api.server.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")


async def assert_closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(20):
        try:
            while await reader.read(65536):
                pass
        except (ConnectionError, ssl.SSLError):
            pass


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


@pytest.mark.parametrize("sent", ["", "GET /api HTTP/1.1\r\nHo", f"{GET}\r\n", f"{GET}\r\n{GET}"])
async def test_a_connection_without_a_complete_request_is_closed_in_time(sent: str) -> None:
    async with a_server(connections=SHORT) as api:
        reader, writer = await connect(api)
        writer.write(sent.encode())
        await assert_closed(reader)
        writer.close()
        assert (await api("GET", "/api/v1/namespaces")).code == 200


async def test_an_incomplete_body_is_rejected_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "_BODY_SECONDS", 0.3)
    async with a_server() as api:
        reader, writer = await connect(api)
        head = GET.replace("GET", "POST") + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        writer.write(head.encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        await assert_closed(reader)
        writer.close()


async def test_an_idle_watch_is_kept_open() -> None:
    async with a_server(connections=SHORT) as api:
        reader, writer = await connect(api)
        writer.write(GET.replace("namespaces", "namespaces?watch=1").encode() + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(1.5)
        assert (await api("POST", "/api/v1/namespaces", {"metadata": {"name": "late"}})).code == 201
        async with asyncio.timeout(20):
            await reader.readuntil(b'"late"')
        writer.close()


async def test_a_client_that_does_not_read_is_disconnected_in_time() -> None:
    async with a_server(connections=ConnectionLimits(write_seconds=0.4)) as api:
        for number in range(12):
            body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900_000}}
            assert (await api("POST", "/api/v1/namespaces/default/configmaps", body)).code == 201
        reader, writer = await connect(api)
        transport = cast("asyncio.Transport", writer.transport)
        transport.pause_reading()
        writer.write(GET.replace("namespaces", "configmaps").encode() + b"\r\n")
        await asyncio.sleep(2.0)
        transport.resume_reading()
        received = 0
        async with asyncio.timeout(20):
            try:
                while part := await reader.read(65536):
                    received += len(part)
            except (ConnectionError, ssl.SSLError):
                pass
        assert received < 10_000_000
        assert (await api("GET", "/api/v1/namespaces")).code == 200
        writer.close()


async def test_connections_beyond_the_limit_are_rejected_and_others_are_served() -> None:
    async with a_server(connections=ConnectionLimits(max_connections=4, safe_seconds=60.0)) as api:
        assert (await api("GET", "/api/v1/namespaces")).code == 200
        kept = [await connect(api) for _ in range(3)]
        for _ in range(3):
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await connect(api)
        assert (await api("GET", "/api/v1/namespaces")).code == 200
        for _, writer in kept:
            writer.close()


async def test_silent_connections_are_closed_in_favour_of_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as many bare connections as there may be: each request on a new connection is answered all the same."""
    monkeypatch.setattr(connections, "_IDLE_LOOK_SECONDS", 0.0)
    limits = ConnectionLimits(max_connections=4, safe_seconds=0.0)
    async with a_server(connections=limits) as api:
        port = int(api.server.url.rpartition(":")[2])
        silent = []
        for _ in range(6):
            silent.append(await asyncio.open_connection("127.0.0.1", port))  # not even a handshake
            silent.append(await connect(api))  # no request
            reader, writer = await connect(api)
            writer.write(f"{GET}Connection: close\r\n\r\n".encode())
            async with asyncio.timeout(20):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await leave(writer)
        for _, writer in silent:
            await leave(writer)


async def test_an_active_connection_is_kept_even_if_no_check_coincides_with_a_request() -> None:
    async def respond(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    limits = ConnectionLimits(head_seconds=30.0, idle_seconds=120.0)
    made = Connections(respond, limits, reserve=1)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(made, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    now = loop.time()
    for _ in range(4):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        now += 100.0
        connection = cast("Connection", made.connections[0])
        connection.check(now, limits)
        assert connection.transport is not None
        assert not connection.transport.is_closing()
    connection.check(now + 121.0, limits)
    await assert_closed(reader)
    await leave(writer)
    made.stop_checking()
    listener.close()


class _Stalled:
    """A connection whose client does not read, as the connection table sees it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_aborted = False

    def unread_seconds(self, _now: float) -> float:
        return self.seconds

    def abort(self) -> None:
        self.is_aborted = True


async def test_of_too_many_stalled_clients_the_longest_stalled_are_disconnected() -> None:
    async def unused(_: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    made = Connections(unused, ConnectionLimits(max_unread=2), reserve=1)
    stalled = [_Stalled(seconds) for seconds in (60.0, 50.0, 40.0, 0.0)]
    for one in stalled:
        made.now_unread(cast("Connection", one))
    assert [one.is_aborted for one in stalled] == [True, True, False, False]
    made.now_read(cast("Connection", stalled[2]))
    made.now_unread(cast("Connection", _Stalled(0.0)))
    made.now_unread(cast("Connection", _Stalled(0.0)))
    assert not stalled[3].is_aborted  # it has had less than five seconds
