"""deploy/rbac.yaml is sufficient and minimal; a missing permission is named and blocks only what needs it."""

import itertools
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

ROLES = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
_numbers = itertools.count()

ENDPOINTS, SLICES, MIRRORED = "endpoints", "slices", "mirrored slices"
ALL = frozenset({ENDPOINTS, SLICES, MIRRORED})

Start = Callable[..., ChildProcess]


class Case:
    """A separate user, a separate namespace with something to publish, and a separate port."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.name = f"may-{next(_numbers)}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def grant(self, without: tuple[str, str] | None = None) -> None:
        """Grant the permissions of the file, except one verb (or ``*``) on one resource."""
        items = []
        for item in yaml.safe_load_all(ROLES.read_text()):
            if item["kind"] == "ServiceAccount":
                continue
            item["metadata"]["name"] = self.name
            if "roleRef" in item:
                item["roleRef"]["name"] = self.name
                item["subjects"] = [
                    {"kind": "User", "name": self.name, "apiGroup": "rbac.authorization.k8s.io"}
                ]
            else:
                item["rules"] = [rule for each in item["rules"] for rule in lacking(each, without)]
                for rule in item["rules"]:
                    if "resourceNames" in rule:
                        rule["resourceNames"] = [self.name]
            items.append(item)
        self.apply(*items)

    def apply(self, *items: dict[str, Any]) -> None:
        self.plane.kubectl(
            "apply",
            "-f",
            "-",
            document=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        )

    def fill(self) -> None:
        """Create a service with a ready pod, and one with manual Endpoints."""
        ports = {"ports": [{"port": 80}]}
        meta = {"namespace": self.name}
        self.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**meta, "name": "web"},
                "spec": {**ports, "selector": {"app": "web"}},
            },
            {"apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": "hand"}, "spec": ports},
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {**meta, "name": "hand"},
                "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
            },
        )

    def published(self) -> frozenset[str]:
        """Return the controllers that have published."""
        found = self.plane.kubectl("get", "endpoints,endpointslices", "-n", self.name, "-o", "json")
        there = set()
        for item in json.loads(found)["items"]:
            labels = item["metadata"].get("labels", {})
            if item["kind"] == "Endpoints" and item["metadata"]["name"] == "web":
                there.add(ENDPOINTS)
            elif item["kind"] == "EndpointSlice":
                by = labels.get("endpointslice.kubernetes.io/managed-by", "")
                there.add(MIRRORED if by.startswith("endpointslicemirroring") else SLICES)
        return frozenset(there)

    def ask(self, path: str) -> tuple[int, str]:
        """Return status and text."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


def lacking(rule: dict[str, Any], without: tuple[str, str] | None) -> Iterator[dict[str, Any]]:
    """Yield a rule without a verb on a resource."""
    if without is None or without[1] not in rule["resources"]:
        yield rule
        return
    verb, resource = without
    others = [each for each in rule["resources"] if each != resource]
    verbs = [] if verb == "*" else [each for each in rule["verbs"] if each != verb]
    if others:
        yield {**rule, "resources": others}
    if verbs:
        yield {**rule, "resources": [resource], "verbs": verbs}


@pytest.fixture
def case(control_plane: ControlPlane) -> Iterator[Case]:
    made = Case(control_plane)
    made.fill()
    yield made
    control_plane.kubectl("delete", "namespace", made.name, "--wait=false")


@pytest.fixture
def start(case: Case, endpointd_command: tuple[str, ...], tmp_path: Path) -> Iterator[Start]:
    running: list[ChildProcess] = []

    def start_one(*flags: str) -> ChildProcess:
        command = [
            *endpointd_command,
            f"--kubeconfig={case.plane.kubeconfig_for(case.name)}",
            f"--leader-elect-resource-name={case.name}",
            f"--metrics-bind-address=127.0.0.1:{case.port}",
            *flags,
        ]
        running.append(ChildProcess("endpointd", command, log_path=tmp_path / f"log-{len(running)}"))
        return running[-1]

    yield start_one
    for process in running:
        process.kill()


def test_the_permissions_in_the_file_are_sufficient(case: Case, start: Start) -> None:
    case.grant()
    process = start()
    process.wait_until(lambda: case.published() == ALL, what="publishing", timeout_seconds=60)
    process.wait_until(lambda: case.ask("/readyz") == (200, "ok\n"), what="being ready", timeout_seconds=20)
    case.plane.kubectl("delete", "service", "web", "hand", "-n", case.name)
    process.wait_until(
        lambda: "web" not in case.plane.kubectl("get", "endpoints", "-n", case.name, "-o", "name"),
        what="deleting Endpoints",
        timeout_seconds=30,
    )
    assert process.stop(20) == 0
    assert "forbidden" not in process.log()


@pytest.mark.parametrize(
    ("without", "works", "check"),
    [
        (("*", "pods"), {MIRRORED}, "watch-pods"),
        (("watch", "nodes"), {ENDPOINTS, MIRRORED}, "watch-nodes"),
        (("*", "services"), set(), "watch-services"),
        (("watch", "endpoints"), {SLICES}, "watch-endpoints"),
        (("watch", "endpointslices"), {ENDPOINTS}, "watch-endpointslices.discovery.k8s.io"),
        (("create", "endpoints"), {SLICES, MIRRORED}, "writes-endpoints-controller"),
        (("create", "endpointslices"), {ENDPOINTS}, "writes-endpointslice-controller"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_a_missing_permission_is_named_and_stops_only_the_controllers_that_need_it(
    case: Case, start: Start, without: tuple[str, str], works: set[str], check: str
) -> None:
    case.grant(without)
    process = start("--leader-elect=false")
    verb, resource = without
    group = ".discovery.k8s.io" if resource == "endpointslices" else ""
    verbs = "create" if verb == "create" else "list and watch"
    told = f"grant {verbs} on {resource}{group} to {case.name}: a role, and a binding to that user"
    process.wait_until(lambda: told in process.log(), what="naming the right", timeout_seconds=60)
    process.wait_until(
        lambda: case.published() == works, what=f"publishing {works}", timeout_seconds=30, poll_seconds=0.3
    )
    process.wait_until(
        lambda: told in case.ask(f"/readyz/{check}")[1], what="the report at /readyz", timeout_seconds=30
    )
    status, text = case.ask("/readyz")
    assert status == 500
    assert f"[-]{check} failed: " in text
    assert case.ask("/livez") == (200, "ok\n")
    assert case.published() == works
    assert process.stop(20) == 0
    assert "Traceback" not in process.log()


@pytest.mark.parametrize("without", [("watch", "nodes"), ("create", "endpoints")], ids="-".join)
def test_the_controllers_recover_as_soon_as_the_permission_is_granted(
    case: Case, start: Start, without: tuple[str, str]
) -> None:
    case.grant(without)
    process = start()  # as a candidate: the election waits for a while only
    process.wait_until(
        lambda: len(case.published()) == 2,
        what="publishing with the granted permissions",
        timeout_seconds=60,
        poll_seconds=0.3,
    )
    case.grant()
    process.wait_until(
        lambda: case.published() == ALL, what="publishing all", timeout_seconds=90, poll_seconds=0.3
    )
    process.wait_until(lambda: case.ask("/readyz") == (200, "ok\n"), what="being ready", timeout_seconds=60)
    assert process.stop(20) == 0


@pytest.mark.parametrize("verb", ["get", "create"])
def test_without_lease_permission_nothing_is_written_and_the_permission_is_named(
    case: Case, start: Start, verb: str
) -> None:
    case.grant((verb, "leases"))
    process = start()
    process.wait_until(lambda: "leases" in process.log(), what="naming the lease", timeout_seconds=60)
    process.wait_until(
        lambda: f"grant {verb} on leases.coordination.k8s.io to {case.name}" in case.ask("/readyz")[1],
        what="the report at /readyz",
        timeout_seconds=30,
    )
    assert case.ask("/livez") == (200, "ok\n")
    assert case.published() == frozenset()
    case.grant()
    process.wait_until(lambda: case.published() == ALL, what="publishing", timeout_seconds=60)
    assert process.stop(20) == 0
