"""``endpointd up`` and ``endpointd serve`` as a new user starts them: as processes on loopback."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import ssl
import stat
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

SHOP = Path(__file__).parents[2] / "examples" / "shop"
COMMAND = (sys.executable, "-m", "endpointd")

pytestmark = pytest.mark.slow


def run(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def up(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return run(folder, "up", "--once", "--speed=200", "--timeout=40s", *arguments, stdin=stdin)


def test_the_example_shop_becomes_ready_and_is_printed(tmp_path: Path) -> None:
    done = up(tmp_path, "-f", str(SHOP), "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["services"]}
    ready = {name: row["ready"] for name, row in rows.items()}
    assert ready == {
        "api": 9,
        "basket": 3,
        "cache": 3,
        "coupons": 2,
        "kubernetes": 0,
        "mail": 0,
        "metrics": 3,
        "orders": 3,
        "orders-read": 3,
        "payments": 2,
        "reports": 0,
        "search": 4,
        "warehouse": 2,
        "web": 6,
    }
    assert sorted(endpoint_slice["addressType"] for endpoint_slice in rows["basket"]["slices"]) == [
        "IPv4",
        "IPv6",
    ]
    assert rows["warehouse"]["notReady"] == 1
    assert rows["mail"]["slices"] == []


def test_the_default_output_is_a_table(tmp_path: Path) -> None:
    done = up(tmp_path, "-f", str(SHOP / "cache.yaml"), "-f", str(SHOP / "00-namespace.yaml"))
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == [
        "NAMESPACE",
        "SERVICE",
        "TYPE",
        "READY",
        "NOT",
        "READY",
        "TERMINATING",
        "FAMILIES",
        "SLICES",
    ]
    assert [row.split()[:4] for row in rows if "cache" in row] == [["shop", "cache", "headless", "3"]]


def test_manifests_come_from_standard_input_too(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n"
    done = up(tmp_path, "-f", "-", "-o", "yaml", stdin=text)
    assert done.returncode == 0, done.stderr
    assert "web" in [row["name"] for row in yaml.safe_load(done.stdout)["services"]]


APPLICATION = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: app}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: app}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: app}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "app:reader", namespace: app}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: app}
"""


def test_a_real_application_is_accepted_with_kinds_that_no_controller_handles(tmp_path: Path) -> None:
    done = up(tmp_path, "-f", "-", stdin=APPLICATION)
    assert done.returncode == 0, done.stderr
    assert "6 objects created" in done.stderr
    assert "no controller here acts on: 1 Job, 1 Ingress, 1 Role" in done.stderr


def test_the_manifests_of_this_project_are_accepted(tmp_path: Path) -> None:
    done = up(tmp_path, "-f", str(SHOP.parents[1] / "deploy" / "manifests"), "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["services"]}
    assert rows["endpointd"]["ready"] == 2


def test_unknown_kinds_are_skipped_on_request(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: app}\n---\n"
    text += (
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m, namespace: app}\n"
    )
    refused = up(tmp_path, "-f", "-", stdin=text)
    assert refused.returncode == 2
    assert "--skip-unknown" in refused.stderr
    done = up(tmp_path, "-f", "-", "--skip-unknown", stdin=text)
    assert done.returncode == 0, done.stderr
    assert "skipped: ServiceMonitor m (stdin:5)" in done.stderr


def test_without_simulation_pods_keep_the_status_of_their_manifests(tmp_path: Path) -> None:
    manifests = ("-f", str(SHOP / "00-namespace.yaml"), "-f", str(SHOP / "warehouse.yaml"))
    done = up(tmp_path, "--no-simulate", *manifests, "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["services"]}
    assert (rows["warehouse"]["ready"], rows["warehouse"]["notReady"]) == (2, 1)


def test_without_controllers_no_slices_are_written(tmp_path: Path) -> None:
    manifests = ("-f", str(SHOP / "00-namespace.yaml"), "-f", str(SHOP / "cache.yaml"))
    done = up(tmp_path, "--no-controllers", *manifests, "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["services"]}
    assert rows["cache"]["slices"] == []


@pytest.mark.parametrize(
    ("arguments", "manifest", "lines"),
    [
        (["up", "-f", "x.yaml"], "a: [", ["x.yaml:2: while parsing a flow node"]),
        (["up", "-f", "nowhere.yaml"], "", ["nowhere.yaml: No such file or directory"]),
        (
            ["up", "-f", "x.yaml"],
            (
                "apiVersion: v1\nkind: Service\nmetadata: {name: Web}\nspec: {ports: [{port: 0}]}\n"
                "---\napiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n"
            ),
            ["x.yaml:6: Gadget a: the server knows no kind Gadget in v1", "nothing was applied"],
        ),
        (
            ["up", "-f", "x.yaml"],
            (
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad}\n"
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n"
            ),
            [
                'x.yaml:5: ConfigMap Bad: ConfigMap "Bad" is invalid',
                'x.yaml:9: ConfigMap a: namespaces "nowhere" not found',
                "nothing was applied",
            ],
        ),
        (["up", "-o", "json"], "", ["-o json needs --once"]),
        (["up", "--zones", ","], "", ["zones must name at least one zone"]),
        (
            ["serve", "--bind-address", "0.0.0.0"],
            "",
            ["--bind-address 0.0.0.0 is reachable from other machines", "--allow-remote"],
        ),
        (["serve", "--bind-address", "0.0.0.0", "--port", "70000"], "", ["70000 is not in the range"]),
        (["serve", "--kubeconfig-out", "x.yaml/kubeconfig"], "a", ["x.yaml"]),
    ],
)
def test_invalid_input_exits_with_2_and_clear_messages(
    arguments: list[str], manifest: str, lines: list[str], tmp_path: Path
) -> None:
    if manifest:
        (tmp_path / "x.yaml").write_text(manifest)
    done = run(tmp_path, *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    for line in lines:
        assert line in done.stderr


def test_services_that_do_not_become_ready_are_named_with_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: never}\n"
        "spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "
        "spec: {nodeSelector: {no: where}, containers: [{name: c, image: x}]}}}\n"
    )
    done = run(tmp_path, "up", "--once", "--timeout=1s", "--speed=200", "-f", "x.yaml")
    assert done.returncode == 1, done.stderr
    assert "deployments default/never: 0 of 1 ready" in done.stderr
    assert "Traceback" not in done.stderr


class Server:
    """A server in a separate process, accessed over HTTPS."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.kubeconfig = yaml.safe_load((folder / "kubeconfig").read_text())
        self.url = self.kubeconfig["clusters"][0]["cluster"]["server"]
        self.token = self.kubeconfig["users"][0]["user"]["token"]

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        request = urllib.request.Request(self.url + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    arguments = ["serve", f"--data-dir={tmp_path / 'data'}", f"--kubeconfig-out={tmp_path / 'kubeconfig'}"]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline().startswith("serving the Kubernetes API at https://127.0.0.1:")
        yield Server(process, tmp_path)
        process.kill()


def test_a_terminal_shows_a_screen_that_explains_and_accepts_q_to_quit(tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    arguments = [
        "up",
        "-f",
        str(SHOP / "00-namespace.yaml"),
        "-f",
        str(SHOP / "warehouse.yaml"),
        "--no-simulate",
    ]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env=environment,
    ) as process:
        os.close(other_end)
        seen = b""
        while b"q: quit" not in seen:
            seen += os.read(terminal, 4096)
        os.write(terminal, b"q")
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(terminal, 4096):
                pass
        assert process.wait(timeout=50) == 0
    os.close(terminal)
    assert b"export KUBECONFIG=" in seen


def test_requests_without_the_token_are_rejected(server: Server) -> None:
    code, body = server.get("/api/v1/namespaces")
    assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")
    assert server.get("/api/v1/namespaces", "wrong")[0] == 401
    assert server.get("/api/v1/namespaces", server.token)[0] == 200


def test_the_data_directory_is_accessible_only_to_its_owner(server: Server, tmp_path: Path) -> None:
    for folder, _, files in os.walk(tmp_path / "data"):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE((Path(folder) / name).stat().st_mode) == 0o600, name


def test_a_second_server_on_the_same_data_directory_is_rejected_with_the_pid_of_the_first(
    server: Server, tmp_path: Path
) -> None:
    done = run(tmp_path, "serve", f"--data-dir={tmp_path / 'data'}", "--kubeconfig-out=other")
    assert (done.returncode, str(server.process.pid) in done.stderr) == (2, True), done.stderr
    assert "--data-dir" in done.stderr


def test_a_signal_shuts_the_server_down_cleanly_and_removes_its_kubeconfig(
    server: Server, tmp_path: Path
) -> None:
    assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=20) == 0
    assert not list(tmp_path.glob("*kubeconfig*"))


def test_a_port_in_use_is_reported_with_the_flag_to_change(server: Server, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    done = run(tmp_path, "serve", f"--port={port}")
    assert done.returncode == 2
    assert f"cannot serve on 127.0.0.1:{port}: the port is in use; choose another --port" in done.stderr
    assert not (tmp_path / ".endpointd").exists()


def test_a_kubeconfig_in_use_is_rejected_and_kept(server: Server, tmp_path: Path) -> None:
    before = (tmp_path / "kubeconfig").read_text()
    done = run(tmp_path, "serve", "--kubeconfig-out=kubeconfig")
    assert (done.returncode, "--kubeconfig-out" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "kubeconfig").read_text() == before


def test_a_wrong_token_is_reported_with_the_user_and_the_file(server: Server, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text((tmp_path / "kubeconfig").read_text().replace(server.token, "x" * 32))
    done = run(tmp_path, "check", "-A", "--kubeconfig=wrong")
    assert done.returncode == 2
    for part in (f"user 'endpointd-admin' in {wrong}", "--kubeconfig", "Unauthorized"):
        assert part in done.stderr
