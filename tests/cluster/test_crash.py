"""Killed at any moment and restarted, endpointd corrects all errors and writes nothing else."""

from datetime import datetime

import pytest

from aiokube.clock import SystemClock
from tests.cluster.audit import AuditLog, Write
from tests.differential.cluster_under_test import (
    USER_AGENT,
    Side,
    come_to_rest,
    endpointd,
    upstream,
    while_watching,
)
from tests.differential.normalise import Snapshot, different_keys, normalise, one_by_one, readable_difference
from tests.differential.workload import WorkloadOptions, generate
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CLOCK = SystemClock()
OPERATIONS, KILLED_AT, BACK_AT = 150, 60, 110


@pytest.mark.parametrize("seed", [11, 12])
async def test_after_kill_9_during_churn_only_incorrect_objects_are_written(
    seed: int,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = WorkloadOptions(prefix=f"crash{seed}", external_edits=False, freezing=False)
    life = [operation for batch in generate(seed, OPERATIONS, options) for operation in batch.operations]
    reference = Side("upstream", control_plane, upstream(), options.namespace_names)
    candidate = Side(
        "endpointd", second_control_plane, endpointd(command=endpointd_command), options.namespace_names
    )
    sides = (reference, candidate)
    audit = AuditLog(second_control_plane.audit_log_path)

    async def scenario() -> None:
        for side in sides:
            await side.open()
        for number, operation in enumerate(life):
            if number == KILLED_AT:
                candidate.kill()
            if number == BACK_AT:
                break
            for side in sides:
                await side.apply(operation, {})
        for side in sides:
            await side.collect_garbage()

        before = await candidate.snapshot()
        audit.new_writes()
        started = CLOCK.wall()
        candidate.start()
        await come_to_rest(sides, 2.5, CLOCK)
        after = await candidate.snapshot()
        writes = [write for write in audit.new_writes() if write.user_agent != USER_AGENT]

        # Touching the services excludes upstream's oversights (0.3, S-4, S-31.4) from the differences.
        reference.stop()
        reference.start()
        await reference.touch_services()
        await come_to_rest(sides, 2.5, CLOCK)
        right, found = normalise(await reference.snapshot()), normalise(after)
        assert not different_keys(right, found), readable_difference(right, found, ("upstream", "endpointd"))

        assert not needless(writes, before, after)
        assert writes
        last = max(datetime.fromisoformat(write.received) for write in writes)
        seconds = (last - started).total_seconds()
        with capsys.disabled():
            print(f"\n  right {seconds:.2f} s after the start, with {len(writes)} writes", flush=True)
        assert seconds < 10

    try:
        await while_watching(sides, scenario)
    finally:
        for side in sides:
            await side.close()


def needless(writes: list[Write], before: Snapshot, after: Snapshot) -> list[str]:
    """Return the writes that were rejected or changed no compared field; each new object may be created once."""
    then, now = one_by_one(before), one_by_one(after)
    answered = [write for write in writes if write.code < 400]
    found = [str(write) for write in writes if write.code >= 400]
    found += [
        str(write)
        for write in answered
        if write.verb != "create"
        and then.get((write.resource, write.key)) == now.get((write.resource, write.key))
    ]
    creates = sum(write.verb == "create" for write in answered)
    new = len(now.keys() - then.keys())
    return found if creates == new else [*found, f"{creates} creates for {new} new objects"]
