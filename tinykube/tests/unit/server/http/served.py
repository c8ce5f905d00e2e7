"""A server on a free loopback port, and a plain HTTP client for it."""

import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from tinykube.server.api_server import ApiServer
from tinykube.server.http.pod_logs import LogSource
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings

TOKEN = "0123456789abcdef"


class Answer(NamedTuple):
    code: int
    headers: Mapping[str, str]
    warnings: list[str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class ServedApi:
    """Sends requests; bodies other than text are encoded as JSON."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, str | bytes | io.BytesIO):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        async with self.session.request(method, path, data=body, headers=sent) as response:
            warnings = response.headers.getall("Warning", [])
            return Answer(response.status, response.headers, list(warnings), await response.read())


@asynccontextmanager
async def a_server(
    data_dir: Path | None = None, *, pod_logs: LogSource | None = None, **settings: Any
) -> AsyncIterator[ServedApi]:
    wanted = ServerSettings(token=TOKEN, data_dir=data_dir, **settings)
    async with ApiServer(wanted, builtin_registry(), pod_logs=pod_logs) as server:
        tls = ssl.create_default_context(cadata=server.authority.decode())
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
        async with aiohttp.ClientSession(server.url, connector=connector, headers=headers) as session:
            yield ServedApi(server, session)
