"""Shared helpers of the client tests: a manual clock, and a real server with scripted responses."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trustme
from aiohttp import web

from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import ANONYMOUS, Credentials
from aiokube.client.rest import Client
from aiokube.testing.virtual_time import ManualClock


@dataclass
class Seen:
    """A request as received by the server."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    groups: list[str] = field(default_factory=list)
    peer: tuple[str, int] | None = None
    subject: str = ""


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server:
    """A server with scripted responses: ``answer`` is called for each request after recording it."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self.port = 0
        self.answer: Handler = self.empty_list

    async def empty_list(self, request: web.BaseRequest) -> web.StreamResponse:
        return json_response('{"metadata":{"resourceVersion":"1"},"items":[]}')

    def script(self, *answers: web.Response | Handler) -> None:
        """Send these responses in order, and repeat the last one."""
        left = list(answers)

        async def next_answer(request: web.BaseRequest) -> web.StreamResponse:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, web.Response):  # each can be sent only once
                return web.Response(body=answer.body, status=answer.status, headers=answer.headers.copy())
            return await answer(request)

        self.answer = next_answer

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        certificate = transport.get_extra_info("peercert")
        self.seen.append(
            Seen(
                request.method,
                request.rel_url.raw_path,
                request.rel_url.raw_query_string,
                request.headers,
                await request.read(),
                request.headers.getall("Impersonate-Group", []),
                transport.get_extra_info("peername")[:2],
                str(certificate["subject"]) if certificate else "",
            )
        )
        return await self.answer(request)


def json_response(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(text=text, status=status, content_type="application/json", headers=headers)


def failure(
    code: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None, details: str = "{}"
) -> web.Response:
    """Return a Status as an API server sends it."""
    return json_response(
        f'{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}",'
        f'"reason":"{reason}","details":{details},"code":{code}}}',
        status=code,
        headers=headers,
    )


@asynccontextmanager
async def running_server(context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[Server]:
    """Run a server on loopback, with TLS if a context is given."""
    server = Server()
    runner = web.ServerRunner(
        web.Server(server.handle, access_log=None, handler_cancellation=True),
        shutdown_timeout=0.01,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
        await site.start()
        server.port = runner.addresses[0][1]
        server.url = f"{'https' if context else 'http'}://127.0.0.1:{server.port}"
        yield server
    finally:
        await runner.cleanup()


def server_context(
    authority: trustme.CA, *names: str, clients: trustme.CA | None = None, demand: bool = False
) -> ssl.SSLContext:
    """Return a server's context for the names; ``clients`` is the authority of client certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED if demand else ssl.CERT_OPTIONAL
        clients.configure_trust(context)
    return context


def client_of(
    server: Server,
    clock: ManualClock,
    *,
    credentials: Credentials = ANONYMOUS,
    tls: TlsConfig | None = None,
    proxy_url: str = "",
    timeout_seconds: float = 60.0,
) -> Client:
    config = ClusterConfig(server.url, tls or TlsConfig(), credentials, proxy_url=proxy_url)
    return Client.from_config(config, clock=clock, timeout_seconds=timeout_seconds)
