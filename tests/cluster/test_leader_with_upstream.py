"""client-go's elector in kube-controller-manager and ours alternate on one Lease."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.leader_support import CLOCK, Churn, Replicas, grant, until
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LEASE, RENEW, RETRY = TIMES = (4.0, 3.0, 1.0)
# client-go checks every 1 to 2.2 retry periods, and acquires the lease at the first check after its expiry.
AFTER_RELEASE_SECONDS = 2.2 * RETRY + 1.5
UPSTREAM_TAKEOVER_SECONDS = LEASE + 2 * 2.2 * RETRY + 1.5
OUR_TAKEOVER_SECONDS = LEASE + 3.0
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def well_formed(record: dict[str, Any]) -> bool:
    """Return whether the record has the fields that both electors write."""
    return (
        record.keys()
        == {"acquireTime", "holderIdentity", "leaseDurationSeconds", "leaseTransitions", "renewTime"}
        and record["leaseDurationSeconds"] == int(LEASE)
        and re.fullmatch(r".+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", record["holderIdentity"])
        is not None
        and all(MICRO_TIME.fullmatch(record[name]) for name in ("acquireTime", "renewTime"))
    )


async def test_each_waits_while_the_other_leads_and_takes_over_after_release_or_kill_9(
    control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    turns = Replicas(control_plane, endpointd_command, tmp_path, lease="taking-turns", times=TIMES)
    names = ("ours-1", "theirs-1", "ours-2", "theirs-2", "ours-3")
    grant(control_plane, [turns.user(name) for name in names])
    churn = Churn(control_plane, "leader-taking-turns")
    took: list[str] = []

    async def hand_over(
        former: str, latter: str, how: signal.Signals, within: float, transitions: int
    ) -> None:
        """The latter waits longer than the lease duration; then the former ends."""
        if latter.startswith("ours"):
            turns.start(latter)
            await turns.waits(latter)
        else:
            process = turns.start_upstream(latter)
            await until(
                lambda: "Lease is held by and has not yet expired" in process.log(), within=30, what="waiting"
            )
        before = turns.record()
        await CLOCK.sleep(LEASE + 1.5)
        after = turns.record()
        assert well_formed(after)
        assert after["holderIdentity"] == before["holderIdentity"]
        assert after["acquireTime"] == before["acquireTime"]
        assert after["renewTime"] > before["renewTime"]
        assert not turns.wrote(latter)
        begun = CLOCK.wall()
        turns.processes[former].signal(how)
        await until(lambda: turns.wrote(latter), within=30, what=f"{latter} writing")
        seconds = turns.takeover_seconds(latter, begun)
        took.append(f"{former} {how.name} -> {latter} {seconds:.2f} s")
        assert seconds <= within, took
        now = turns.record()
        assert well_formed(now)
        assert now["holderIdentity"] != after["holderIdentity"]
        assert now["leaseTransitions"] == transitions

    try:
        async with churn.running():
            turns.start("ours-1")
            await turns.leads("ours-1")
            await until(lambda: turns.wrote("ours-1"), within=10, what="writing")
            await hand_over("ours-1", "theirs-1", signal.SIGTERM, AFTER_RELEASE_SECONDS, 1)
            await hand_over("theirs-1", "ours-2", signal.SIGKILL, OUR_TAKEOVER_SECONDS, 2)
            await hand_over("ours-2", "theirs-2", signal.SIGKILL, UPSTREAM_TAKEOVER_SECONDS, 3)
            await hand_over("theirs-2", "ours-3", signal.SIGTERM, AFTER_RELEASE_SECONDS, 4)
            await churn.rest()
            await churn.assert_published()
            turns.assert_never_two(*names)
    finally:
        turns.kill_all()
    with capsys.disabled():
        print("\n  " + "\n  ".join(took))
