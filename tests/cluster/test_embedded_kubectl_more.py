"""The same kubectl commands print the same, word for word, on the embedded and a real server."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tinykube.testing.api_server import running_api_server
from tinykube.testing.control_plane import ControlPlane

SHOP = """\
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: registry.invalid/web, ports: [{containerPort: 8080}]}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.2.3], conditions: {ready: true}}, {addresses: [10.1.2.4], conditions: {ready: false}}]
ports: [{name: http, port: 8080}]
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec: {nodeName: n, containers: [{name: c, image: registry.invalid/web, ports: [{containerPort: 8080}]}]}
"""
RUNS = (
    '{"status":{"phase":"Running","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],'
    '"conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"c","image":"x","imageID":"",'
    '"ready":true,"restartCount":1,"state":{"running":{"startedAt":"2024-01-01T00:00:00Z"}}}]}}'
)
ROLLED_OUT = (
    '{"status":{"observedGeneration":GENERATION,"replicas":REPLICAS,"updatedReplicas":REPLICAS,'
    '"readyReplicas":REPLICAS,"availableReplicas":REPLICAS}}'
)


def rolled_out(generation: int, replicas: int) -> str:
    return ROLLED_OUT.replace("GENERATION", str(generation)).replace("REPLICAS", str(replicas))


# Command lines with their standard input; in order, in one namespace.
Line = str | tuple[str, str]
SESSIONS: dict[str, Sequence[Line]] = {
    "manifests are applied, reapplied, changed and deleted": [
        ("apply -f -", SHOP),
        ("apply -f -", SHOP),
        ("apply -f -", SHOP.replace("replicas: 2", "replicas: 3").replace("port: 80,", "port: 81,")),
        ("diff -f -", SHOP),
        ("apply -f - --dry-run=server", SHOP),
        "get deploy web -o jsonpath={.metadata.generation},{.spec.replicas}",
        ("apply -f -", SHOP.replace("port: 80,", "port: 99999,")),
        ("apply -f -", SHOP.replace("selector: {app: web}, ports", "selecter: {app: web}, ports")),
        ("create -f -", SHOP),
        ("replace -f -", SHOP),
        ("delete -f -", SHOP),
        ("delete -f -", SHOP),
        ("delete -f - --ignore-not-found", SHOP),
    ],
    "objects are shown in every format": [
        ("apply -f -", SHOP + "---\n" + POD),
        "get svc,deploy,endpointslices,pods",
        "get svc,deploy,endpointslices,pods -o wide",
        "get all",
        "get svc web -o yaml",
        "get svc web -o json",
        "get svc -o name",
        "get pods -o custom-columns=A:.metadata.name,B:.spec.nodeName",
        "get pods --show-labels",
        "get pods -L app",
        "get pods -l app=web --no-headers",
        "get pods -l app!=web",
        "get pods --field-selector spec.nodeName=n",
        "get pods --field-selector spec.nope=n",
        "get svc --sort-by=.metadata.name",
        "get endpointslices -l kubernetes.io/service-name=web -o go-template={{len .items}}",
        "get nope",
        "get svc nope",
        "get pods --chunk-size=1",
        "describe svc web",
        "describe deploy web",
        "describe pod p",
        "describe endpointslice web-1",
    ],
    "a pod is created and deleted": [
        ("create -f -", POD),
        "get pod p",
        f"patch pod p --subresource=status -p '{RUNS}'",
        "get pod p -o wide",
        "wait pod/p --for=condition=Ready --timeout=5s",
        "wait pod/p --for=jsonpath={.status.phase}=Running --timeout=5s",
        "wait pod/p --for=jsonpath={.status.phase}=Failed --timeout=1s",
        "describe pod p",
        "delete pod p --wait=false",
        "get pod p",
        "delete pod p --force --grace-period=0",
        "get pod p",
        "wait pod/p --for=delete --timeout=5s",
    ],
    "labels and annotations are set and removed": [
        "create configmap a --from-literal=x=y",
        "label configmap a tier=front",
        "label configmap a tier=back",
        "label configmap a tier=back --overwrite",
        "label configmap a tier-",
        "label configmap a nope-",
        "label configmap a bad=!",
        "annotate configmap a example.com/note=hello",
        "annotate configmap a example.com/note-",
        'patch configmap a --type=merge -p \'{"data":{"x":null,"z":"1"}}\'',
        'patch configmap a --type=json -p \'[{"op":"add","path":"/data/w","value":"2"}]\'',
        "get configmap a -o jsonpath={.data}",
        "describe configmap a",
    ],
    "typed objects are created": [
        "create namespace made-NS",
        "create namespace made-NS",
        "create configmap a --from-literal=x=y",
        "create secret generic s --from-literal=password=secret",
        "create serviceaccount robot",
        "create service clusterip web --tcp=80:8080",
        "create service externalname mail --external-name=mail.example.com",
        "create service nodeport door --tcp=80:8080 --node-port=30001",
        "create deployment web --image=registry.invalid/web --replicas=2",
        "run one --image=registry.invalid/one --port=80 --expose",
        "expose deployment web --name=shown --port=80",
        "create configmap B_",
        "get svc,deploy,sa,secrets",
        "describe secret s",
        "describe sa robot",
        "delete svc door",
    ],
    "a deployment is scaled and rolled out": [
        ("apply -f -", SHOP),
        "scale deploy web --replicas=4",
        "scale deploy web --replicas=5 --current-replicas=2",
        "get deploy web",
        "rollout status deploy web --timeout=1s",
        f"patch deploy web --subresource=status -p '{rolled_out(2, 4)}'",
        "rollout status deploy web --timeout=5s",
        "get deploy web",
        "set image deploy web c=registry.invalid/new",
        "get deploy web -o jsonpath={.metadata.generation}{.spec.template.spec.containers[0].image}",
        "rollout pause deploy web",
        "rollout resume deploy web",
        "set env deploy web A=b",
        "describe deploy web",
        "autoscale deploy nope --max=3",
    ],
    "events describe what happened": [
        ("create -f -", POD),
        (
            "create -f -",
            (
                "apiVersion: v1\nkind: Event\nmetadata: {name: e}\ntype: Warning\nreason: Because\nmessage: it is so\n"
                "involvedObject: {apiVersion: v1, kind: Pod, name: p, namespace: NS}\nsource: {component: me}\ncount: 3\n"
                "firstTimestamp: '2024-01-01T00:00:00Z'\nlastTimestamp: '2024-01-01T00:00:00Z'\n"
            ),
        ),
        "get events -o custom-columns=R:.reason,M:.message,O:.involvedObject.name",
        "get events --field-selector involvedObject.name=p --no-headers -o name",
        "get events.events.k8s.io -o custom-columns=R:.reason,M:.note,O:.regarding.name",
        "events --for pod/p --no-headers",
    ],
    "nodes are cordoned and tainted": [
        ("create -f -", "apiVersion: v1\nkind: Node\nmetadata: {name: node-NS}\n"),
        "cordon node-NS",
        "cordon node-NS",
        "uncordon node-NS",
        "taint node node-NS a=b:NoSchedule",
        "taint node node-NS a-",
        "label node node-NS node-role.kubernetes.io/worker=",
        "get node node-NS",
        "delete node node-NS",
    ],
}


class Shell:
    """Runs command lines: one server, one home folder."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def type(self, line: Line, namespace: str) -> str:
        """Return exit code and output of a line without generated values."""
        text, document = (line, None) if isinstance(line, str) else line
        arguments = shlex.split(text.replace("NS", namespace))
        done = subprocess.run(
            [str(self._program), f"--namespace={namespace}", *arguments],
            input=None if document is None else document.replace("NS", namespace),
            stdin=subprocess.DEVNULL if document is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=self._environment,
        )
        return f"{done.returncode}\n{comparable(done.stdout)}{comparable(done.stderr)}"


_DRAWN = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b20[1-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"resourceVersion(\"?): \"\d+\""), r"resourceVersion\1: VERSION"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"(?m)\b\d+[smhd](?:\d+[smhd])?(?= |$)"), "AGE"),
    (re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "DATE"),
    (re.compile(r"/\S*(?:LIVE|MERGED)-\S+"), "FILE"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"FILE\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+"), "FILE"),
    # The real server quotes an invalid patch as a Go map.
    (re.compile(r'patch: Invalid value: ".*": strict'), "patch: Invalid value: strict"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"-{4,}"), "----"),
]


def comparable(text: str) -> str:
    for pattern, stands_for in _DRAWN:
        text = pattern.sub(stands_for, text)
    return text


@pytest.fixture(scope="module")
def shells(control_plane: ControlPlane, tmp_path_factory: Any) -> Iterator[tuple[Shell, Shell]]:
    """The embedded server's shell and the real server's."""
    program = control_plane.assets / "kubectl"
    with running_api_server() as server:
        yield (
            Shell(program, server.kubeconfig_path, tmp_path_factory.mktemp("ours")),
            Shell(program, control_plane.kubeconfig_path, tmp_path_factory.mktemp("real")),
        )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("title", list(SESSIONS), ids=lambda title: title.replace(" ", "-"))
def test_both_servers_print_the_same(title: str, shells: tuple[Shell, Shell]) -> None:
    namespace = f"kubectl-{list(SESSIONS).index(title)}"
    differences = []
    with ThreadPoolExecutor(2) as pool:
        for line in (f"create namespace {namespace}", *SESSIONS[title]):
            ours, real = pool.map(lambda shell, line=line: shell.type(line, namespace), shells)
            if ours != real:
                said = line if isinstance(line, str) else line[0]
                differences.append(f"kubectl {said}\n--- ours\n{ours}\n--- real\n{real}")
    assert not differences, "\n\n".join(differences)
