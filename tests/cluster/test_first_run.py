"""A first run on a cluster with a shop, and a check of the published objects."""

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiokube.clock import SystemClock
from tests.cluster.audit import AuditLog
from tests.differential.cluster_under_test import (
    USER_AGENT,
    Side,
    come_to_rest,
    endpointd,
    upstream,
    while_watching,
)
from tests.differential.example import node, pod, pod_goes, pod_runs
from tests.differential.invariants import broken_rules
from tests.differential.normalise import different_keys, normalise, readable_difference
from tests.differential.operations import Operation
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MANIFEST = Path(__file__).parent / "data" / "shop.yaml"
NAMESPACE = "shop"
PORTS = {"grpc": 9000, "http": 8080, "metrics": 9100, "dns": 5353}
ZONES = ("zone-a", "zone-b")
CLOCK = SystemClock()


def services() -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(MANIFEST.read_text()) if document]


def shop_pods() -> list[Operation]:
    """Two or three pods for every service with a selector; one of them is not ready."""
    operations: list[Operation] = []
    numbers = itertools.count(1)
    served: list[dict[str, str]] = []
    for service in services():
        selector = service["spec"].get("selector")
        if not selector or "part-of" in selector or selector in served:
            continue
        served.append(selector)
        ports = [
            (port["targetPort"], PORTS[port["targetPort"]], port.get("protocol", "TCP"))
            for port in service["spec"]["ports"]
            if isinstance(port.get("targetPort"), str)
        ]
        for replica in range(3):
            number = next(numbers)
            operations += pod(
                NAMESPACE,
                f"{service['metadata']['name']}-{replica}",
                {**selector, "part-of": "shop"},
                node=f"shop-{number % 2}",
                ips=(f"10.40.0.{number}", f"fd00:40::{number:x}"),
                ready=replica < 2,
                ports=ports,
            )
    return operations


@pytest.fixture
async def sides(
    control_plane: ControlPlane, second_control_plane: ControlPlane, endpointd_command: tuple[str, ...]
) -> AsyncIterator[tuple[Side, Side]]:
    """Upstream on one cluster, endpointd on the other."""
    pair = (
        Side("upstream", control_plane, upstream(), [NAMESPACE]),
        Side("endpointd", second_control_plane, endpointd(command=endpointd_command), [NAMESPACE]),
    )
    for side in pair:
        await side.open()
    try:
        yield pair
    finally:
        for side in pair:
            await side.close()


async def apply(sides: Sequence[Side], operations: Sequence[Operation]) -> None:
    for operation in operations:
        for side in sides:
            assert await side.apply(operation, {}) == "ok", operation


async def open_the_shop(sides: Sequence[Side]) -> None:
    """Create services, nodes and pods unless they exist."""
    if (await sides[0].snapshot()).services:
        return
    for side in sides:
        side.plane.kubectl("apply", f"--namespace={NAMESPACE}", "-f", str(MANIFEST))
    zones = [step for i, zone in enumerate(ZONES) for step in node(f"shop-{i}", zone)]
    await apply(sides, [*zones, *shop_pods()])


async def assert_same(sides: tuple[Side, Side]) -> None:
    await come_to_rest(sides, 1.6, CLOCK)
    reference, candidate = [normalise(await side.snapshot()) for side in sides]
    assert not different_keys(reference, candidate), readable_difference(
        reference, candidate, (sides[0].name, sides[1].name)
    )
    assert reference
    for side in sides:
        assert not broken_rules(await side.snapshot(), max_endpoints_per_slice=100)


async def test_a_shop_is_published_field_by_field_as_upstream_publishes_it(sides: tuple[Side, Side]) -> None:
    audit = AuditLog(sides[1].plane.audit_log_path)

    async def scenario() -> None:
        await open_the_shop(sides)
        await assert_same(sides)

        snapshot = await sides[1].snapshot()
        published = {item.metadata.name: item for item in snapshot.endpoints}
        selecting = {s["metadata"]["name"] for s in services() if s["spec"].get("selector")}
        assert set(published) == selecting
        (storefront,) = published["storefront"].subsets or ()
        assert [address.ip for address in storefront.addresses or ()] == ["10.40.0.1", "10.40.0.2"]
        assert [address.ip for address in storefront.not_ready_addresses or ()] == ["10.40.0.3"]
        everything = [s for s in snapshot.slices if s.metadata.name.startswith("everything-")]
        assert sum(len(slice_.endpoints or ()) for slice_ in everything) == len(snapshot.pods)

        # A rollout: pods are replaced one after the other.
        rollout: list[Operation] = []
        for replica in range(3):
            labels = {"app": "storefront", "part-of": "shop", "version": "2"}
            name, address = f"storefront-new-{replica}", f"10.40.1.{replica}"
            rollout += pod(NAMESPACE, name, labels, node="shop-1", ips=(address,), ready=False)
            rollout.append(pod_runs(NAMESPACE, name, (address,), ready=True))
            rollout.append(pod_goes(NAMESPACE, f"storefront-{replica}"))
        await apply(sides, rollout)
        await assert_same(sides)

    await while_watching(sides, scenario)
    refused = [write for write in audit.new_writes() if write.user_agent != USER_AGENT and write.code >= 400]
    assert not refused, "the API server rejected requests of endpointd"


async def test_upstream_takes_over_from_endpointd_without_a_write(sides: tuple[Side, Side]) -> None:
    """Both accept each other's objects, so a cluster can switch back and forth."""

    async def scenario() -> None:
        await open_the_shop(sides)
        await assert_same(sides)
        before = [await side.versions() for side in sides]
        for side in sides:
            side.stop()
        audits = [AuditLog(side.plane.audit_log_path) for side in sides]
        successors = (endpointd(), upstream())
        for side, starter in zip(sides, successors, strict=True):
            side.replace_controllers(starter)
        await come_to_rest(sides, 5.0, CLOCK)
        assert [await side.versions() for side in sides] == before
        for audit in audits:
            # Other tests' namespaces may contain objects that upstream rewrites at every sync (E-19b, E-42).
            assert not [
                str(write)
                for write in audit.new_writes()
                if write.user_agent != USER_AGENT and write.key.namespace == NAMESPACE
            ]

    await while_watching(sides, scenario)
