"""After any operations, the shadow's incremental result equals a comparison of the whole cluster."""

from collections import Counter
from pathlib import Path

import pytest

from endpointd.cli.cluster_snapshot import read_cluster
from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.snapshot import ClusterIndex
from tests.cluster.leader_support import CLOCK, until
from tests.cluster.setups import connected
from tests.cluster.shadow_figures import Figures
from tests.differential.cluster_under_test import Side, come_to_rest, upstream, while_watching
from tests.differential.workload import WorkloadOptions, generate
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

OPERATIONS, LEFT_ALONE_AT = 160, 100


@pytest.mark.parametrize("seed", [31, 32])
async def test_shadow_mode_reports_the_same_as_a_complete_diff(
    seed: int,
    endpointd_command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """First beside kube-controller-manager, then without any writing controller."""
    figures = Figures()
    options = WorkloadOptions(prefix=f"shadow{seed}", freezing=False)
    operations = [
        operation for batch in generate(seed, OPERATIONS, options) for operation in batch.operations
    ]

    async def all_of_it() -> dict[str, int]:
        async with connected(plane.kubeconfig_path) as client:
            world = ClusterIndex(await read_cluster(client, details=False))
        return Counter(f"{change.controller} {change.operation}" for change in changes_of_all(world))

    async def agreed() -> dict[str, int]:
        expected = await all_of_it()
        await until(
            lambda: figures.standing() == expected,
            within=20,
            what=f"telling {expected}, but {figures.standing()}",
        )
        return expected

    with ControlPlane(audit=True) as plane:
        side = Side("upstream", plane, upstream(), options.namespace_names)
        found: list[dict[str, int]] = []

        async def scenario() -> None:
            await side.open()
            flags = [f"--kubeconfig={plane.kubeconfig_path}", "--shadow", "--shadow-grace-period=1s"]
            flags.append(f"--metrics-bind-address=127.0.0.1:{figures.port}")
            plane.start_child("shadow", [*endpointd_command, *flags])
            for operation in operations[:LEFT_ALONE_AT]:
                await side.apply(operation, {})
            await come_to_rest([side], 2.5, CLOCK)
            await until(figures.now, within=20, what="serving")
            found.append(await agreed())
            side.stop()
            for operation in operations[LEFT_ALONE_AT:]:
                await side.apply(operation, {})
            found.append(await agreed())

        try:
            await while_watching([side], scenario)
        finally:
            await side.close()
    with capsys.disabled():
        print(f"\n  seed {seed}: beside upstream {found[0]}, alone {found[1]}")
    assert len(found[1]) >= 4
