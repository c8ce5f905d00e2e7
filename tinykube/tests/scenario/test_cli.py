"""``tinykube serve`` and ``tinykube up``, as a user runs them."""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "tinykube")
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


class Running:
    """A tinykube process and its kubeconfig."""

    def __init__(self, process: "subprocess.Popen[str]", printed: list[str]) -> None:
        self.process = process
        self.printed = printed
        self.kubeconfig = Path(printed[1].partition("export KUBECONFIG=")[2].strip())
        config = yaml.safe_load(self.kubeconfig.read_text())
        self._url = config["clusters"][0]["cluster"]["server"]
        self._authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
        self._token = config["users"][0]["user"]["token"]

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        context = ssl.create_default_context(cadata=base64.b64decode(self._authority).decode())
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return json.load(answer)

    def items(self, path: str) -> list[Any]:
        return list(self.request("GET", path)["items"])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Running]:
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        try:
            printed = [process.stdout.readline(), process.stdout.readline()]
            yield Running(process, printed)
        finally:
            if process.poll() is None:
                process.terminate()


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100"}


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_serve_prints_its_url_and_writes_a_kubeconfig_that_works(tmp_path: Path) -> None:
    with running(tmp_path, "serve") as server:
        assert server.printed[0].startswith("serving the Kubernetes API at https://127.0.0.1:")
        assert server.kubeconfig == tmp_path / ".tinykube" / "kubeconfig"
        assert server.kubeconfig.stat().st_mode & 0o777 == 0o600
        names = {item["metadata"]["name"] for item in server.items("/api/v1/namespaces")}
        assert names >= {"default", "kube-system"}


def test_serve_runs_no_nodes_and_no_pods(tmp_path: Path) -> None:
    with running(tmp_path, "serve") as server:
        assert server.items("/api/v1/nodes") == []


def test_serve_removes_its_kubeconfig_when_it_is_stopped(tmp_path: Path) -> None:
    with running(tmp_path, "serve") as server:
        server.stop()
    assert list(tmp_path.iterdir()) == []


def test_serve_keeps_its_data_token_and_certificate_in_a_data_directory(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}}
    with running(tmp_path, "serve", "--data-dir", "data") as server:
        server.request("POST", "/api/v1/namespaces/default/configmaps", body)
        before = yaml.safe_load(server.kubeconfig.read_text())
        server.stop()
    with running(tmp_path, "serve", "--data-dir", "data") as server:
        stored = server.request("GET", "/api/v1/namespaces/default/configmaps/a")
        after = yaml.safe_load(server.kubeconfig.read_text())
    assert stored["data"] == {"b": "c"}
    assert after["users"] == before["users"]
    authority = "certificate-authority-data"
    assert after["clusters"][0]["cluster"][authority] == before["clusters"][0]["cluster"][authority]


def test_up_applies_manifests_and_runs_their_pods_on_simulated_nodes(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    with running(tmp_path, "up", "-f", "web.yaml", "--nodes", "2", "--speed", "1000") as server:
        while True:  # the test's timeout ends it
            pods = server.items("/api/v1/namespaces/default/pods")
            if [pod["status"]["phase"] for pod in pods] == ["Running"] * 2:
                break
        nodes = {item["metadata"]["name"] for item in server.items("/api/v1/nodes")}
        slices = server.items("/apis/discovery.k8s.io/v1/endpointslices")
        assert nodes == {"node-1", "node-2"}
        assert {pod["spec"]["nodeName"] for pod in pods} <= nodes
        assert [item["metadata"]["name"] for item in slices] == ["kubernetes"], "endpointd is not part of it"


def test_up_without_simulation_creates_no_nodes(tmp_path: Path) -> None:
    with running(tmp_path, "up", "--no-simulate") as server:
        assert server.items("/api/v1/nodes") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["serve", "--port", "web"], "'web' is not a valid integer"),
        (["serve", "--bind-address", "0.0.0.0"], "add --allow-remote"),
        (["serve", "--data-dir", "web.yaml"], "'web.yaml' is a file"),
        (["serve", "--kubeconfig-out", "web.yaml"], "web.yaml was not written by tinykube"),
        (["up", "-f", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["up", "-f", "web.yaml"], "web.yaml:2: Gadget a: the server knows no kind Gadget in v1"),
        (["up", "--zones", ","], "zones must name at least one zone"),
        (["up", "--speed", "0"], "0.0 is not in the range"),
        (["up", "--nodes", "-1"], "-1 is not in the range"),
        (["down"], "No such command 'down'"),
    ],
)
def test_invalid_arguments_and_files_end_with_exit_code_2_and_no_traceback(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "web.yaml").write_text("\napiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n")
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout if arguments[0] != "up" else "") == (2, ""), done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["web.yaml"]


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["up", "-h"], ["--version"]])
def test_help_and_version_need_no_server(arguments: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tinykube" in done.stdout
