"""One suite, two servers: the embedded one and, if its binaries are available, a real kube-apiserver."""

import asyncio
import base64
import itertools
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from msgspec.structs import replace
from tests.contract.server.wire import CONFIG_MAPS, Api

from tinykube.server.storage.model import StorageSettings
from tinykube.testing.api_server import DEFAULT_SETTINGS, running_api_server
from tinykube.testing.control_plane import AssetsMissingError, ControlPlane, find_assets

_HERE = Path(__file__).parent
_HISTORY_CHANGES = 300
_SETTINGS = replace(DEFAULT_SETTINGS, storage=StorageSettings(history_changes=_HISTORY_CHANGES))
_NUMBERS = itertools.count()


class Server(NamedTuple):
    url: str
    token: str
    authority: bytes
    is_embedded: bool
    compact: Callable[[Api], Awaitable[None]]


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One of the two servers, for the whole session."""
    with ExitStack() as stack:
        if request.param == "embedded":
            ours = stack.enter_context(running_api_server(_SETTINGS))
            yield Server(ours.url, ours.token, ours.certificate_authority, True, _overwrite_history)
            return
        try:
            find_assets()
        except AssetsMissingError as error:
            pytest.skip(str(error))
        plane = stack.enter_context(ControlPlane())
        # Its watch caches start empty: create history that precedes them.
        plane.stop_apiserver()
        plane.start_apiserver()
        yield Server(
            plane.url, plane.admin_token, plane.certificate_authority, False, _Compaction(plane._ports[1])
        )


async def _overwrite_history(api: Api) -> None:
    """Write more changes than the embedded server's history holds."""
    path = f"{CONFIG_MAPS}/compaction"
    await api.post(CONFIG_MAPS, {"metadata": {"name": "compaction"}})
    for number in range(_HISTORY_CHANGES + 10):
        await api.patch(path, {"data": {"number": str(number)}})
    await api.delete(path)


class _Compaction:
    """Compacts etcd up to now, as kube-apiserver does every five minutes."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v3/kv"

    async def __call__(self, api: Api) -> None:
        made = await api.config_map("compaction")
        revision: str = made["metadata"]["resourceVersion"]
        # kube-apiserver trusts the revision stored under this key.
        self._send("put", {"key": _base64("compact_rev_key"), "value": _base64(revision)})
        self._send("compaction", {"revision": revision, "physical": True})
        await api.delete(f"{CONFIG_MAPS}/compaction")

    def _send(self, endpoint: str, body: object) -> None:
        with urllib.request.urlopen(
            f"{self._url}/{endpoint}", json.dumps(body).encode(), timeout=5
        ) as answer:
            answer.read()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the suite in one event loop, so that connections are reused."""
    for item in items:
        if _HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """Connections with the bearer token."""
    trusting = ssl.create_default_context(cadata=server.authority.decode())
    connector = aiohttp.TCPConnector(ssl=trusting, limit=0)
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(server.url, connector=connector, headers=headers) as connected:
        yield connected
    await asyncio.sleep(0.1)  # let TLS connections shut down


@pytest_asyncio.fixture(loop_scope="session")
async def api(server: Server, session: aiohttp.ClientSession) -> Api:
    """The server, with a namespace for this test."""
    api = Api(session, f"contract-{next(_NUMBERS)}", embedded=server.is_embedded, compact=server.compact)
    await api.post("/api/v1/namespaces", {"metadata": {"name": api.ns}})
    return api


@pytest.fixture
def embedded(server: Server) -> None:
    """Skip features that kube-apiserver leaves to kube-controller-manager."""
    if not server.is_embedded:
        pytest.skip("kube-apiserver has no garbage collector: its controller manager has")
