"""A live view recovers from each fault of the benchmark, on a real control plane behind a proxy that fails.

The seconds are in the table of ``docs/benchmarks-discovery.md``; tests in virtual time hold them
(``aiokube/tests/scenario/test_discovery_pods.py``). Here the facts count: the view is right in the end, and how often
it asked.
"""

from collections.abc import Iterator

import pytest

from benchmarks import discovery_faults
from benchmarks.admin_api import AdminApi
from benchmarks.discovery_clients import NAMESPACE
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLIENT = "aiokube.discovery"
REFUSED_SECONDS = 10.0
REQUESTS_OF_A_RECOVERY = 6


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: its store is replaced."""
    with ControlPlane() as plane:
        api = AdminApi(plane.url, plane.certificate_authority, plane.admin_token)
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield plane


@pytest.mark.parametrize(("number", "fault"), [*enumerate(discovery_faults.FAULTS)])
def test_a_view_is_correct_after_every_fault_with_at_most_one_request_per_second(
    plane: ControlPlane, number: int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery_faults, "REFUSED_SECONDS", REFUSED_SECONDS)
    (cell,) = discovery_faults.play(fault, [CLIENT], plane, number)
    assert cell.recovered, cell
    assert cell.attempts <= cell.counted_seconds + REQUESTS_OF_A_RECOVERY, cell
