"""endpointd records the same Events as kube-controller-manager: for each cause, on the same objects.

Every cause that a real API server permits is produced on two control planes: writes rejected and failed by admission
policies, missing nodes, hints refused for each reason, and mirrored Endpoints that are too long. Events are compared by
type, reason, message, object and component; their counts depend on retries.

Not reproducible here: invalid addresses to mirror (rejected by the API server), conflicts (random), and S-97's "No hints
allocated", which S-93.3 prevents.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from aiokube.api.core import NODES, SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.events import EVENTS, Event
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ApiError
from aiokube.client.rest import MERGE_PATCH, Client
from aiokube.clock import SystemClock
from tests.differential.cluster_under_test import Side, endpointd, upstream
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CONTROLLERS = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller"
FLAGS = (f"--controllers={CONTROLLERS}", "--mirroring-max-endpoints-per-subset=3")
COMPONENTS = ("endpoint-controller", "endpoint-slice-controller", "endpoint-slice-mirroring-controller")
MODE = "service.kubernetes.io/topology-mode"
ZONE = "topology.kubernetes.io/zone"
SETTLING_SECONDS = 1.0
PATIENCE_SECONDS = 12.0

CAUSES = {
    "missing-node": "S-31.4",
    "no-node": "S-31.4, E-16",
    "hints-enabled": "S-97, S-82",
    "hints-dual": "S-97, S-82, both families",
    "hints-lost": "S-97, S-93.3",
    "hints-too-few": "S-93.3",
    "hints-overload": "S-93.4",
    "hints-zoneless": "S-95",
    "create-slice": "S-17, S-72",
    "update-slice": "S-17, S-72",
    "delete-slice": "S-17, S-22",
    "drop-slice": "S-17, S-72",
    "create-endpoints": "E-22",
    "update-endpoints": "E-22",
    "mirror-too-many": "M-25",
    "terminating": "E-22, S-72: no Event",
}
EXPLAINED = {
    (
        "no-node",
        "FailedToCreateEndpoint",
    ): 'E-16: upstream writes `nodeName: ""`, which is refused; endpointd leaves it out',
}
POLICIES = {  # rejected requests: resource, verbs, and namespace
    "create-slice": ("discovery.k8s.io", "endpointslices", "CREATE"),
    "update-slice": ("discovery.k8s.io", "endpointslices", "UPDATE"),
    "delete-slice": ("discovery.k8s.io", "endpointslices", "DELETE"),
    "drop-slice": ("discovery.k8s.io", "endpointslices", "DELETE"),
    "create-endpoints": ("", "endpoints", "CREATE"),
    "update-endpoints": ("", "endpoints", "UPDATE"),
}

Report = Callable[[str], None]


class Told(NamedTuple):
    """An Event without random parts: times, counts, uids and generated names."""

    cause: str
    namespace: str
    type: str
    reason: str
    message: str
    about: str
    component: str


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Prints the table while the test runs."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}", flush=True)

    return show


class Stage:
    """One control plane on which the causes are produced."""

    def __init__(self, side: Side, client: Client) -> None:
        self.side = side
        self.client = client
        self._addresses = 0

    async def create(self, path: str, body: dict[str, Any]) -> None:
        await self.client.request("POST", path, body=msgspec.json.encode(body))

    async def node(self, name: str, zone: str | None, *, ready: bool) -> None:
        metadata = {"name": name, "labels": {ZONE: zone} if zone else {}}
        await self.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        status = {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {"cpu": "2"},
        }
        await self.patch(NODES, ObjectKey("", name), {"status": status}, "status")

    async def patch(self, resource: Any, key: ObjectKey, body: dict[str, Any], subresource: str = "") -> None:
        await self.client.patch(
            resource, key, msgspec.json.encode(body), patch_type=MERGE_PATCH, subresource=subresource
        )

    async def pod(self, namespace: str, node: str | None) -> str:
        self._addresses += 1
        number = self._addresses
        name = f"pod-{number}"
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "example.com/none"}]}
        if node is not None:
            spec["nodeName"] = node
        metadata = {"name": name, "labels": {"app": "svc"}}
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        ips = [f"10.40.0.{number}", f"fd00:3::{number:x}"]
        status = {
            "phase": "Running",
            "podIP": ips[0],
            "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.set_status(namespace, name, status)
        return name

    async def set_status(self, namespace: str, pod: str, status: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/status"
        body = msgspec.json.encode({"status": status})
        await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def service(self, namespace: str, *, dual: bool = False, auto: bool = False, **spec: Any) -> None:
        families = {"ipFamilyPolicy": "RequireDualStack"} if dual else {"ipFamilies": ["IPv4"]}
        metadata = {"name": "svc", "annotations": {MODE: "Auto"} if auto else {}}
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"port": 80}], "selector": {"app": "svc"}, **families, **spec},
        }
        await self.create(SERVICES.path(namespace), body)

    async def forbid(self, cause: str, namespace: str, group: str, plural: str, verb: str) -> None:
        """Create an admission policy that rejects one kind of request in one namespace, and wait until it is in effect."""
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
        rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": [plural], "operations": [verb]}
        await self.create(
            f"{path}ies",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": cause},
                "spec": {
                    "matchConstraints": {"resourceRules": [rule]},
                    "validations": [{"expression": "false", "message": "not today"}],
                },
            },
        )
        selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        await self.create(
            f"{path}ybindings",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": cause},
                "spec": {
                    "policyName": cause,
                    "validationActions": ["Deny"],
                    "matchResources": {"namespaceSelector": selector},
                },
            },
        )

    async def told(self) -> set[Told]:
        """Return the Events so far in our namespaces."""
        events = [
            event
            for namespace in (*map(namespace_of, CAUSES), "default")
            for event in (await self.client.list_page(EVENTS, namespace=namespace)).items
        ]
        return {plain for event in events if (plain := without_chance(event)) is not None}


def namespace_of(cause: str) -> str:
    return f"ev-{cause}"


def without_chance(event: Event) -> Told | None:
    about = event.involved_object
    component = (event.source.component if event.source else None) or ""
    if component not in COMPONENTS:  # the API server records Events about cluster IPs, too
        return None
    message = (event.message or "").removeprefix("(combined from similar events): ")
    found = re.search(r"\bev-([a-z-]+)", about.namespace or message)
    if found is None:
        return None
    message = re.sub(r"\bsvc-[a-z0-9]{5}\b", "svc-*", message)
    if found[1] == "hints-dual":  # which family represents both is random (S-82, S-97)
        message = re.sub(r"addressType: IPv[46]", "addressType: IPv*", message)
    name = re.sub(r"^svc-[a-z0-9]{5}$", "svc-*", about.name or "")
    return Told(
        found[1],
        event.metadata.namespace,
        event.type or "",
        event.reason or "",
        message,
        f"{about.kind} {about.namespace or '-'}/{name}",
        component,
    )


@contextlib.asynccontextmanager
async def stages(
    planes: Sequence[ControlPlane], starters: Sequence[Callable[[ControlPlane, str], ChildProcess]]
) -> AsyncIterator[list[Stage]]:
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for plane, starter, name in zip(planes, starters, ("upstream", "endpointd"), strict=True):
            client = await stack.enter_async_context(
                Client.from_config(plane.client_config(), clock=clock, user_agent="endpointd-testing")
            )
            side = Side(name, plane, starter, [namespace_of(cause) for cause in CAUSES], clock)
            stack.push_async_callback(side.close)
            for node in (
                await client.list_page(NODES)
            ).items:  # left by other tests: hints depend on all nodes
                await client.delete(NODES, key_of(node))
            await side.open()
            found.append(Stage(side, client))
        yield found


async def set_the_scene(stage: Stage) -> None:
    """Create nodes, pods and policies: everything that precedes the services."""
    for zone in "abc":
        await stage.node(f"ev-{zone}", f"zone-{zone}", ready=True)
    await stage.node("ev-nowhere", None, ready=False)
    nodes_of = {
        "missing-node": ("ev-ghost",),
        "no-node": (None,),
        "hints-enabled": ("ev-a", "ev-b", "ev-c"),
        "hints-dual": ("ev-a", "ev-b", "ev-c"),
        "hints-lost": ("ev-a", "ev-b", "ev-c"),
        "hints-too-few": ("ev-a", "ev-b"),
        "hints-overload": ("ev-a", "ev-a", "ev-b", "ev-c"),
        "hints-zoneless": (*("ev-a", "ev-b", "ev-c") * 2, "ev-nowhere"),
        "create-slice": ("ev-a",),
        "update-slice": ("ev-a",),
        "delete-slice": ("ev-a",),
        "drop-slice": ("ev-a",),
        "create-endpoints": ("ev-a",),
        "update-endpoints": ("ev-a",),
        "terminating": ("ev-a",),
    }
    for cause, nodes in nodes_of.items():
        for node in nodes:
            await stage.pod(namespace_of(cause), node)
    for cause, (group, plural, verb) in POLICIES.items():
        await stage.forbid(cause, namespace_of(cause), group, plural, verb)


async def first_act(stage: Stage) -> None:
    """Create the services: hints are allocated or refused, creates fail."""
    for cause in CAUSES:
        if cause == "mirror-too-many":
            await stage.service(namespace_of(cause), selector=None)
            addresses = [{"ip": f"192.0.2.{number}"} for number in range(1, 6)]
            subset = {"addresses": addresses, "ports": [{"port": 80}]}
            body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "svc"}, "subsets": [subset]}
            await stage.create(ENDPOINTS.path(namespace_of(cause)), body)
            continue
        dual = cause in ("hints-dual", "delete-slice", "drop-slice")
        await stage.service(namespace_of(cause), dual=dual, auto=cause.startswith("hints-"))


async def second_act(stage: Stage) -> None:
    """Make hints impossible and change published objects: updates and deletes fail."""
    for cause in ("hints-enabled", "hints-dual"):
        await stage.patch(
            SERVICES, ObjectKey(namespace_of(cause), "svc"), {"metadata": {"annotations": {MODE: None}}}
        )
    lost = namespace_of("hints-lost")
    answer = await stage.client.request("GET", f"/api/v1/namespaces/{lost}/pods")
    pod = msgspec.json.decode(answer)["items"][0]["metadata"]["name"]
    await stage.set_status(lost, pod, {"conditions": [{"type": "Ready", "status": "False"}]})
    for cause in ("update-slice", "update-endpoints"):
        key = ObjectKey(namespace_of(cause), "svc")
        await stage.patch(SERVICES, key, {"metadata": {"labels": {"team": "red"}}})
    await stage.patch(
        SERVICES, ObjectKey(namespace_of("delete-slice"), "svc"), {"spec": {"ipFamilyPolicy": "SingleStack"}}
    )
    # A slice with our label and without an owner is deleted (S-30).
    labels = {
        "kubernetes.io/service-name": "svc",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "nobodys", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    await stage.create(ENDPOINT_SLICES.path(namespace_of("drop-slice")), body)
    # Objects deleted in a terminating namespace cannot be recreated, and cause no Event.
    going = namespace_of("terminating")
    await stage.client.request("DELETE", f"/api/v1/namespaces/{going}")
    await stage.client.delete(ENDPOINTS, ObjectKey(going, "svc"))
    for endpoint_slice in (await stage.client.list_page(ENDPOINT_SLICES, namespace=going)).items:
        await stage.client.delete(ENDPOINT_SLICES, key_of(endpoint_slice))


async def third_act(stage: Stage) -> None:
    """Add a ready node without a zone: hints can no longer be computed (S-93.1)."""
    await stage.node("ev-stray", None, ready=True)
    await asyncio.sleep(SETTLING_SECONDS)
    await stage.side.touch_services()  # upstream does not reconcile refused services on its own


async def test_each_cause_produces_the_same_event(
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    report: Report,
) -> None:
    planes = (control_plane, second_control_plane)
    starters = (upstream(FLAGS), endpointd(FLAGS, endpointd_command))
    async with stages(planes, starters) as both:
        try:
            for act in (set_the_scene, first_act, second_act, third_act):
                for stage in both:
                    await act(stage)
                await settled(both)
            reference, candidate = await settled(both)
        finally:
            for stage in both:
                await clear(stage)
    rows = sorted(reference | candidate)
    unexplained = []
    for row in rows:
        where = (
            "both"
            if row in reference and row in candidate
            else "upstream"
            if row in reference
            else "endpointd"
        )
        rule = EXPLAINED.get((row.cause, row.reason)) if where == "upstream" else None
        if where != "both" and rule is None:
            unexplained.append((where, row))
        report(f"{where:9} [{CAUSES[row.cause]}] {row.component}: {row.type} {row.reason} on {row.about}")
        report(f"          {row.message}" + (f"   ({rule})" if rule else ""))
    assert not unexplained
    silent = set(CAUSES) - {row.cause for row in reference}
    assert silent == {"terminating"}
    assert {row.reason for row in candidate} == {
        "FailedToCreateEndpoint",
        "FailedToUpdateEndpoint",
        "FailedToUpdateEndpointSlices",
        "TooManyAddressesToMirror",
        "TopologyAwareHintsDisabled",
        "TopologyAwareHintsEnabled",
    }


async def settled(both: Sequence[Stage]) -> tuple[set[Told], set[Told]]:
    """Return both sets of Events once they agree except for explained differences, or at the timeout."""
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_SECONDS
    await clock.sleep(SETTLING_SECONDS)
    while True:
        reference, candidate = [await stage.told() for stage in both]
        open_ = [row for row in reference ^ candidate if (row.cause, row.reason) not in EXPLAINED]
        if not open_ or clock.monotonic() > deadline:
            return reference, candidate
        await clock.sleep(SETTLING_SECONDS / 4)


async def clear(stage: Stage) -> None:
    """Delete everything that would affect other tests."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    for cause in POLICIES:
        with contextlib.suppress(ApiError):
            await stage.client.request("DELETE", f"{path}ybindings/{cause}")
            await stage.client.request("DELETE", f"{path}ies/{cause}")
    for cause in CAUSES:
        with contextlib.suppress(ApiError):
            await stage.client.delete(SERVICES, ObjectKey(namespace_of(cause), "svc"))
    for node in (await stage.client.list_page(NODES)).items:
        await stage.client.delete(NODES, key_of(node))
