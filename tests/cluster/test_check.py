"""``check`` finds each planted fault on a real API server by its code, and nothing before."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.client.rest import Client
from endpointd.cli.main import cli
from endpointd.diagnose.check import Report, check
from endpointd.diagnose.snapshot import ClusterIndex
from tests.cluster.setups import (
    Json,
    at_rest,
    connected,
    endpointd_runs,
    make,
    make_nodes,
    merge,
    pod,
    post,
    read,
    service,
)
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PREFIX = "check-"
WEB = (
    service(),
    pod("web-1", node="setup-0", ips=("10.78.0.1",)),
    pod("web-2", node="setup-1", ips=("10.78.0.2",)),
)
BY_HAND = (
    service(selector=None) | {"spec": {"ports": [{"name": "http", "port": 80}]}},
    {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "http", "port": 80}]}],
    },
)


class Place:
    """One healthy namespace, with helpers that break parts of it."""

    def __init__(self, client: Client, world: ClusterIndex, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._slices = world.slices_by_service.get(ObjectKey(namespace, "web"), ())

    @property
    def slice(self) -> EndpointSlice:
        (only,) = self._slices
        return only

    def slice_path(self, name: str = "") -> str:
        base = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        return f"{base}/{name}" if name else base

    async def patch_slice(self, patch: Json) -> None:
        await merge(self.client, self.slice_path(self.slice.metadata.name), patch)

    async def edit_endpoints(self, edit: Callable[[list[Json]], object]) -> None:
        endpoints: list[Json] = json.loads(msgspec.json.encode(self.slice.endpoints))
        edit(endpoints)
        await self.patch_slice({"endpoints": endpoints})

    async def another_slice(self, name: str, labels: Json, endpoints: Sequence[Json] = ()) -> None:
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": list(endpoints),
        }
        await post(self.client, self.slice_path(), body)

    async def delete(self, path: str) -> None:
        await self.client.request("DELETE", path)

    async def merge(self, plural: str, name: str, patch: Json) -> None:
        await merge(self.client, f"/api/v1/namespaces/{self.namespace}/{plural}/{name}", patch)


OURS = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


async def slice_deleted(at: Place) -> None:
    await at.delete(at.slice_path(at.slice.metadata.name))


async def endpoint_removed(at: Place) -> None:
    await at.edit_endpoints(lambda endpoints: endpoints.pop())


async def readiness_wrong(at: Place) -> None:
    await at.edit_endpoints(lambda endpoints: endpoints[0]["conditions"].update(ready=False))


async def address_wrong(at: Place) -> None:
    await at.edit_endpoints(lambda endpoints: endpoints[0].update(addresses=["10.78.9.9"]))


async def zone_wrong(at: Place) -> None:
    await at.edit_endpoints(lambda endpoints: endpoints[0].update(zone="zone-z"))


async def pod_gone(at: Place) -> None:
    at_once = json.dumps({"gracePeriodSeconds": 0}).encode()
    await at.client.request("DELETE", f"/api/v1/namespaces/{at.namespace}/pods/web-1", body=at_once)


async def pod_relabelled(at: Place) -> None:
    await at.merge("pods", "web-1", {"metadata": {"labels": {"app": "other"}}})


async def endpoint_twice(at: Place) -> None:
    (first, *_) = msgspec.to_builtins(at.slice.endpoints)
    await at.another_slice("web-twice", {SERVICE_NAME: "web", MANAGED_BY: OURS}, [first])


async def endpoint_of_nobody(at: Place) -> None:
    await at.edit_endpoints(
        lambda endpoints: endpoints.append({"addresses": ["10.66.6.6"], "conditions": {}})
    )


async def foreign_slice(at: Place) -> None:
    await at.another_slice("web-mesh", {SERVICE_NAME: "web", MANAGED_BY: "mesh.example.com"})


async def selector_lost(at: Place) -> None:
    await at.merge("services", "web", {"spec": {"selector": None}})


async def service_gone(at: Place) -> None:
    await at.another_slice("gone-1", {SERVICE_NAME: "gone", MANAGED_BY: OURS})


async def nameless(at: Place) -> None:
    await at.another_slice("nameless", {MANAGED_BY: OURS})


async def label_lost(at: Place) -> None:
    await at.patch_slice({"metadata": {"ownerReferences": None}})


async def held(at: Place) -> None:
    await at.another_slice("web-held", {SERVICE_NAME: "web", MANAGED_BY: "mesh.example.com"})
    await merge(at.client, at.slice_path("web-held"), {"metadata": {"finalizers": ["example.com/hold"]}})
    await at.delete(at.slice_path("web-held"))


async def endpoints_deleted(at: Place) -> None:
    await at.delete(f"/api/v1/namespaces/{at.namespace}/endpoints/web")


async def endpoints_wrong(at: Place) -> None:
    await at.merge("endpoints", "web", {"subsets": [{"addresses": [{"ip": "10.66.6.6"}]}]})


async def endpoints_left_over(at: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "gone"}}
    await post(at.client, f"/api/v1/namespaces/{at.namespace}/endpoints", body)


async def endpoints_truncated(at: Place) -> None:
    annotations = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    await at.merge("endpoints", "web", {"metadata": {"annotations": annotations}})


async def mirror_deleted(at: Place) -> None:
    await at.delete(at.slice_path(at.slice.metadata.name))


async def mirror_wrong(at: Place) -> None:
    await at.edit_endpoints(lambda endpoints: endpoints[0].update(addresses=["192.0.2.99"]))


class Fault(NamedTuple):
    """A planted fault and the expected finding: code, severity, and words of the cause."""

    plant: Callable[[Place], Awaitable[None]]
    code: str
    severity: str
    words: str
    objects: Sequence[Json] = WEB

    @property
    def namespace(self) -> str:
        return PREFIX + self.plant.__name__.replace("_", "-")


FAULTS = (
    Fault(
        slice_deleted,
        "SlicesMissing",
        "error",
        "no IPv4 slice exists, but 2 pods (web-1, web-2) should",
    ),
    Fault(endpoint_removed, "EndpointMissing", "error", "should be in an IPv4 slice, but is in none"),
    Fault(readiness_wrong, "EndpointWrong", "error", "ready is false instead of true"),
    Fault(address_wrong, "EndpointWrong", "error", "addresses 10.78.9.9 instead of 10.78.0."),
    Fault(zone_wrong, "EndpointWrong", "error", "zone is 'zone-z' instead of 'zone-"),
    Fault(pod_gone, "EndpointStale", "error", "10.78.0.1 belongs to pod web-1, which no longer exists"),
    Fault(
        pod_relabelled, "EndpointStale", "error", "belongs to pod web-1, which the service does not select"
    ),
    Fault(endpoint_twice, "EndpointDuplicated", "error", "occurs 2 times with the same ports, in web-"),
    Fault(endpoint_of_nobody, "EndpointForeign", "error", "10.66.6.6 refers to no pod"),
    Fault(foreign_slice, "SliceForeign", "warning", "it is managed by mesh.example.com"),
    Fault(selector_lost, "HalfMigrated", "warning", "the service has lost its selector"),
    Fault(service_gone, "SliceOrphaned", "warning", "its service no longer exists"),
    Fault(nameless, "SliceNameless", "warning", "names no service"),
    Fault(label_lost, "SliceWrong", "warning", "its owner reference does not name the current service"),
    Fault(held, "SliceHeld", "warning", "held by example.com/hold"),
    Fault(endpoints_deleted, "EndpointsMissing", "error", "the service has no Endpoints"),
    Fault(endpoints_wrong, "EndpointsWrong", "error", "missing 10.78.0.1, 10.78.0.2; unexpected 10.66.6.6"),
    Fault(endpoints_left_over, "EndpointsLeftOver", "warning", "its service no longer exists"),
    Fault(endpoints_truncated, "EndpointsTruncated", "note", "it is limited to 1,000 addresses"),
    Fault(mirror_deleted, "MirrorMissing", "error", "no slice mirrors them", BY_HAND),
    Fault(mirror_wrong, "MirrorWrong", "error", "it differs from the Endpoints that it mirrors", BY_HAND),
)


class Reports(NamedTuple):
    """Findings before and after planting the faults."""

    healthy: Report
    broken: Report


@pytest.fixture(scope="module")
def reports(
    control_plane: ControlPlane, endpointd_command: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Reports:
    def is_begun(world: ClusterIndex) -> bool:
        return len(world.slices) >= len(FAULTS)

    async def build() -> Reports:
        folder = tmp_path_factory.mktemp("check")
        async with connected(control_plane.kubeconfig_path) as client:
            await make_nodes(client)
            with endpointd_runs(endpointd_command, control_plane.kubeconfig_path, folder):
                for fault in FAULTS:
                    await make(client, fault.namespace, fault.objects)
                world = await at_rest(client, PREFIX, is_begun)
            healthy = check(world)
            for fault in FAULTS:
                await fault.plant(Place(client, world, fault.namespace))
            return Reports(healthy, check(await read(client, PREFIX)))

    return asyncio.run(build())


def test_an_idle_endpointd_leaves_no_findings(reports: Reports) -> None:
    assert reports.healthy.findings == ()
    assert reports.healthy.services == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_a_planted_fault_is_found_with_cause_and_remedy(fault: Fault, reports: Reports) -> None:
    found = [finding for finding in reports.broken.findings if finding.namespace == fault.namespace]
    told = [(finding.code, finding.severity, finding.cause) for finding in found]
    assert any(
        (code, severity) == (fault.code, fault.severity) and fault.words in cause
        for code, severity, cause in told
    ), told
    assert all(finding.fix for finding in found)


def invoke(control_plane: ControlPlane, *flags: str) -> Any:
    return CliRunner().invoke(cli, ["check", f"--kubeconfig={control_plane.kubeconfig_path}", *flags])


def test_the_command_reports_findings_in_text_and_by_exit_code(
    reports: Reports, control_plane: ControlPlane
) -> None:
    namespace = f"{PREFIX}readiness-wrong"
    result = invoke(control_plane, "-n", namespace)
    assert (result.exit_code, f"{namespace}/web" in result.output) == (1, True)
    assert "1 error, 0 warnings in 1 service, 2 pods, 1 slice, 1 Endpoints" in result.output
    document = json.loads(invoke(control_plane, "-n", namespace, "-o", "json").output)
    assert [finding["code"] for finding in document["findings"]] == ["EndpointWrong"]
    assert invoke(control_plane, "-n", "kube-public").exit_code == 0


def test_invalid_arguments_exit_with_2_and_one_line(control_plane: ControlPlane) -> None:
    for flags in (["-A", "-n", "x"], ["-f", "/nowhere.yaml"]):
        result = invoke(control_plane, *flags)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
    result = CliRunner().invoke(cli, ["check", "--kubeconfig=/nowhere"])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
