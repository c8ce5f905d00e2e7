"""Real control planes for the tests in this folder; without the programs, all tests are skipped with one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinykube.testing.control_plane import AssetsMissingError, ControlPlane, find_assets

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them with the reason if programs are missing."""
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


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder with the programs."""
    return find_assets()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The control plane of the session; tests use separate namespaces."""
    with ControlPlane(audit=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def second_control_plane() -> Iterator[ControlPlane]:
    """A second control plane for comparisons."""
    with ControlPlane(audit=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def endpointd_command() -> tuple[str, ...]:
    """The command that starts endpointd: this checkout, this interpreter."""
    return (sys.executable, "-m", "endpointd", "run")
