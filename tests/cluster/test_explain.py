"""Why is my pod not in the service: broken set-ups on a real API server, each with the expected explanation.

All set-ups are created in separate namespaces while endpointd maintains their slices; then each is explained. Set-ups
that need a missing controller are created after endpointd was stopped.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from aiokube.api.meta import ObjectKey
from endpointd.diagnose.check import publication_findings
from endpointd.diagnose.explain import explain_service
from endpointd.diagnose.explanation import PodExplanation, ServiceExplanation
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.text import Style, service_text
from tests.cluster.setups import (
    LONG_AGO,
    Json,
    at_rest,
    connected,
    container,
    endpointd_runs,
    make,
    make_nodes,
    pod,
    read,
    service,
    waiting,
)
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PREFIX = "explain-"


NAMED: Json = {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
RUNNING = {"running": {"startedAt": LONG_AGO}}


class Case(NamedTuple):
    """One set-up: its objects, the question, and the expected explanation."""

    name: str
    objects: Sequence[Json]
    verdict: str
    code: str
    words: str
    pod: str = "web-1"
    asks: Sequence[str] = ()
    """Other codes expected among the reasons."""


CASES = (
    Case("all-well", [service(), pod()], "ready", "", ""),
    Case(
        "label-differs",
        [service(selector={"app": "web", "tier": "front"}), pod(labels={"app": "web", "tier": "back"})],
        "out",
        "LabelDiffers",
        "the selector requires tier=front, the pod has tier=back",
    ),
    Case(
        "label-case",
        [service(), pod(labels={"app": "Web"})],
        "out",
        "LabelDiffers",
        "differs only in case",
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
        "the pod is not scheduled yet: 0/3 nodes are available: 3 Insufficient cpu.",
    ),
    Case(
        "no-address",
        [service(), pod(ips=(), phase="Pending")],
        "out",
        "NoAddress",
        "the pod has no IP address yet, on node setup-0: its sandbox is not ready",
    ),
    Case(
        "image-pull",
        [service(), pod(ips=(), phase="Pending", statuses=[waiting("ErrImagePull", "not found")])],
        "out",
        "NoAddress",
        "container app is waiting: ErrImagePull (not found)",
    ),
    Case(
        "image-pull-with-address",
        [service(), pod(ready=False, phase="Pending", statuses=[waiting("ImagePullBackOff")])],
        "not ready",
        "ContainerNotRunning",
        "container app is waiting: ImagePullBackOff",
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
        "CrashLoopBackOff (back-off 5m0s), last exit code 137 (OOMKilled), 7 restarts",
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
        "container app exited with code 2 (Error)",
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
        "container app is running, but its readiness probe (tcp :1) fails",
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
        "its startup probe (tcp :1) has not succeeded yet",
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
        "container proxy is running",
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
        "init container migrate is still running",
    ),
    Case(
        "gate-unset",
        [
            service(),
            pod(ready=False, spec={"readinessGates": [{"conditionType": "lb.example.com/ready"}]}),
        ],
        "not ready",
        "ReadinessGate",
        "no controller has set the condition of readiness gate lb.example.com/ready",
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
        "its Ready condition is not True and has no reason",
    ),
    Case(
        "published-anyway",
        [service(publishNotReadyAddresses=True), pod(ready=False)],
        "ready",
        "PublishedAnyway",
        "the pod counts as ready",
    ),
    Case(
        "terminating-and-serving",
        [service(), pod() | {"deleted": True}],
        "terminating",
        "Terminating",
        "it still serves, so it gets traffic if no other endpoint is ready",
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
        "unreachable",
        "PortNotFound",
        "has targetPort http, but no container port has this name; named ports: htpp (TCP 8080)",
    ),
    Case(
        "port-protocol",
        [
            service(ports=[{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "http"}]),
            pod(),
        ],
        "unreachable",
        "PortNotFound",
        "service port dns is UDP, but the container port named http is TCP",
    ),
    Case(
        "port-nameless",
        [service(**NAMED), pod(containers=[container(port="")])],
        "unreachable",
        "PortNotFound",
        "no container port has a name",
    ),
    Case("node-missing", [service(), pod(node="gone")], "out", "NodeMissing", "Node gone does not exist"),
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
        "the service requires IPv4, but none of the pod's addresses (fd00:77::1) is of that family",
    ),
    Case(
        "address-rejected",
        [service(), pod(ips=("169.254.7.7",))],
        "out",
        "AddressRejected",
        "the API server rejects endpoints with the pod's address 169.254.7.7 (link-local): it is omitted",
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
        "topology-aware hints are requested, but not assigned",
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
        [service(trafficDistribution="PreferClose"), pod(node="setup-2")],
        "ready",
        "HintsOff",
        "its node has no zone",
    ),
    Case(
        "two-things-wrong",
        [service(**NAMED), pod(ready=False, node="gone", containers=[container(port="web")])],
        "out",
        "NodeMissing",
        "Node gone does not exist",
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


class Worlds(NamedTuple):
    """The cluster after endpointd has finished, and later with set-ups that no controller maintains."""

    at_rest: ClusterIndex
    stopped: ClusterIndex


@pytest.fixture(scope="module")
def worlds(
    control_plane: ControlPlane, endpointd_command: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Worlds:
    async def build() -> Worlds:
        folder = tmp_path_factory.mktemp("explain")
        async with connected(control_plane.kubeconfig_path) as client:
            await make_nodes(client)
            with endpointd_runs(endpointd_command, control_plane.kubeconfig_path, folder):
                for case in CASES:
                    await make(client, PREFIX + case.name, case.objects)
                done = await at_rest(client, PREFIX, is_begun)
            for case in LATE_CASES:
                await make(client, PREFIX + case.name, case.objects)
            return Worlds(done, await read(client, PREFIX))

    return asyncio.run(build())


def is_begun(world: ClusterIndex) -> bool:
    return any(
        endpoint_slice.metadata.namespace == f"{PREFIX}all-well" for endpoint_slice in world.slices.values()
    )


def explained(world: ClusterIndex, case: Case, *, alone: bool = True) -> ServiceExplanation:
    namespace = PREFIX + case.name
    key = ObjectKey(namespace, "web")
    asked = ObjectKey(namespace, case.pod) if alone else None
    return explain_service(world, key, datetime.now(UTC), pod=asked)


def of_pod(world: ClusterIndex, case: Case) -> PodExplanation:
    (found,) = explained(world, case).pods
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reason_is_the_one_an_expert_would_give(case: Case, worlds: Worlds) -> None:
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
def test_missing_controller_work_is_attributed_to_the_controllers(case: Case, worlds: Worlds) -> None:
    found = of_pod(worlds.stopped, case)
    assert (found.verdict, case.code in [reason.code for reason in found.reasons]) == (case.verdict, True)


def test_nearly_matching_pods_are_shown_by_default(worlds: Worlds) -> None:
    by_name = {case.name: case for case in CASES}
    for name in ("label-differs", "label-case", "label-missing", "label-prefix"):
        found = explained(worlds.at_rest, by_name[name], alone=False)
        assert [one.pod for one in found.pods] == ["web-1"], name
        assert found.near_misses == 1
    far = explained(worlds.at_rest, by_name["no-such-pod-near"], alone=False)
    assert [one.pod for one in far.pods] == []


def test_a_check_finds_no_publication_error_while_endpointd_is_idle(
    worlds: Worlds,
) -> None:
    found = publication_findings(worlds.at_rest)
    assert [finding for finding in found if finding.severity == "error"] == []


def test_a_service_that_selects_no_pods_is_reported_as_such(worlds: Worlds) -> None:
    found = explained(
        worlds.at_rest, next(case for case in CASES if case.name == "no-such-pod-near"), alone=False
    )
    assert "NothingSelected" in [reason.code for reason in found.reasons]
