"""Read-only commands with bad input or missing permissions: one clear line and exit code 2; and ``diff`` of a cluster."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from endpointd.cli.main import cli
from tests.cluster.setups import Json, connected, make, make_nodes, pod, post, service
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NAMESPACE = "questions"
READER: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "questions-reader"},
    "rules": [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list"]}],
}
BINDING: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "questions-reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "questions-reader"},
    "subjects": [{"kind": "User", "name": "questions-reader", "apiGroup": "rbac.authorization.k8s.io"}],
}


@pytest.fixture(scope="module")
def config(control_plane: ControlPlane) -> Path:
    """A namespace with a service and a pod that no controller has published."""

    async def build() -> None:
        async with connected(control_plane.kubeconfig_path) as client:
            await make_nodes(client)
            await make(client, NAMESPACE, [service(), pod(ips=("10.79.0.1",))])
            rbac = "/apis/rbac.authorization.k8s.io/v1"
            await post(client, f"{rbac}/clusterroles", READER)
            await post(client, f"{rbac}/clusterrolebindings", BINDING)

    asyncio.run(build())
    return control_plane.kubeconfig_path


def invoke(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, f"--kubeconfig={config}"])


def refused(result: Result, words: str) -> None:
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["explain", "service", f"{NAMESPACE}/wbe"],
            f"service wbe not found in namespace {NAMESPACE}; did you mean web?",
        ),
        (
            ["explain", "service", "web"],
            "service web not found in namespace default",
        ),
        (["explain", "service", f"{NAMESPACE}/web", "--pod", "web-9"], "pod web-9 not found"),
        (["explain", "service", "a/b/c"], "'a/b/c' is not a name"),
        (["explain", "service", f"{NAMESPACE}/web", "-n", "other"], "name one namespace"),
        (["explain", "service", "x", "-f", "/nowhere.yaml"], "/nowhere.yaml: No such file or directory"),
        (["diff", "-A", "-n", "x"], "mutually exclusive"),
        (["diff", "-f", "/nowhere.yaml"], "/nowhere.yaml: No such file or directory"),
        (["check", "--context", "nobody"], "nobody"),
    ],
)
def test_an_invalid_query_is_reported_with_one_line(
    arguments: Sequence[str], words: str, config: Path
) -> None:
    refused(invoke(config, *arguments), words)


@pytest.mark.parametrize("command", [["explain", "service", "x/y"], ["check"], ["diff"]])
def test_forbidden_reads_are_named(
    command: Sequence[str], config: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    stranger = control_plane.kubeconfig_for("questions-stranger")
    refused(invoke(stranger, *command), 'User "questions-stranger" cannot list resource')
    unknown = write_kubeconfig(
        tmp_path / "config",
        server=control_plane.url,
        certificate_authority=control_plane.certificate_authority,
        token="wrong",
    )
    refused(invoke(unknown, *command), "Unauthorized")


def test_partial_read_permission_gives_a_partial_answer_that_names_the_missing_data(
    config: Path, control_plane: ControlPlane
) -> None:
    reader = control_plane.kubeconfig_for("questions-reader")
    result = invoke(reader, "explain", "service", f"{NAMESPACE}/web")
    assert result.exit_code == 0, result.output
    assert "could not be read: endpoints (" in " ".join(result.output.split())
    for command in ("check", "diff"):
        result = invoke(reader, command, "-n", NAMESPACE)
        assert result.exit_code == 2, result.output
        assert "unknown: endpointslices" in result.output
        assert "EndpointSlices could not be read, so it is unknown" in result.output


def test_a_diff_shows_pending_writes_and_sets_its_exit_code(config: Path) -> None:
    result = invoke(config, "diff", "-n", NAMESPACE)
    assert result.exit_code == 1
    assert f"+ EndpointSlice {NAMESPACE}/web-* (endpointslice, create)" in result.output
    assert (
        "+ endpoint web-1, addresses 10.79.0.1, ready true, serving true, terminating false" in result.output
    )
    assert "2 to create, 0 to update, 0 to delete" in result.output
    document = json.loads(invoke(config, "diff", "-n", NAMESPACE, "-o", "json").output)
    assert [(one["kind"], one["operation"]) for one in document["changes"]] == [
        ("EndpointSlice", "create"),
        ("Endpoints", "create"),
    ]
    nothing = invoke(config, "diff", "-n", "kube-public")
    assert (nothing.exit_code, nothing.output) == (0, "no changes\n")
