"""A real API server for the contracts of this folder; they are skipped, in one line, where there is none to run."""

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
    """A namespace of the test's own."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**9}"
    await client.request("POST", "/api/v1/namespaces", body=f'{{"metadata":{{"name":"{name}"}}}}'.encode())
    return name


@pytest.fixture
def watch_list(control_plane: ControlPlane) -> None:
    """Skip the test where a watch cannot begin with the state."""
    if not control_plane.has_watch_list:
        pytest.skip("this version of Kubernetes has no initial events by default")
