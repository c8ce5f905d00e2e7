"""The real kube-controller-manager on the embedded server: protobuf bodies, default flags, its leader election.

A random workload runs on two embedded servers, one with kube-controller-manager's three controllers, one with
endpointd's, and their published objects are compared at every rest.
"""

import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from aiokube.api.coordination import LEASES, Lease
from aiokube.api.meta import ObjectKey
from aiokube.client.config import ClusterConfig
from aiokube.client.errors import NotFoundError
from aiokube.client.rest import Client
from tests.cluster.leader_support import CLOCK, until
from tests.differential.cluster_under_test import endpointd
from tests.differential.differential import Plan, compare
from tests.differential.workload import WorkloadOptions
from tinykube.testing.api_server import ThreadApiServer, running_api_server
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CONTROLLERS = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")
LEASE = ObjectKey("kube-system", "kube-controller-manager")
FAST = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
    "--v=4",
)
TAKEOVER_SECONDS = 4.0 + 2 * 2.2 + 3.0
OPERATIONS = 150


class EmbeddedPlane(ControlPlane):
    """A control plane with the embedded API server; its children are the real programs."""

    def __init__(self) -> None:
        super().__init__()
        self._server: ThreadApiServer | None = None
        self._stack = ExitStack()

    def start(self) -> Self:
        """Start the server."""
        self.directory = Path(tempfile.mkdtemp(prefix="endpointd-embedded-"))
        self._stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._server = self._stack.enter_context(running_api_server())
        self._stack.callback(self._end_children)
        return self

    def stop(self) -> None:
        """Stop the children, then the server."""
        self._stack.close()

    @property
    def server(self) -> ThreadApiServer:
        """The server, between start and stop."""
        assert self._server is not None
        return self._server

    @property
    def kubeconfig_path(self) -> Path:
        """The admin's kubeconfig."""
        return self.server.kubeconfig_path

    def client_config(self) -> ClusterConfig:
        """The admin's configuration."""
        return self.server.client_config()

    def start_with_defaults(self, name: str, *flags: str) -> ChildProcess:
        """Start kube-controller-manager with its three endpoint controllers; all other flags except the port have defaults."""
        return self.start_child(
            name,
            [
                self.assets / "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig_path}",
                f"--controllers={','.join(CONTROLLERS)}",
                "--secure-port=0",
                *flags,
            ],
        )


@pytest.fixture
def planes() -> Iterator[tuple[EmbeddedPlane, EmbeddedPlane]]:
    """Two empty servers."""
    with EmbeddedPlane() as one, EmbeddedPlane() as other:
        yield one, other


@pytest.fixture
async def client(planes: tuple[EmbeddedPlane, EmbeddedPlane]) -> AsyncIterator[Client]:
    """Our client for the first server."""
    async with Client.from_config(planes[0].client_config(), clock=CLOCK) as client:
        yield client


def started_with_defaults(plane: ControlPlane, name: str) -> ChildProcess:
    """Start kube-controller-manager; wait until it leads and its caches have synced."""
    assert isinstance(plane, EmbeddedPlane)
    child = plane.start_with_defaults(name)
    child.wait_until(
        lambda: child.log().count('"Caches are synced"') >= len(CONTROLLERS),
        what="leading",
        timeout_seconds=60,
    )
    return child


async def test_upstreams_controllers_and_endpointd_publish_the_same_on_the_embedded_server(
    planes: tuple[EmbeddedPlane, EmbeddedPlane], capsys: pytest.CaptureFixture[str]
) -> None:
    def report(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="", flush=True)

    plan = Plan(seed=5, operations=OPERATIONS, options=WorkloadOptions(prefix="real"))
    done = await compare(
        plan,
        ("upstream", planes[0], started_with_defaults),
        ("endpointd", planes[1], endpointd((f"--controllers={','.join(CONTROLLERS)}",))),
        report=report,
    )
    assert done.refused * 5 < OPERATIONS
    log = (planes[0].directory / "controllers-upstream.log").read_text()
    refusals = [
        line
        for line in log.splitlines()
        if re.search(r"unable to decode|NotAcceptable|panic|Failed to watch", line)
    ]
    assert not refusals


async def holder(client: Client) -> str:
    """Return the holder of the lease; "" without a holder."""
    try:
        lease: Lease = await client.get(LEASES, LEASE)
    except NotFoundError:
        return ""
    return lease.spec.holder_identity or ""


async def until_holder(client: Client, others: Callable[[str], bool], within: float) -> str:
    """Wait for a holder that satisfies the condition, and return it."""
    deadline = CLOCK.monotonic() + within
    while True:
        found = await holder(client)
        if others(found):
            return found
        assert CLOCK.monotonic() < deadline, f"the lease is still held by {found!r} after {within:g} s"
        await CLOCK.sleep(0.1)


async def test_the_client_go_elector_leads_waits_and_takes_over_after_kill_9(
    planes: tuple[EmbeddedPlane, EmbeddedPlane], client: Client
) -> None:
    plane = planes[0]
    first = plane.start_with_defaults("first", *FAST)
    leader = await until_holder(client, bool, within=60)
    second = plane.start_with_defaults("second", *FAST)
    await until(lambda: "Lease is held by and has not yet expired" in second.log(), within=60, what="waiting")
    before = await client.get(LEASES, LEASE)
    await CLOCK.sleep(4.5)
    after = await client.get(LEASES, LEASE)
    assert after.spec.holder_identity == leader
    assert after.spec.acquire_time == before.spec.acquire_time
    assert after.spec.renew_time != before.spec.renew_time
    assert '"Caches are synced"' not in second.log()
    first.kill()
    heir = await until_holder(client, lambda name: name not in ("", leader), within=TAKEOVER_SECONDS)
    transitions = (await client.get(LEASES, LEASE)).spec.lease_transitions
    assert transitions == (before.spec.lease_transitions or 0) + 1
    await until(
        lambda: second.log().count('"Caches are synced"') >= len(CONTROLLERS), within=30, what="at work"
    )
    assert heir != leader
    assert second.is_running
