"""Proxies: configured by the environment as in Go, and used."""

import asyncio
import base64

import pytest
import trustme
from tests.unit.client.support import client_of, running_server, server_context

from aiokube.api.core import PODS
from aiokube.client.config import TlsConfig
from aiokube.client.errors import ConfigError, ConnectionFailedError
from aiokube.client.proxy import checked_proxy, proxy_from_environment
from aiokube.testing.virtual_time import ManualClock

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        ("https://host", {}, ""),
        ("https://host", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://host", {"https_proxy": PROXY}, PROXY),
        ("https://host", {"HTTPS_PROXY": "proxy:3128"}, PROXY),
        ("https://host", {"HTTP_PROXY": PROXY}, ""),
        ("http://host", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
    ],
)
def test_the_proxy_is_read_from_the_environment_except_for_loopback(
    server: str, environ: dict[str, str], expected: str
) -> None:
    assert proxy_from_environment(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "exceptions", "is_direct"),
    [
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", "example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://badexample.com", "example.com", False),
        ("https://API.example.com", "Example.COM", True),
        ("https://a", "*", True),
        ("https://a", " b , a ", True),
        ("https://a:6443", "a:6443", True),
        ("https://a:6443", "a:443", False),
        ("https://a", "a:443", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "1.2.3", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "fd00:0::1", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
        ("https://a", "10.0.0.0/8,nonsense/99", False),
        ("https://a", "", False),
    ],
)
def test_no_proxy_is_interpreted_as_in_go(server: str, exceptions: str, is_direct: bool) -> None:
    found = proxy_from_environment(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions})
    assert found == ("" if is_direct else PROXY)


@pytest.mark.parametrize("url", ["proxy", "http://", "http://h:port", "socks5://me:hunter2@h:1"])
def test_an_unusable_proxy_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="the proxy of the file") as raised:
        checked_proxy(url, "the file")
    assert "hunter2" not in str(raised.value)


class Tunnel:
    """An HTTP proxy that supports only CONNECT."""

    def __init__(self, refuses: bool = False) -> None:
        self.requests: list[bytes] = []
        self._refuses = refuses

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        if self._refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        there, here = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, here), name="up")
            group.create_task(pump(there, writer), name="down")


async def test_a_server_is_reached_through_a_tunnel_with_proxy_authentication(
    authority: trustme.CA, clock: ManualClock
) -> None:
    tunnel = Tunnel()
    proxy = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    url = f"http://me:hunter2@127.0.0.1:{port}"
    tls = TlsConfig(ca_data=authority.cert_pem.bytes(), server_name="kubernetes.example")
    context = server_context(authority, "kubernetes.example")
    async with (
        proxy,
        running_server(context) as server,
        client_of(server, clock, tls=tls, proxy_url=url) as client,
    ):
        await client.list_page(PODS)
        await client.list_page(PODS)
    assert len(server.seen) == 2
    assert "Proxy-Authorization" not in server.seen[0].headers
    (request,) = tunnel.requests  # and the tunnel is kept
    assert request.startswith(b"CONNECT 127.0.0.1:")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:hunter2") in request


async def test_a_rejecting_or_unreachable_proxy_is_reported_without_its_password(
    authority: trustme.CA, clock: ManualClock
) -> None:
    proxy = await asyncio.start_server(Tunnel(refuses=True).serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    url = f"http://me:hunter2@127.0.0.1:{port}"
    context = server_context(authority)
    async with running_server(context) as server, client_of(server, clock, proxy_url=url) as client:
        async with proxy:
            with pytest.raises(ConnectionFailedError, match="the proxy responds with 407") as raised:
                await client.list_page(PODS)
        assert "hunter2" not in str(raised.value)
        refused = rf"the proxy 127\.0\.0\.1:{port}: Connection refused"
        with pytest.raises(ConnectionFailedError, match=refused) as raised:
            await client.list_page(PODS)
    assert "hunter2" not in str(raised.value)
    assert server.seen == []
