"""endpointd publishes the same as kube-controller-manager for random workloads on two real control planes.

The same operations are applied to both, and both are compared at every rest: Endpoints field by field, slices as sets
of endpoints per service, address type and ports, with labels, annotations, owners and sizes; except names, uids, times
and resource versions (behaviour 6). The harness plays the garbage collector.

Upstream overlooks some changes until something else makes it reconcile. On a difference it is made to: first every
service is touched (an annotation), then kube-controller-manager is restarted. A difference that disappears was one of:
E-3 (edited Endpoints stay edited), S-3 (a deleted slice that it had not written; a slice edited without raising its
generation), S-4 (a node's zone), S-31.4 (a node that appears after its pods), 0.3 (a pod that ends while not ready), S-113
(a relabelled slice), 2.3 (a slice kept by a finalizer). A difference that stays is a failure. So is a candidate that was
wrong where upstream was right, and became right only after being touched.

``DIFFERENTIAL_SEEDS=4,5,6`` and ``DIFFERENTIAL_OPERATIONS=1000`` select other runs.
"""

import os
from collections.abc import Callable

import pytest

from tests.differential.cluster_under_test import Starter, endpointd, upstream
from tests.differential.differential import DifferenceError, Differential, Plan, compare, options_for
from tests.differential.workload import WorkloadOptions
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

SEEDS = [int(seed) for seed in os.environ.get("DIFFERENTIAL_SEEDS", "1,2,3").split(",")]
OPERATIONS = int(os.environ.get("DIFFERENTIAL_OPERATIONS", "300"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Report = Callable[[str], None]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Prints progress immediately: a run takes a minute."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}", flush=True)

    return show


async def lead(
    plan: Plan, planes: tuple[ControlPlane, ControlPlane], candidate: tuple[str, Starter], report: Report
) -> Differential:
    name, starter = candidate
    reference = ("upstream", planes[0], upstream(plan.flags))
    try:
        return await compare(plan, reference, (name, planes[1], starter), report=report)
    except DifferenceError as difference:
        pytest.fail(str(difference), pytrace=False)


async def test_upstream_agrees_with_itself(
    control_plane: ControlPlane, second_control_plane: ControlPlane, report: Report
) -> None:
    """Otherwise the comparison would report random differences."""
    plan = Plan(seed=0, operations=120, options=WorkloadOptions(prefix="same"))
    reference = ("upstream", control_plane, upstream())
    again = ("upstream-again", second_control_plane, upstream())
    done = await compare(plan, reference, again, report=report, candidate_may_overlook=True)
    assert done.refused * 20 < plan.operations  # a real API server accepts the operations


async def test_a_controller_that_does_not_run_is_detected_at_the_first_quiet_point(
    control_plane: ControlPlane, second_control_plane: ControlPlane, report: Report
) -> None:
    """Otherwise the comparison could pass because there is nothing to compare."""
    plan = Plan(seed=0, operations=120, options=WorkloadOptions(prefix="half"))

    def start_one(plane: ControlPlane, name: str) -> ChildProcess:
        return plane.start_controller_manager(["endpoints-controller"], name=name)

    reference = ("upstream", control_plane, upstream(plan.flags))
    with pytest.raises(
        DifferenceError, match=r"upstream keeps its version:\n--- upstream\n\+\+\+ half"
    ) as caught:
        await compare(plan, reference, ("half", second_control_plane, start_one), report=report)
    told = str(caught.value)
    assert "\n-slices half-" in told
    assert "\n-endpoints half-" not in told
    assert "--seed 0 --operations" in told


@pytest.mark.parametrize("seed", SEEDS)
async def test_endpointd_publishes_the_same_as_upstream(
    seed: int,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    plan = Plan(seed, OPERATIONS, options_for(control_plane, f"s{seed}"))
    candidate = ("endpointd", endpointd(plan.flags, endpointd_command))
    await lead(plan, (control_plane, second_control_plane), candidate, report)


async def test_endpointd_publishes_the_same_endpoints_when_they_need_many_slices(
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    """Upstream distributes endpoints over slices at random (S-45); the set of endpoints and the limit are determined."""
    plan = Plan(SEEDS[0], OPERATIONS // 2, options_for(control_plane, "many"), max_endpoints_per_slice=3)
    candidate = ("endpointd", endpointd(plan.flags, endpointd_command))
    await lead(plan, (control_plane, second_control_plane), candidate, report)
