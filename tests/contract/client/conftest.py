"""A real API server for the contract tests; without one, they are skipped with one line."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from tinykube.testing.control_plane import AssetsMissingError, ControlPlane, find_assets

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        find_assets()
        missing = None
    except AssetsMissingError as error:
        missing = pytest.mark.skip(reason=str(error))
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if missing is not None:
                item.add_marker(missing)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_config(control_plane.client_config(), clock=SystemClock()) as connected:
        yield connected


@pytest.fixture
async def namespace(client: Client, request: pytest.FixtureRequest) -> str:
    """A separate namespace for each test."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    await client.request("POST", "/api/v1/namespaces", body=f'{{"metadata":{{"name":"{name}"}}}}'.encode())
    return name


@pytest.fixture
def watch_list(control_plane: ControlPlane) -> None:
    """Skip the test if the server does not support watches with initial events."""
    if not control_plane.has_watch_list:
        pytest.skip("this version of Kubernetes has no initial events by default")
