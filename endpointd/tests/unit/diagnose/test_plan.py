"""The plan of manifests is computed offline, is deterministic, and equals the controllers' result."""

from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokube.api.discovery import EndpointSlice
from aiokube.client.manifests import parse_manifests
from aiokube.testing.builders import make_pod, make_service
from endpointd.cli.cluster_snapshot import snapshot_of
from endpointd.cli.main import cli
from endpointd.diagnose.changes import Settings, changes_of_all
from endpointd.diagnose.check import check
from endpointd.diagnose.offline import OfflineSettings, complete, running_pod
from endpointd.diagnose.plan import planned
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

SHOP = Path(__file__).parents[4] / "examples" / "shop"
GOLDEN = Path(__file__).parent / "golden" / "shop.yaml"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["plan", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def at_rest(snapshot: Snapshot, most: int = 100) -> ClusterIndex:
    """Return the cluster with every planned object published."""
    items = planned(snapshot, Settings(max_endpoints_per_slice=most))
    slices = tuple(item for item in items if isinstance(item, EndpointSlice))
    rest = tuple(item for item in items if not isinstance(item, EndpointSlice))
    return ClusterIndex(msgspec.structs.replace(snapshot, slices=slices, endpoints=rest))


def test_the_plan_of_the_example_shop_matches_the_reviewed_file() -> None:
    """Regenerate with: endpointd plan -f examples/shop > endpointd/tests/unit/diagnose/golden/shop.yaml."""
    assert run("-f", str(SHOP)) == GOLDEN.read_text()


def test_the_same_manifests_give_the_same_plan_in_any_order_of_their_services() -> None:
    files = sorted(str(file) for file in SHOP.iterdir())
    forward = run(*[part for file in files for part in ("-f", file)])
    assert run(*[part for file in files for part in ("-f", file)]) == forward


def test_a_plan_is_deterministic() -> None:
    text = run("-f", str(SHOP))
    for word in ("uid", "resourceVersion", "creationTimestamp", "generateName"):
        assert word not in text


def test_services_get_the_ip_families_a_cluster_assigns() -> None:
    found = list(yaml.safe_load_all(run("-f", str(SHOP))))
    families: dict[str, set[str]] = {}
    for item in found:
        if item["kind"] == "EndpointSlice":
            name = item["metadata"]["labels"]["kubernetes.io/service-name"]
            families.setdefault(name, set()).add(item["addressType"])
    assert families["basket"] == {"IPv4", "IPv6"}
    assert families["web"] == {"IPv4"}
    assert families["warehouse"] == {"IPv4"}  # mirrored from its Endpoints
    assert "mail" not in families  # an ExternalName service


def test_a_pod_keeps_its_status_and_is_assumed_ready_without_one() -> None:
    text = b"""
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web}}
spec: {nodeName: node-1, containers: []}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}], podIP: 10.0.0.1, conditions: [{type: Ready, status: "False"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {app: web}}
spec: {containers: []}
"""
    documents = complete([one.document for one in parse_manifests(text, "x")], OfflineSettings())
    assert [item["status"]["conditions"][0]["status"] for item in documents if item["kind"] == "Pod"] == [
        "False",
        "True",
    ]


@pytest.mark.parametrize("count", [1, 99, 100, 101, 5000])
def test_a_cluster_that_matches_the_plan_has_no_finding_and_no_change(count: int) -> None:
    """Includes a healthy cluster of 5,000 pods."""
    pods = tuple(
        make_pod(f"p{number}", f"10.1.{number // 250}.{number % 250 + 1}", node_name="")
        for number in range(count)
    )
    service = make_service(publish_not_ready_addresses=True)
    world = at_rest(Snapshot(services=(service,), pods=pods))
    report = check(world)
    assert report.is_healthy
    assert [finding.code for finding in report.findings] == (["EndpointsTruncated"] if count > 1000 else [])
    assert list(changes_of_all(world)) == []
    assert len(world.slices) == -(-count // 100)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["web", "api"])), max_size=12),
    st.integers(1, 4),
)
def test_an_executed_plan_leaves_nothing_to_do_for_any_pods(
    states: list[tuple[bool, bool, str]], most: int
) -> None:
    pods = tuple(
        make_pod(
            f"p{number}", f"10.1.0.{number + 1}", labels={"app": app}, ready=ready, terminating=terminating
        )
        for number, (ready, terminating, app) in enumerate(states)
    )
    services = (
        make_service("web"),
        make_service("api", selector={"app": "api"}, publish_not_ready_addresses=True),
    )
    world = at_rest(Snapshot(services=services, pods=pods), most)
    assert list(changes_of_all(world, Settings(max_endpoints_per_slice=most))) == []


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (b"a: [", "while parsing"),
        (
            b"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: 7\n",
            "cannot unmarshal number into Go struct field Service.spec",
        ),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nstatus: {phase: 3}\n", "x.yaml:1: Pod web"),
    ],
)
def test_an_unreadable_manifest_exits_with_2_and_one_line(
    manifest: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(manifest)
    result = CliRunner().invoke(cli, ["plan", "-f", "x.yaml"])
    assert (result.exit_code, words in result.output, result.output.count("\n")) == (2, True, 1), (
        result.output
    )


def test_documents_are_valid_for_an_api_server_that_reads_them_back() -> None:
    for item in yaml.safe_load_all(run("-f", str(SHOP))):
        assert set(item) >= {"apiVersion", "kind", "metadata"}
        (manifest,) = parse_manifests(msgspec.json.encode(item), "plan")
        snapshot_of([manifest])


@pytest.mark.parametrize("count", [3000, 5000])
def test_every_pod_of_a_large_workload_has_a_unique_name_and_endpoint(count: int) -> None:
    """Generated names collided: 5,000 replicas had 4,996 endpoints."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "a"
        },  # this name's suffixes collide once among 3,000, and three times among 5,000
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    documents = complete([workload, service], OfflineSettings())
    snapshot = snapshot_of(
        parse_manifests(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": documents}), "x")
    )
    slices = [item for item in planned(snapshot) if isinstance(item, EndpointSlice)]
    targets = {
        endpoint.target_ref.name
        for item in slices
        for endpoint in item.endpoints or ()
        if endpoint.target_ref
    }
    assert len(targets) == count
    assert sum(len(item.endpoints or ()) for item in slices) == count


def test_more_pods_than_addresses_are_rejected() -> None:
    with pytest.raises(ValueError, match="more pods than there are addresses"):
        running_pod({"metadata": {"name": "x"}}, 768_000, [])


SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: "


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (SERVICE + "{selctor: {app: web}, ports: [{port: 80}]}", 'unknown field "spec.selctor"'),
        (SERVICE + "{ports: [{port: 99999}]}", "spec.ports[0].port: Invalid value: 99999"),
        (
            "apiVersion: v1\nkind: Servise\nmetadata: {name: web}\n",
            "unknown kind; did you mean Service?",
        ),
        (
            "apiVersion: v1\nkind: Deployment\nmetadata: {name: web}\n",
            "apiVersion v1 has no such kind; did you mean apps/v1?",
        ),
    ],
)
def test_a_manifest_that_an_api_server_rejects_is_rejected_with_its_position(
    manifest: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(manifest)
    result = CliRunner().invoke(cli, ["plan", "-f", str(path)])
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert f"{path}:1: " in result.output


def test_kinds_unknown_to_the_embedded_server_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n---\n"
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: b}\nspec: {template: {}}\n---\n"
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: c}\n"
    )
    result = CliRunner().invoke(cli, ["plan", "-f", str(path)])
    assert (result.exit_code, result.output) == (0, ""), result.output


def test_services_without_traffic_cause_a_warning_on_standard_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(SERVICE + "{selector: {app: web}, ports: [{port: 80}]}")
    result = CliRunner().invoke(cli, ["plan", "-f", str(path)])
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: service default/web: the selector app=web matches no pod")
    assert "warning" not in result.stdout
