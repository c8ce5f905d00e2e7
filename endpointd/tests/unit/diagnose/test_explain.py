"""Explanations are correct in hard cases, start with the verdict, and fit on a screen."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.unit.diagnose.verdicts import NODES, manifest

from aiokube.api.core import Pod
from aiokube.api.meta import ObjectKey
from endpointd.cli.cluster_snapshot import snapshot_of
from endpointd.cli.main import cli
from endpointd.controllers.endpointslice.desired import PodOutcome, PodTranslator
from endpointd.diagnose.explain import explain_service
from endpointd.diagnose.explanation import ServiceExplanation
from endpointd.diagnose.plan import planned
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot
from endpointd.diagnose.style import Style
from endpointd.diagnose.text import service_text
from tests.cluster.setups import Json, container, pod, service, waiting

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WEB = ObjectKey("default", "web")


def published(*documents: Json) -> Snapshot:
    """Return the documents as a settled cluster."""
    made = [manifest(one) for one in (*documents, *NODES)]
    snapshot = msgspec.structs.replace(snapshot_of(made, is_complete=False), unread=(), assumed="")
    items = planned(snapshot)
    return msgspec.structs.replace(
        snapshot,
        endpoints=tuple(one for one in items if type(one).__name__ == "Endpoints"),
        slices=tuple(one for one in items if type(one).__name__ == "EndpointSlice"),
    )


def explained(*documents: Json, name: str = "", **view: Any) -> ServiceExplanation:
    world = ClusterIndex(msgspec.structs.replace(published(*documents), **view))
    return explain_service(world, WEB, NOW, pod=ObjectKey("default", name) if name else None)


def page(*documents: Json) -> str:
    return service_text(explained(*documents), Style(colours=False, width=100))


def texts(found: ServiceExplanation) -> str:
    return " | ".join(f"{one.text} -> {one.fix}" for pod in found.pods for one in pod.reasons)


def crash_looping(number: int) -> Json:
    name = f"web-{number:04d}"
    state = waiting("CrashLoopBackOff", f"back-off restarting failed container pod={name}_default")
    ip = f"10.1.{number // 250}.{number % 250 + 1}"
    return pod(name, ready=False, ips=(ip,), statuses=[state | {"restartCount": number % 90}])


def test_five_thousand_pods_fit_on_one_screen_with_the_unusual_pod_visible() -> None:
    odd = pod("web-odd", ips=("10.9.9.9",), ready=False, conditions=[{"type": "x", "status": "False"}])
    fine = [
        pod(f"ok-{number:04d}", ips=(f"10.2.{number // 250}.{number % 250 + 1}",)) for number in range(4000)
    ]
    text = page(service(), *fine, *map(crash_looping, range(1000)), odd)
    assert len(text.splitlines()) < 40
    assert "4,000 pods  in, ready: ok-0000, ok-0001, ok-0002 and 3,997 more" in text
    assert "1,000 pods  in, not ready: web-0000, web-0001, web-0002 and 997 more" in text
    assert "web-odd  in, not ready" in text
    assert text.index("1,000 pods") < text.index("web-odd") < text.index("4,000 pods  in, ready")


def test_the_first_line_is_the_verdict() -> None:
    assert page(service(), pod()).startswith("default/web works: 1 of 1 pod is ready\n")
    assert page(service()).startswith("default/web receives no traffic: the selector app=web matches no pod")
    assert page(service(), crash_looping(1)).startswith(
        "default/web receives no traffic: the only pod is not ready: container app is waiting: CrashLoopBackOff\n"
    )


def test_a_deletion_is_counted_from_its_request_not_from_the_end_of_the_grace_period() -> None:
    going = pod()
    going["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30}
    assert "has been terminating for 30s" in texts(explained(service(), going))


def test_the_hint_for_a_port_of_another_protocol_is_the_protocol() -> None:
    udp = service(ports=[{"port": 53, "protocol": "UDP", "targetPort": "http"}])
    said = texts(explained(udp, pod()))
    assert "service port 53 is UDP, but the container port named http is TCP" in said
    assert "set protocol: TCP on the service port" in said
    assert "did you mean" not in said


def test_a_target_port_that_no_container_declares_is_a_warning_with_the_declared_one() -> None:
    said = texts(explained(service(ports=[{"port": 80, "targetPort": 8081}]), pod()))
    assert "targetPort 8081, but the containers declare 8080/TCP (http)" in said
    assert "did you mean targetPort: 8080?" in said


def test_a_probed_port_counts_as_declared() -> None:
    probed = container(readinessProbe={"httpGet": {"port": 8081}})
    assert texts(explained(service(ports=[{"port": 80, "targetPort": 8081}]), pod(containers=[probed]))) == ""


def test_an_unready_pod_shows_its_probe_and_image() -> None:
    probed = container(readinessProbe={"httpGet": {"path": "/healthz", "port": 8080}})
    running = {"name": "app", "ready": False, "started": True, "state": {"running": {}}}
    text = page(service(), pod(ready=False, containers=[probed], statuses=[running]))
    assert (
        "container app is running, but its readiness probe (GET :8080/healthz) fails"
        in text.partition("\n")[0]
    )
    assert "containers: app (registry.invalid/none, readiness GET :8080/healthz)" in text


def test_no_reason_advises_deleting_a_pod() -> None:
    assert "delete" not in texts(explained(service(), pod(node="gone")))


def test_manually_written_addresses_are_shown() -> None:
    by_hand = service() | {"spec": {"ports": [{"name": "http", "port": 80}]}}
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "http", "port": 80}]}]
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}, "subsets": subsets}
    text = page(by_hand, endpoints)
    assert "192.0.2.1  ready, ports http 80/TCP, in Endpoints web" in text
    assert "1 of 1 published addresses are ready" in text


def run(tmp_path: Path, arguments: Sequence[str], *documents: Json) -> Result:
    path = tmp_path / "cluster.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": documents}))
    return CliRunner().invoke(cli, [*arguments, "-f", str(path)])


def elsewhere(document: Json, namespace: str) -> Json:
    return document | {"metadata": document["metadata"] | {"namespace": namespace}}


@pytest.mark.parametrize(
    "words", [["service", "web"], ["svc", "web"], ["svc/web"], ["service/web"], ["services", "default/web"]]
)
def test_a_service_is_named_as_for_kubectl(words: Sequence[str], tmp_path: Path) -> None:
    result = run(tmp_path, ["explain", *words], service(), pod())
    assert result.exit_code == 0, result.output
    assert result.output.startswith("default/web should receive traffic: 1 of 1 pod is ready")


@pytest.mark.parametrize("words", [["pod", "web-1"], ["pod/web-1"], ["po", "default/web-1"]])
def test_a_pod_is_explained_with_the_services_that_select_and_nearly_select_it(
    words: Sequence[str], tmp_path: Path
) -> None:
    near = service("near", {"app": "wen"})
    result = run(tmp_path, ["explain", *words], service(), near, pod())
    assert result.exit_code == 0, result.output
    assert result.output.startswith("default/web-1 is selected by 1 service, and ready in 1\n")
    assert "service near  should not be in  (nearly selected)" in result.output


def test_all_services_are_listed_worst_first(tmp_path: Path) -> None:
    result = run(tmp_path, ["explain", "service", "-A"], service(), pod(), service("a", {"app": "x"}))
    lines = result.output.splitlines()
    assert [re.split(r"  +", line)[:3] for line in lines[1:]] == [
        ["default", "a", "no traffic"],
        ["default", "web", "unknown"],
    ]


def test_the_latest_events_of_a_pod_in_trouble_are_shown(tmp_path: Path) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "web-0001", "namespace": "default"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "count": 12,
    }
    result = run(tmp_path, ["explain", "svc/web"], service(), crash_looping(1), event)
    assert "event: Warning BackOff (x12): Back-off restarting failed container" in result.output


def test_every_pod_is_evaluated_at_most_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for the answer, once for the controllers' plan: the cost is linear in the pods."""
    snapshot = published(service(), *map(crash_looping, range(50)), pod())
    judged: list[str] = []
    outcome = PodTranslator.outcome

    def counted(self: PodTranslator, one: Pod) -> PodOutcome:
        judged.append(one.metadata.name)
        return outcome(self, one)

    monkeypatch.setattr(PodTranslator, "outcome", counted)
    explain_service(ClusterIndex(snapshot), WEB, NOW)
    assert max(judged.count(name) for name in set(judged)) <= 2


def test_wide_output_has_a_line_for_every_pod(tmp_path: Path) -> None:
    result = run(tmp_path, ["explain", "svc/web", "-o", "wide"], service(), *map(crash_looping, range(7)))
    assert len([line for line in result.output.splitlines() if line.startswith("web-0")]) == 7


def test_a_pod_of_another_namespace_is_explained(tmp_path: Path) -> None:
    arguments = ["explain", "svc", "web", "--pod", "b/web-1"]
    result = run(tmp_path, arguments, service(), elsewhere(pod(), "b"))
    assert result.exit_code == 0, result.output
    assert "a service selects only pods in its namespace" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", "svc/wbe"], "service wbe not found in namespace default; did you mean web?"),
        (["explain", "svc/api"], "service api not found in namespace default; found in namespace b"),
        (["explain", "pod/api-1"], "pod api-1 not found in namespace default; found in namespace b"),
        (["explain", "svc/web", "-n", "c"], "the files have no objects in namespace c, only in b, default"),
        (["check", "-n", "c"], "the files have no objects in namespace c"),
        (["explain", "svc/web", "--watch"], "--watch needs a cluster"),
    ],
)
def test_a_missing_name_is_reported_with_the_most_similar_one(
    arguments: Sequence[str], words: str, tmp_path: Path
) -> None:
    others = elsewhere(service("api"), "b"), elsewhere(pod("api-1"), "b")
    result = run(tmp_path, arguments, service(), pod(), *others)
    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_a_namespace_restricts_the_check_of_files(tmp_path: Path) -> None:
    broken = elsewhere(service("api", {"app": "none"}), "b")
    assert run(tmp_path, ["check"], service(), pod(), broken).exit_code == 1
    assert run(tmp_path, ["check", "-n", "default"], service(), pod(), broken).exit_code == 0
    assert run(tmp_path, ["check", "-n", "b"], service(), pod(), broken).exit_code == 1


def test_the_most_similar_pod_is_named() -> None:
    found = explained(
        service(selector={"app": "email-service"}),
        pod("a", {"app": "adservice"}),
        pod("b", {"app": "emailservice"}),
    )
    assert "pod b nearly matches" in found.summary
