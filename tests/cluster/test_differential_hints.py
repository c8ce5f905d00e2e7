"""endpointd publishes the same hints as kube-controller-manager while nodes, zones, readiness and preferences change.

Traffic distribution hints are compared endpoint by endpoint (S-83, S-84). For topology-aware hints, every rest compares
whether they exist, one per ready endpoint, within each zone's bounds (S-93 to S-95); and, after disabling and re-enabling
them, the number per zone (S-96). Upstream is made to reconcile before it is compared (S-4, S-5, S-31.4, rejected
services); endpointd is not.

``HINT_SEEDS=4,5`` and ``HINT_STEPS=1000`` select other runs, or replay the start of one.
"""

import os
from collections.abc import Callable

import pytest

from tests.differential.cluster_under_test import Starter, endpointd, upstream
from tests.differential.differential import DifferenceError
from tests.differential.differential_hints import HintDifferential, compare_hints
from tinykube.testing.control_plane import ControlPlane

SEEDS = [int(seed) for seed in os.environ.get("HINT_SEEDS", "1,2,3").split(",")]
STEPS = int(os.environ.get("HINT_STEPS", "300"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Report = Callable[[str], None]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Prints progress immediately: a run takes a minute or two."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}", flush=True)

    return show


async def lead(
    seed: int,
    steps: int,
    planes: tuple[ControlPlane, ControlPlane],
    candidate: tuple[str, Starter],
    report: Report,
) -> HintDifferential:
    name, starter = candidate
    reference = ("upstream", planes[0], upstream())
    try:
        return await compare_hints(seed, steps, reference, (name, planes[1], starter), report=report)
    except DifferenceError as difference:
        pytest.fail(str(difference), pytrace=False)


@pytest.mark.parametrize("seed", SEEDS)
async def test_endpointd_hints_as_upstream_does(
    seed: int,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    candidate = ("endpointd", endpointd((), endpointd_command))
    done = await lead(seed, STEPS, (control_plane, second_control_plane), candidate, report)
    if STEPS >= 300:  # a run of this length covers every case
        assert done.hint_allocation
        assert done.refused
        assert done.moved
