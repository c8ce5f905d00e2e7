"""Why is my pod not in the service: broken set-ups on a real API server, each with the reason a person would give.

All set-ups are made side by side, each in a namespace of its own, and endpointd keeps their slices; then each is asked about.
What needs a controller that does not do its work is made after endpointd has been stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from endpointd.api.meta import ObjectKey
from endpointd.cli.reading import read_cluster
from endpointd.client.discover import load_config
from endpointd.client.errors import AlreadyExistsError
from endpointd.client.rest import Client
from endpointd.clock import SystemClock
from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.check import check
from endpointd.diagnose.explain import PodExplanation, ServiceExplanation, explain_service
from endpointd.diagnose.snapshot import World
from endpointd.diagnose.text import Style, service_text
from endpointd.testing.controlplane import ControlPlane
from endpointd.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

Json = dict[str, Any]
PREFIX = "explain-"
LONG_AGO = "2026-01-01T00:00:00Z"
NODES = ("zone-a", "zone-b", "")


# ------------------------------------------------------------------------------------- building set-ups


def service(name: str = "web", selector: Json | None = None, **spec: Any) -> Json:
    body: Json = {
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        "selector": selector or {"app": "web"},
    }
    body.update(spec)
    body = {key: value for key, value in body.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def container(name: str = "app", *, port: str = "http", **fields: Any) -> Json:
    ports = [{"name": port, "containerPort": 8080}] if port else []
    return {"name": name, "image": "registry.invalid/none", "ports": ports, **fields}


def pod(
    name: str = "web-1",
    labels: Json | None = None,
    *,
    node: str = "explain-0",
    ips: Sequence[str] = ("10.77.0.1",),
    ready: bool = True,
    phase: str = "Running",
    containers: Sequence[Json] = (container(),),
    spec: Json | None = None,
    conditions: Sequence[Json] = (),
    statuses: Sequence[Json] = (),
    **status: Any,
) -> Json:
    body: Json = {"containers": list(containers), **(spec or {})}
    if node:
        body["nodeName"] = node
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": LONG_AGO}
    whole: Json = {"phase": phase, "conditions": [*([condition] if ips else []), *conditions], **status}
    if ips:
        whole |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    if statuses:
        whole["containerStatuses"] = [
            {"image": "", "imageID": "", "restartCount": 0, **one} for one in statuses
        ]
    metadata = {"name": name, "labels": labels if labels is not None else {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": whole}


def waiting(reason: str, message: str = "") -> Json:
    return {"name": "app", "ready": False, "state": {"waiting": {"reason": reason, "message": message}}}


NAMED: Json = {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
RUNNING = {"running": {"startedAt": LONG_AGO}}


class Case(NamedTuple):
    """One set-up: what is made, what is asked, and what a person would answer."""

    name: str
    objects: Sequence[Json]
    verdict: str
    code: str
    words: str
    pod: str = "web-1"
    asks: Sequence[str] = ()
    """Other codes that have to be among the reasons."""


CASES = (
    Case("all-well", [service(), pod()], "ready", "", ""),
    Case(
        "label-differs",
        [service(selector={"app": "web", "tier": "front"}), pod(labels={"app": "web", "tier": "back"})],
        "out",
        "LabelDiffers",
        "the selector asks for tier=front, the pod has tier=back",
    ),
    Case(
        "label-case",
        [service(), pod(labels={"app": "Web"})],
        "out",
        "LabelDiffers",
        "differs in upper and lower case alone",
    ),
    Case(
        "label-missing",
        [service(selector={"app": "web", "tier": "front"}), pod()],
        "out",
        "LabelMissing",
        "the pod has no label tier",
    ),
    Case(
        "label-prefix",
        [service(selector={"app.kubernetes.io/name": "web"}), pod(labels={"name": "web"})],
        "out",
        "LabelMissing",
        "the pod has no label app.kubernetes.io/name, but name=web",
    ),
    Case(
        "no-selector",
        [service(selector=None) | {"spec": {"ports": [{"port": 80}]}}, pod()],
        "out",
        "NoSelector",
        "has no selector",
    ),
    Case(
        "external-name",
        [service() | {"spec": {"type": "ExternalName", "externalName": "example.com"}}, pod()],
        "out",
        "ExternalName",
        "a DNS alias, which has no endpoints",
    ),
    Case("succeeded", [service(), pod(phase="Succeeded", ready=False)], "out", "Finished", "phase Succeeded"),
    Case(
        "evicted",
        [
            service(),
            pod(phase="Failed", ready=False, reason="Evicted", message="The node was low on memory."),
        ],
        "out",
        "Finished",
        "phase Failed (Evicted: The node was low on memory.)",
    ),
    Case(
        "unschedulable",
        [
            service(),
            pod(
                node="",
                ips=(),
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    }
                ],
            ),
        ],
        "out",
        "NotScheduled",
        "the pod has no node yet: 0/3 nodes are available: 3 Insufficient cpu.",
    ),
    Case(
        "no-address",
        [service(), pod(ips=(), phase="Pending")],
        "out",
        "NoAddress",
        "the pod has no IP address yet, on node explain-0: its sandbox is not up",
    ),
    Case(
        "image-pull",
        [service(), pod(ips=(), phase="Pending", statuses=[waiting("ErrImagePull", "not found")])],
        "out",
        "NoAddress",
        "container app waits: ErrImagePull (not found)",
    ),
    Case(
        "image-pull-with-address",
        [service(), pod(ready=False, phase="Pending", statuses=[waiting("ImagePullBackOff")])],
        "not ready",
        "ContainerNotRunning",
        "container app waits: ImagePullBackOff",
    ),
    Case(
        "crash-loop",
        [
            service(),
            pod(
                ready=False,
                statuses=[
                    waiting("CrashLoopBackOff", "back-off 5m0s")
                    | {
                        "restartCount": 7,
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ],
            ),
        ],
        "not ready",
        "ContainerNotRunning",
        "CrashLoopBackOff (back-off 5m0s), last ended with exit code 137 (OOMKilled), after 7 restarts",
    ),
    Case(
        "container-ended",
        [
            service(),
            pod(
                ready=False,
                statuses=[
                    {
                        "name": "app",
                        "ready": False,
                        "state": {"terminated": {"exitCode": 2, "reason": "Error"}},
                    }
                ],
            ),
        ],
        "not ready",
        "ContainerNotRunning",
        "container app has ended with exit code 2 (Error)",
    ),
    Case(
        "readiness-probe",
        [
            service(),
            pod(
                ready=False,
                containers=[container(readinessProbe={"tcpSocket": {"port": 1}})],
                statuses=[{"name": "app", "ready": False, "started": True, "state": RUNNING}],
            ),
        ],
        "not ready",
        "ReadinessProbe",
        "container app runs, and its readiness probe fails",
    ),
    Case(
        "startup-probe",
        [
            service(),
            pod(
                ready=False,
                containers=[container(startupProbe={"tcpSocket": {"port": 1}})],
                statuses=[{"name": "app", "ready": False, "started": False, "state": RUNNING}],
            ),
        ],
        "not ready",
        "StartupProbe",
        "its startup probe has not succeeded yet",
    ),
    Case(
        "one-of-two-containers",
        [
            service(),
            pod(
                ready=False,
                containers=[container(), container("proxy", port="")],
                statuses=[
                    {"name": "app", "ready": True, "started": True, "state": RUNNING},
                    {"name": "proxy", "ready": False, "started": True, "state": RUNNING},
                ],
            ),
        ],
        "not ready",
        "ReadinessProbe",
        "container proxy runs",
    ),
    Case(
        "init-container",
        [
            service(),
            pod(
                ready=False,
                phase="Pending",
                spec={"initContainers": [{"name": "migrate", "image": "registry.invalid/none"}]},
                initContainerStatuses=[
                    {
                        "name": "migrate",
                        "image": "",
                        "imageID": "",
                        "restartCount": 0,
                        "ready": False,
                        "state": RUNNING,
                    }
                ],
            ),
        ],
        "not ready",
        "InitContainer",
        "init container migrate still runs",
    ),
    Case(
        "gate-unset",
        [
            service(),
            pod(ready=False, spec={"readinessGates": [{"conditionType": "lb.example.com/ready"}]}),
        ],
        "not ready",
        "ReadinessGate",
        "readiness gate lb.example.com/ready is set by nobody",
    ),
    Case(
        "gate-false",
        [
            service(),
            pod(
                ready=False,
                spec={"readinessGates": [{"conditionType": "lb.example.com/ready"}]},
                conditions=[
                    {
                        "type": "lb.example.com/ready",
                        "status": "False",
                        "message": "the target is not registered",
                        "lastTransitionTime": LONG_AGO,
                    }
                ],
            ),
        ],
        "not ready",
        "ReadinessGate",
        "readiness gate lb.example.com/ready is False for",
    ),
    Case(
        "not-ready-without-a-word",
        [service(), pod(ready=False)],
        "not ready",
        "NotReady",
        "its Ready condition is not True, and nothing says why",
    ),
    Case(
        "published-anyway",
        [service(publishNotReadyAddresses=True), pod(ready=False)],
        "ready",
        "PublishedAnyway",
        "the pod counts as ready all the same",
    ),
    Case(
        "terminating-and-serving",
        [service(), pod() | {"deleted": True}],
        "terminating",
        "Terminating",
        "it still serves, so it is used where no other is ready",
    ),
    Case(
        "terminating",
        [service(), pod(ready=False) | {"deleted": True}],
        "terminating",
        "Terminating",
        "it does not serve",
    ),
    Case(
        "port-name",
        [service(**NAMED), pod(containers=[container(port="htpp")])],
        "ready",
        "PortNotFound",
        "no container names a port http; they name htpp (TCP)",
    ),
    Case(
        "port-protocol",
        [
            service(ports=[{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "http"}]),
            pod(),
        ],
        "ready",
        "PortNotFound",
        "the pod's port http is TCP, the service's is UDP",
    ),
    Case(
        "port-nameless",
        [service(**NAMED), pod(containers=[container(port="")])],
        "ready",
        "PortNotFound",
        "they name none",
    ),
    Case("node-missing", [service(), pod(node="gone")], "out", "NodeMissing", "there is no Node gone"),
    Case(
        "node-missing-published",
        [service(publishNotReadyAddresses=True), pod(node="gone")],
        "ready",
        "NodeMissing",
        "it is published without a zone",
    ),
    Case(
        "no-address-of-family",
        [service(), pod(ips=("fd00:77::1",))],
        "out",
        "NoAddressOfFamily",
        "the service wants IPv4, and of the pod's addresses (fd00:77::1) none is of that family",
    ),
    Case(
        "auto-hints-too-few",
        [
            service()
            | {"metadata": {"name": "web", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}}},
            pod(),
        ],
        "ready",
        "HintsOff",
        "topology-aware hints are asked for, and it has none",
    ),
    Case(
        "distribution-hint",
        [service(trafficDistribution="PreferClose"), pod()],
        "ready",
        "HintsOn",
        "trafficDistribution: PreferClose",
    ),
    Case(
        "distribution-without-zone",
        [service(trafficDistribution="PreferClose"), pod(node="explain-2")],
        "ready",
        "HintsOff",
        "its node has no zone",
    ),
    Case(
        "two-things-wrong",
        [service(**NAMED), pod(ready=False, node="gone", containers=[container(port="web")])],
        "out",
        "NodeMissing",
        "there is no Node gone",
        asks=("PortNotFound", "NotReady"),
    ),
    Case(
        "no-such-pod-near",
        [service(), pod("api-1", {"app": "api", "team": "x"})],
        "out",
        "LabelDiffers",
        "pod has app=api",
        "api-1",
    ),
)

LATE_CASES = (Case("unpublished", [service(), pod()], "missing", "NotYetPublished", "no slice holds it"),)


# ----------------------------------------------------------------------------------- making and asking


async def make(client: Client, case: Case) -> None:
    namespace = PREFIX + case.name
    await post(
        client,
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    for item in case.objects:
        plural = {"Service": "services", "Pod": "pods"}[item["kind"]]
        path = f"/api/v1/namespaces/{namespace}/{plural}"
        body = {key: value for key, value in item.items() if key != "deleted"}
        if item["kind"] == "Pod":
            body["spec"] = {"terminationGracePeriodSeconds": 3600, **body["spec"]}
        await post(client, path, body)
        name = item["metadata"]["name"]
        if "status" in item:
            status = msgspec.json.encode({"status": item["status"]})
            await client.request(
                "PATCH", f"{path}/{name}/status", body=status, content_type="application/merge-patch+json"
            )
        if item.get("deleted"):
            await client.request("DELETE", f"{path}/{name}")


async def post(client: Client, path: str, body: Json) -> None:
    try:
        await client.request("POST", path, body=msgspec.json.encode(body))
    except AlreadyExistsError:
        if not path.endswith(("/namespaces", "/nodes")):
            raise


async def until(condition: Callable[[World], bool], client: Client) -> World:
    """Return the cluster once the condition holds of the set-ups' namespaces."""
    for _ in range(150):
        world = World(ours(await read_cluster(client, details=True)))
        if condition(world):
            return world
        await asyncio.sleep(0.2)
    raise AssertionError("endpointd has not come to rest")


def ours(snapshot: Any) -> Any:
    """Leave out what other tests have on the same control plane."""

    def mine(items: Any) -> Any:
        return tuple(item for item in items if item.metadata.namespace.startswith(PREFIX))

    fields = ("services", "pods", "endpoints", "slices", "details")
    return msgspec.structs.replace(snapshot, **{field: mine(getattr(snapshot, field)) for field in fields})


@pytest.fixture(scope="module")
def config(control_plane: ControlPlane) -> Path:
    return control_plane.kubeconfig_path


@pytest.fixture
async def client(config: Path) -> AsyncIterator[Client]:
    clock = SystemClock()
    async with Client.from_config(load_config(config, clock=clock), clock=clock) as client:
        yield client


class Worlds(NamedTuple):
    at_rest: World
    stopped: World


@pytest.fixture(scope="module")
def worlds(
    config: Path, endpointd_command: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worlds]:
    """Every set-up as it looks once endpointd has done its part, and what nobody looks after."""
    command = [*endpointd_command, "--leader-elect=false", f"--kubeconfig={config}"]
    process = ChildProcess("endpointd", command, log_path=tmp_path_factory.mktemp("explain") / "log")

    async def build() -> Worlds:
        clock = SystemClock()
        async with Client.from_config(load_config(config, clock=clock), clock=clock) as client:
            for number, zone in enumerate(NODES):
                labels = {"topology.kubernetes.io/zone": zone} if zone else {}
                metadata = {"name": f"explain-{number}", "labels": labels}
                await post(
                    client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
                )
            for case in CASES:
                await make(client, case)
            at_rest = await until(
                lambda world: not list(changes_of_all(world)) and is_published(world), client
            )
            process.kill()
            for case in LATE_CASES:
                await make(client, case)
            return Worlds(at_rest, World(ours(await read_cluster(client, details=True))))

    try:
        yield asyncio.run(build())
    finally:
        process.kill()


def is_published(world: World) -> bool:
    return any(piece.metadata.namespace == f"{PREFIX}all-well" for piece in world.slices.values())


def explained(world: World, case: Case, *, alone: bool = True) -> ServiceExplanation:
    namespace = PREFIX + case.name
    key = ObjectKey(namespace, "web")
    asked = ObjectKey(namespace, case.pod) if alone else None
    return explain_service(world, key, datetime.now(UTC), pod=asked)


def of_pod(world: World, case: Case) -> PodExplanation:
    (found,) = explained(world, case).pods
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reason_is_the_one_a_person_would_give(case: Case, worlds: Worlds) -> None:
    found = of_pod(worlds.at_rest, case)
    told = [(reason.code, reason.text) for reason in found.reasons]
    assert found.verdict == case.verdict, told
    codes = [code for code, _ in told]
    if not case.code:
        assert not told
        return
    assert case.code in codes, told
    assert any(code == case.code and case.words in text for code, text in told), told
    assert set(case.asks) <= set(codes), told
    page = service_text(explained(worlds.at_rest, case), Style(colours=False, width=4000))
    assert case.words in page


@pytest.mark.parametrize("case", LATE_CASES, ids=lambda case: case.name)
def test_what_the_controllers_have_not_done_is_told_as_theirs(case: Case, worlds: Worlds) -> None:
    found = of_pod(worlds.stopped, case)
    assert (found.verdict, case.code in [reason.code for reason in found.reasons]) == (case.verdict, True)


def test_pods_that_nearly_match_are_shown_without_being_asked_for(worlds: Worlds) -> None:
    by_name = {case.name: case for case in CASES}
    for name in ("label-differs", "label-case", "label-missing", "label-prefix"):
        found = explained(worlds.at_rest, by_name[name], alone=False)
        assert [one.pod for one in found.pods] == ["web-1"], name
        assert found.near_misses == 1
    far = explained(worlds.at_rest, by_name["no-such-pod-near"], alone=False)
    assert [one.pod for one in far.pods] == []


def test_where_endpointd_is_at_rest_a_check_finds_no_error(worlds: Worlds) -> None:
    report = check(worlds.at_rest)
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def test_a_service_that_selects_nothing_says_so(worlds: Worlds) -> None:
    found = explained(
        worlds.at_rest, next(case for case in CASES if case.name == "no-such-pod-near"), alone=False
    )
    assert "NothingSelected" in [reason.code for reason in found.reasons]
