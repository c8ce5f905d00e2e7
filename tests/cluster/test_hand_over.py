"""Hand three controllers over from kube-controller-manager to endpointd and back, as docs/guide/hand-over.md describes."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from aiokube.client.rest import Client
from tests.cluster.audit import AuditLog, Write
from tests.cluster.full_audit import config_of
from tests.cluster.leader_support import CLOCK, received, until
from tests.cluster.shop import Shop, Watcher
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

THREE = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
# Without kubelets, these would consider the nodes lost and delete their pods.
NEEDS_KUBELETS = (
    "-node-lifecycle-controller",
    "-taint-eviction-controller",
    "-pod-garbage-collector-controller",
)
MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"
USER = "system:serviceaccount:endpointd:endpointd"
QUIET_SECONDS = 2.5
# A lease duration that suits a test.
ELECTS = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
)


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: all other controllers run here, too."""
    with ControlPlane(audit=True) as made:
        yield made


class HandOver:
    """Both programs and their writes."""

    def __init__(self, plane: ControlPlane, command: tuple[str, ...], folder: Path) -> None:
        plane.kubectl("apply", "-k", str(MANIFESTS))
        self._plane = plane
        self._command = command
        self._config = config_of(plane, folder, "endpointd", "endpointd")
        self._kubeconfig = plane.kubeconfig_for(USER)
        self._audit = AuditLog(plane.audit_log_path)
        self._writes: list[Write] = []
        self._runs = 0

    def start_upstream(self, *, with_three: bool, elects: bool = False) -> ChildProcess:
        self._runs += 1
        off = () if with_three else tuple(f"-{name}" for name in THREE)
        controllers = ["*", *off, *NEEDS_KUBELETS]
        return self._plane.start_controller_manager(
            controllers, name=f"upstream-{self._runs}", flags=ELECTS if elects else ()
        )

    def start_endpointd(self) -> ChildProcess:
        self._runs += 1
        command = [
            *self._command,
            f"--config={self._config}",
            f"--kubeconfig={self._kubeconfig}",
            "--metrics-bind-address=",
        ]
        return self._plane.start_child(f"endpointd-{self._runs}", command)

    def hold_the_lease(self) -> None:
        """Hold the lease under an identity that never writes."""
        self._plane.kubectl("apply", "-f", str(MANIFESTS / "hand-over" / "lease.yaml"))

    def let_the_lease_go(self) -> None:
        self._plane.kubectl("delete", "-f", str(MANIFESTS / "hand-over" / "lease.yaml"))

    def by_endpointd(self, since: datetime) -> list[Write]:
        return [write for write in self._new(since) if write.user == USER]

    def by_upstream(self, since: datetime) -> list[Write]:
        return [
            write
            for write in self._new(since)
            if write.user_agent.startswith("kube-controller-manager/") and write.resource != "leases"
        ]

    def _new(self, since: datetime) -> list[Write]:
        self._writes += self._audit.new_writes()
        return [write for write in self._writes if received(write) >= since]


async def test_migration_to_endpointd_and_back_under_churn_loses_no_endpoint_and_wastes_no_write(
    plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = HandOver(plane, endpointd_command, tmp_path)
    async with Client.from_config(plane.client_config(), clock=CLOCK, user_agent="shop") as client:
        shop = Shop(plane, client, "hand-over")
        upstream = programs.start_upstream(with_three=True)
        await shop.open()
        await shop.published()
        async with Watcher(shop).watching() as watcher:
            async with shop.churning():
                # To endpointd, which waits with warm caches for a lease held by an inactive identity.
                programs.hold_the_lease()
                endpointd = programs.start_endpointd()
                await until(lambda: "held by" in endpointd.log(), within=30, what="waiting")
                await shop.flips_more()
                upstream.stop()
                upstream_ended = CLOCK.wall()
                upstream = programs.start_upstream(with_three=False)
                switched = CLOCK.wall()
                assert programs.by_endpointd(upstream_ended) == []
                programs.let_the_lease_go()
                await until(lambda: programs.by_endpointd(switched), within=10, what="taken over")
                there = (received(programs.by_endpointd(switched)[0]) - switched).total_seconds()
                await shop.flips_more()
            await shop.published()
            assert programs.by_upstream(upstream_ended) == []

            async with shop.churning():
                # And back. Upstream's three controllers start only after endpointd has ended.
                await shop.flips_more()
                assert endpointd.stop(20) == 0
                ended = CLOCK.wall()
                upstream.stop()
                upstream = programs.start_upstream(with_three=True)
                await until(lambda: programs.by_upstream(ended), within=30, what="taken back")
                back = (received(programs.by_upstream(ended)[0]) - ended).total_seconds()
                await shop.flips_more()
            await shop.published()
            assert programs.by_endpointd(ended) == []
            assert watcher.vanished == []
            assert watcher.needless == []
            assert watcher.changes > 100
            writes = [*programs.by_endpointd(upstream_ended), *programs.by_upstream(upstream_ended)]
            assert {write.verb for write in writes} == {"update"}, "a slice was recreated or deleted"
            changed = {write.key.name for write in writes}
            assert all(name == "web" or name.startswith("web-") for name in changed), changed

            # The same without changes: no program writes.
            upstream.stop()
            quiet = CLOCK.wall()
            endpointd = programs.start_endpointd()
            await until(lambda: '"msg":"running"' in endpointd.log(), within=30, what="running")
            await CLOCK.sleep(QUIET_SECONDS)
            assert programs.by_endpointd(quiet) == []
            assert endpointd.stop(20) == 0
            programs.start_upstream(with_three=True)
            await CLOCK.sleep(QUIET_SECONDS)
            assert programs.by_upstream(quiet) == []
            assert programs.by_endpointd(quiet) == []
    with capsys.disabled():
        print(f"\n  first write after the hand-over: {there:.2f} s; after the way back: {back:.2f} s")


async def test_several_control_plane_nodes_are_migrated_one_by_one_with_the_leader_last(
    plane: ControlPlane, endpointd_command: tuple[str, ...], tmp_path: Path
) -> None:
    programs = HandOver(plane, endpointd_command, tmp_path)
    async with Client.from_config(plane.client_config(), clock=CLOCK, user_agent="shop") as client:
        shop = Shop(plane, client, "hand-over-of-several")
        leader = programs.start_upstream(with_three=True, elects=True)
        await until(lambda: leads(leader), within=30, what="leading")
        standby = programs.start_upstream(with_three=True, elects=True)
        await shop.open()
        await shop.published()
        async with Watcher(shop).watching() as watcher:
            async with shop.churning():
                programs.hold_the_lease()
                endpointd = programs.start_endpointd()
                await until(lambda: "held by" in endpointd.log(), within=30, what="waiting")
                standby.stop()
                standby = programs.start_upstream(with_three=False, elects=True)
                await shop.flips_more()
                leader.stop()
                ended = CLOCK.wall()
                other = programs.start_upstream(with_three=False, elects=True)
                programs.let_the_lease_go()
                await until(lambda: programs.by_endpointd(ended), within=15, what="taken over")
                await until(lambda: leads(standby) or leads(other), within=30, what="leading")
                leader, standby = (standby, other) if leads(standby) else (other, standby)
                await until(lambda: says_they_are_off(leader), within=20, what="saying that they are off")
                await shop.flips_more()
            await shop.published()
            assert programs.by_upstream(ended) == []

            async with shop.churning():
                standby.stop()
                standby = programs.start_upstream(with_three=True, elects=True)
                await shop.flips_more()
                assert not leads(standby)
                assert endpointd.stop(20) == 0
                ended = CLOCK.wall()
                assert programs.by_upstream(ended) == []
                leader.stop()
                await until(lambda: programs.by_upstream(ended), within=30, what="taken back")
                await shop.flips_more()
            await shop.published()
            assert programs.by_endpointd(ended) == []
            assert watcher.vanished == []
            assert watcher.needless == []
            assert watcher.changes > 50


def says_they_are_off(upstream: ChildProcess) -> bool:
    log = upstream.log()
    return all(f'controller is disabled" controller="{name}"' in log for name in THREE)


def leads(upstream: ChildProcess) -> bool:
    return "uccessfully acquired lease" in upstream.log()
