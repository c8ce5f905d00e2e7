"""Intended differences in mirroring between endpointd and kube-controller-manager, both shown on real control planes.

Each case is a rule by which upstream leaves mirrored slices wrong permanently, or removes objects of others. If upstream
no longer shows one of them, this fails, and the difference can be removed from the list.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from aiokube.api.discovery import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from aiokube.clock import SystemClock
from tests.differential.cluster_under_test import come_to_rest, while_watching
from tests.differential.mirroring_sides import MirroringSide, endpointd_mirroring, upstream_mirroring
from tests.differential.mirroring_workload import OURS
from tests.differential.operations import Operation, SliceOf, document
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NAMESPACE = "mirror-differences"
HOLD = "differential.example/hold"
_LONG_ENOUGH_SECONDS = 3.5  # covers retries after one and two seconds

Json = dict[str, Any]
Look = Callable[[Sequence[EndpointSlice]], object]


def subset(*ips: str, ports: Sequence[Json] = ({"name": "http", "port": 80},)) -> Json:
    return {"addresses": [{"ip": ip} for ip in ips], "ports": list(ports)}


def published(slices: Sequence[EndpointSlice]) -> list[str]:
    return sorted(
        endpoint.addresses[0] for endpoint_slice in slices for endpoint in endpoint_slice.endpoints or ()
    )


def ports_of(slices: Sequence[EndpointSlice]) -> list[list[int]]:
    return sorted(sorted(port.port or 0 for port in endpoint_slice.ports or ()) for endpoint_slice in slices)


class Difference(msgspec.Struct, frozen=True):
    """The initial objects, the changes, the inspected result, and the expected outcome on each side.

    ``to_slice`` and ``to_endpoints`` are merge patches, applied in this order.
    """

    name: str
    why: str
    before: Sequence[Json]
    look: Look
    upstream: object
    endpointd: object
    to_slice: Json | None = None
    to_endpoints: Json | None = None


WS = {"name": "ws", "port": 444, "appProtocol": "kubernetes.io/ws"}
PLAIN = {"name": "plain", "port": 445}
DIFFERENCES = (
    Difference(
        "refused",
        "M-41: the first failure ends it; one bad list of ports (two of one name) keeps all others as they were",
        before=[subset("10.0.0.1")],
        to_endpoints={
            "subsets": [
                subset("10.0.0.2"),
                subset("10.0.0.3", ports=({"name": "twice", "port": 1}, {"name": "twice", "port": 2})),
            ]
        },
        look=published,
        upstream=["10.0.0.1"],
        endpointd=["10.0.0.2"],
    ),
    Difference(
        "owner",
        "M-32: an owner that was taken off is not missed",
        before=[subset("10.0.0.1")],
        to_slice={"metadata": {"ownerReferences": None}},
        look=lambda slices: [
            len(endpoint_slice.metadata.owner_references or ()) for endpoint_slice in slices
        ],
        upstream=[0],
        endpointd=[1],
    ),
    Difference(
        "annotation",
        "M-4: what raises no generation is not noticed",
        before=[subset("10.0.0.1")],
        to_slice={"metadata": {"annotations": {"example.com/edited": "yes"}}},
        look=lambda slices: [endpoint_slice.metadata.annotations for endpoint_slice in slices],
        upstream=[{"example.com/edited": "yes"}],
        endpointd=[None],
    ),
    Difference(
        "labelled-away",
        "M-42: upstream waits for a relabelled slice and publishes nothing until then",
        before=[subset("10.0.0.1")],
        to_slice={"metadata": {"labels": {MANAGED_BY_LABEL: "somebody.example.com"}}},
        look=published,
        upstream=[],
        endpointd=["10.0.0.1"],
    ),
    Difference(
        "finalizer",
        "M-33: a rewrite takes off the finalizers of others",
        before=[subset("10.0.0.1")],
        to_slice={"metadata": {"finalizers": [HOLD]}},
        to_endpoints={"subsets": [subset("10.0.0.2")]},
        look=lambda slices: [
            (published(slices), list(endpoint_slice.metadata.finalizers or ())) for endpoint_slice in slices
        ],
        upstream=[(["10.0.0.2"], [])],
        endpointd=[(["10.0.0.2"], [HOLD])],
    ),
    Difference(
        "app-protocol",
        "E-30.3: equal ports with an appProtocol are not equal in two subsets",
        before=[subset("10.0.0.1", ports=(WS, PLAIN)), subset("10.0.0.2", ports=(WS, PLAIN))],
        look=ports_of,
        upstream=[[444], [445]],
        endpointd=[[444, 445]],
    ),
)


async def test_each_documented_difference_is_visible_on_both_sides(
    control_plane: ControlPlane, second_control_plane: ControlPlane, endpointd_command: tuple[str, ...]
) -> None:
    sides = (
        MirroringSide("upstream", control_plane, upstream_mirroring(), [NAMESPACE]),
        MirroringSide(
            "endpointd", second_control_plane, endpointd_mirroring(command=endpointd_command), [NAMESPACE]
        ),
    )
    clock = SystemClock()

    async def do(*operations: Operation) -> None:
        for side in sides:
            resolved = await side.resolve(operations)
            for operation in operations:
                assert await side.apply(operation, resolved) == "ok", (side.name, operation)

    async def live() -> dict[str, dict[str, object]]:
        for difference in DIFFERENCES:
            await do(*creations(difference))
        await come_to_rest(sides, 1.2, clock)
        for difference in DIFFERENCES:
            await do(*changes(difference))
        await come_to_rest(sides, 1.2, clock)
        await clock.sleep(_LONG_ENOUGH_SECONDS)
        return {side.name: await seen_on(side) for side in sides}

    async with contextlib.AsyncExitStack() as stack:
        for side in sides:
            stack.push_async_callback(side.close)
            await side.open()
        seen = await while_watching(sides, live)
    assert seen["endpointd"] == {difference.name: difference.endpointd for difference in DIFFERENCES}
    assert seen["upstream"] == {difference.name: difference.upstream for difference in DIFFERENCES}


async def seen_on(side: MirroringSide) -> dict[str, object]:
    snapshot = await side.snapshot()
    return {
        difference.name: difference.look(
            [
                endpoint_slice
                for endpoint_slice in snapshot.slices
                if (endpoint_slice.metadata.labels or {}).get(SERVICE_NAME_LABEL) == difference.name
                and (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL) == OURS
            ]
        )
        for difference in DIFFERENCES
    }


def creations(difference: Difference) -> list[Operation]:
    name = difference.name
    service = {"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 80}]}}
    item = {"kind": "Endpoints", "apiVersion": "v1", "subsets": list(difference.before)}
    return [
        Operation("create", kind, NAMESPACE, name, document({"metadata": {"name": name}, **body}))
        for kind, body in (("services", service), ("endpoints", item))
    ]


def changes(difference: Difference) -> list[Operation]:
    targets: list[tuple[str, str | SliceOf, Json | None]] = [
        ("endpointslices", SliceOf(difference.name, 0), difference.to_slice),
        ("endpoints", difference.name, difference.to_endpoints),
    ]
    return [
        Operation("patch", kind, NAMESPACE, name, document(patch))
        for kind, name, patch in targets
        if patch is not None
    ]
