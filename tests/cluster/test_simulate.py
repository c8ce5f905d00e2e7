"""A simulation on a real kube-apiserver, observed with kubectl: rollouts, waits, undo, scale, replacement."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.cluster.simulated import simulation_runs
from tinykube.simulate.settings import SimulateSettings
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SETTINGS = SimulateSettings(nodes=3, zones=("a", "b"), speed=10.0, seed=7)
NAMESPACE = "simulated"
WAIT = "--timeout=30s"


class Kubectl:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def __call__(self, *arguments: str, document: str | None = None) -> str:
        return self._plane.kubectl("-n", NAMESPACE, *arguments, document=document)

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.json.decode(self("get", kind, "-o", "json", *arguments))[
            "items"
        ]
        return found


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """A separate control plane with a simulation, which would run other tests' pods, too."""
    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", NAMESPACE)
        with simulation_runs(plane, SETTINGS):
            yield Kubectl(plane)


def until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(200):
        if is_so():
            return
        pause.wait(0.1)
    pytest.fail("it has not come about in 20 s")


def deployment(name: str, replicas: int, image: str = "web:1", strategy: str = "{}") -> str:
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  strategy: {strategy}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: web
        image: {image}
        readinessProbe: {{httpGet: {{port: 80}}, periodSeconds: 1}}
"""


def test_nodes_are_ready_with_zones_and_dual_stack_pod_cidrs(kubectl: Kubectl) -> None:
    until(lambda: len(kubectl.items("nodes")) == 3)
    kubectl("wait", "--for=condition=Ready", WAIT, "node", "--all")
    until(lambda: not any("taints" in node["spec"] for node in kubectl.items("nodes")))
    nodes = kubectl.items("nodes")
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == ["a", "b", "a"]
    for node in nodes:
        assert len(node["spec"]["podCIDRs"]) == 2


def test_a_deployment_is_rolled_out_rolled_back_scaled_and_repaired(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", document=deployment("web", 4))
    assert "successfully rolled out" in kubectl("rollout", "status", WAIT, "deployment/web")
    kubectl("wait", "--for=condition=Ready", WAIT, "pod", "-l", "app=web")
    pods = kubectl.items("pods", "-l", "app=web")
    assert len(pods) == 4
    for pod in pods:
        assert pod["status"]["phase"] == "Running"
        assert len(pod["status"]["podIPs"]) == len(pod["status"]["hostIPs"]) == 2
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 3

    kubectl("set", "image", "deployment/web", "web=web:2")
    kubectl("rollout", "status", WAIT, "deployment/web")
    assert {pod["spec"]["containers"][0]["image"] for pod in alive(kubectl, "web")} == {"web:2"}
    assert "2" in kubectl("rollout", "history", "deployment/web")
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", WAIT, "deployment/web")
    assert {pod["spec"]["containers"][0]["image"] for pod in alive(kubectl, "web")} == {"web:1"}
    found = msgspec.json.decode(kubectl("get", "deployment", "web", "-o", "json"))
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"

    kubectl("scale", "deployment/web", "--replicas=6")
    kubectl("rollout", "status", WAIT, "deployment/web")
    assert len(alive(kubectl, "web")) == 6
    kubectl("scale", "deployment/web", "--replicas=2")
    kubectl("wait", "--for=jsonpath={.status.replicas}=2", WAIT, "deployment/web")
    gone = alive(kubectl, "web")[0]["metadata"]["name"]
    kubectl("delete", "pod", gone, WAIT)
    kubectl("wait", "--for=jsonpath={.status.availableReplicas}=2", WAIT, "deployment/web")
    left = {pod["metadata"]["name"] for pod in alive(kubectl, "web")}
    assert len(left) == 2
    assert gone not in left


def alive(kubectl: Kubectl, app: str) -> list[dict[str, Any]]:
    pods = kubectl.items("pods", "-l", f"app={app}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def test_the_recreate_strategy_never_runs_two_revisions_at_once(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", document=deployment("again", 2, strategy="{type: Recreate}"))
    kubectl("rollout", "status", WAIT, "deployment/again")
    kubectl("set", "image", "deployment/again", "web=web:2")
    kubectl("rollout", "status", WAIT, "deployment/again")
    pods = kubectl.items("pods", "-l", "app=again")
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["web:2", "web:2"]


def test_annotations_control_the_simulated_pod(kubectl: Kubectl) -> None:
    kubectl("run", "alone", "--image=alone")
    kubectl("wait", "--for=condition=Ready", WAIT, "pod/alone")
    kubectl("annotate", "pod/alone", "simulate.tinykube.dev/ready=false")
    kubectl("wait", "--for=condition=Ready=false", WAIT, "pod/alone")
    kubectl("annotate", "pod/alone", "simulate.tinykube.dev/ready-")
    kubectl("wait", "--for=condition=Ready", WAIT, "pod/alone")
    kubectl("annotate", "pod/alone", "simulate.tinykube.dev/crash=1")
    kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", WAIT, "pod/alone")
    kubectl("delete", "pod/alone", WAIT)


def test_a_job_like_pod_completes(kubectl: Kubectl) -> None:
    done = "simulate.tinykube.dev/complete-after=1s"
    kubectl("run", "job", "--image=job", "--restart=Never", f"--annotations={done}")
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", WAIT, "pod/job")
    code = "simulate.tinykube.dev/exit-code=3"
    kubectl("run", "bad", "--image=job", "--restart=Never", f"--annotations={done}", f"--annotations={code}")
    kubectl("wait", "--for=jsonpath={.status.phase}=Failed", WAIT, "pod/bad")


def workload(kind: str, name: str, spec: str) -> str:
    return f"""
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {spec}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: "main:1", volumeMounts: []}}]
"""


def images(kubectl: Kubectl, app: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in alive(kubectl, app)}


def test_stateful_set_pods_have_stable_names_and_are_updated_down_to_the_partition(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", document=workload("StatefulSet", "db", "replicas: 3\n  serviceName: db"))
    kubectl("rollout", "status", WAIT, "statefulset/db")
    pods = {pod["metadata"]["name"]: pod for pod in alive(kubectl, "db")}
    assert sorted(pods) == ["db-0", "db-1", "db-2"]
    assert (pods["db-1"]["spec"]["hostname"], pods["db-1"]["spec"]["subdomain"]) == ("db-1", "db")

    patch = '{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}'
    kubectl("patch", "statefulset/db", "--patch", patch)
    kubectl("set", "image", "statefulset/db", "main=main:2")
    kubectl("rollout", "status", WAIT, "statefulset/db")
    assert images(kubectl, "db") == {"db-0": "main:1", "db-1": "main:1", "db-2": "main:2"}
    kubectl("delete", "pod", "db-0", WAIT)
    until(lambda: "db-0" in images(kubectl, "db"))
    assert images(kubectl, "db")["db-0"] == "main:1", "below the partition the old revision is restored"
    patch = '{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}'
    kubectl("patch", "statefulset/db", "--patch", patch)
    kubectl("rollout", "status", WAIT, "statefulset/db")
    assert set(images(kubectl, "db").values()) == {"main:2"}
    kubectl("rollout", "undo", "statefulset/db")
    kubectl("rollout", "status", WAIT, "statefulset/db")
    assert set(images(kubectl, "db").values()) == {"main:1"}
    kubectl("scale", "statefulset/db", "--replicas=1")
    kubectl("wait", "--for=jsonpath={.status.replicas}=1", WAIT, "statefulset/db")
    assert list(images(kubectl, "db")) == ["db-0"]


def test_a_daemon_set_has_one_pod_on_each_node_and_is_updated_node_by_node(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", document=workload("DaemonSet", "agent", "minReadySeconds: 0"))
    kubectl("rollout", "status", WAIT, "daemonset/agent")
    pods = alive(kubectl, "agent")
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-1", "node-2", "node-3"]
    kubectl("set", "image", "daemonset/agent", "main=main:2")
    kubectl("rollout", "status", WAIT, "daemonset/agent")
    assert list(images(kubectl, "agent").values()) == ["main:2"] * 3
    kubectl("rollout", "undo", "daemonset/agent")
    kubectl("rollout", "status", WAIT, "daemonset/agent")
    assert list(images(kubectl, "agent").values()) == ["main:1"] * 3


def test_pods_of_a_deleted_node_are_deleted_and_cordoned_nodes_get_none(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", document=deployment("moved", 3))
    kubectl("rollout", "status", WAIT, "deployment/moved")
    kubectl("cordon", "node-1")
    kubectl("delete", "node", "node-2")
    until(lambda: {pod["spec"].get("nodeName") for pod in alive(kubectl, "moved")} <= {"node-1", "node-3"})
    kubectl("rollout", "status", WAIT, "deployment/moved")
    kubectl("cordon", "node-3")
    kubectl("scale", "deployment/moved", "--replicas=4")
    condition = "--for=condition=PodScheduled=false"
    until(
        lambda: any(
            pod["status"].get("conditions") and not pod["spec"].get("nodeName")
            for pod in alive(kubectl, "moved")
        )
    )
    pending = [pod for pod in alive(kubectl, "moved") if not pod["spec"].get("nodeName")]
    kubectl("wait", condition, WAIT, f"pod/{pending[0]['metadata']['name']}")
    kubectl("uncordon", "node-3")
    kubectl("rollout", "status", WAIT, "deployment/moved")
