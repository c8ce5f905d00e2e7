"""A running program from the operator's view: probes, metrics over TLS, a configuration file, logs, and bounded shutdown."""

import base64
import json
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiokube.clock import SystemClock
from tinykube.server.certificates.authority import CertificateAuthority
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Start = Callable[..., ChildProcess]
TOKEN = "an-open-secret"


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(url: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Return status and text; status 0 without a response."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


@pytest.fixture
def start(endpointd_command: tuple[str, ...], tmp_path: Path) -> Iterator[Start]:
    running: list[ChildProcess] = []

    def start_one(*flags: str) -> ChildProcess:
        command = [*endpointd_command, *flags]
        running.append(ChildProcess("endpointd", command, log_path=tmp_path / f"log-{len(running)}"))
        return running[-1]

    yield start_one
    for process in running:
        process.kill()


def test_a_config_file_sets_tls_token_and_json_logs(
    control_plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    authority = CertificateAuthority(clock=SystemClock())
    serving(authority, tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    port = unused_port()
    (tmp_path / "config.yaml").write_text(
        "apiVersion: endpointd.dev/v1alpha1\n"
        "kind: EndpointdConfiguration\n"
        f"kubeconfig: {control_plane.kubeconfig_path}\n"
        "leaderElect: false\n"
        f"metricsBindAddress: 0.0.0.0:{port}\n"
        f"metricsTokenFile: {tmp_path / 'token'}\n"
        f"tlsCertFile: {tmp_path / 'tls.crt'}\n"
        f"tlsPrivateKeyFile: {tmp_path / 'tls.key'}\n"
        "loggingFormat: json\n"
        "verbosity: 6\n"
    )
    process = start(f"--config={tmp_path / 'config.yaml'}", "--controllers=endpoints-controller")
    url, tls = f"https://127.0.0.1:{port}", ssl.create_default_context(cadata=authority.pem.decode())
    process.wait_until(
        lambda: ask(f"{url}/readyz", tls=tls) == (200, "ok\n"), what="being ready", timeout_seconds=60
    )
    assert ask(f"{url}/livez", tls=tls) == (200, "ok\n")
    assert ask(f"{url}/metrics", tls=tls)[0] == 401
    status, metrics = ask(f"{url}/metrics", token=TOKEN, tls=tls)
    assert (status, "workqueue_depth" in metrics) == (200, True)
    text = ask(f"{url}/readyz?verbose", tls=tls)[1]
    assert "[+]watch-pods ok" in text
    assert "nodes" not in text  # this controller watches only the resources it needs
    assert process.stop(20) == 0
    lines = [json.loads(line) for line in process.log().splitlines()]
    assert {"ts", "severity", "logger", "msg"} <= set(lines[0])
    assert [line["controllers"] for line in lines if line["msg"] == "running"] == [
        "endpoints-controller,audit"
    ]
    assert any(line["msg"] == "request" and line["outcome"] == 200 for line in lines)
    assert TOKEN not in process.log()
    assert control_plane.admin_token not in process.log()


def test_a_standby_is_ready_and_alive(control_plane: ControlPlane, start: Start) -> None:
    ports = (unused_port(), unused_port())
    common = (f"--kubeconfig={control_plane.kubeconfig_path}", "--leader-elect-resource-name=operations")
    leader = start(*common, f"--metrics-bind-address=127.0.0.1:{ports[0]}")
    leader.wait_until(lambda: '"running"' in leader.log(), what="leading", timeout_seconds=60)
    standby = start(*common, f"--metrics-bind-address=127.0.0.1:{ports[1]}")
    standby.wait_until(lambda: "is held by" in standby.log(), what="waiting", timeout_seconds=60)
    for port, leads in zip(ports, (1, 0), strict=True):
        assert ask(f"http://127.0.0.1:{port}/readyz") == (200, "ok\n")
        assert ask(f"http://127.0.0.1:{port}/livez") == (200, "ok\n")
        metrics = ask(f"http://127.0.0.1:{port}/metrics")[1]
        assert f'leader_election_master_status{{name="operations"}} {leads}' in metrics
    assert standby.stop(20) == 0
    assert leader.stop(20) == 0


def serving(authority: CertificateAuthority, folder: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server on loopback; its files are in the folder."""
    pair = authority.server(["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def test_sigterm_ends_the_process_in_time_despite_unanswered_writes(start: Start, tmp_path: Path) -> None:
    """A stalled webhook blocks the write; the grace period of 10 s ends, and the log names the aborted write."""
    authority = CertificateAuthority(clock=SystemClock())
    tls = serving(authority, tmp_path)
    with ControlPlane() as plane:
        process = start(
            f"--kubeconfig={plane.kubeconfig_path}",
            "--leader-elect=false",
            "--controllers=endpoints-controller",
        )
        process.wait_until(lambda: '"running"' in process.log(), what="running", timeout_seconds=60)
        webhook = socket.create_server(("127.0.0.1", 0))
        with webhook:
            hook = {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "slow"},
                "webhooks": [
                    {
                        "name": "slow.example.com",
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["CREATE"],
                                "resources": ["endpoints"],
                            }
                        ],
                        "clientConfig": {
                            "url": f"https://127.0.0.1:{webhook.getsockname()[1]}/",
                            "caBundle": base64.b64encode(authority.pem).decode(),
                        },
                        "timeoutSeconds": 30,
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                    }
                ],
            }
            plane.kubectl("create", "-f", "-", document=json.dumps(hook))
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
            plane.kubectl("create", "-f", "-", document=json.dumps(service))
            webhook.settimeout(30)
            connection, _ = webhook.accept()
            with tls.wrap_socket(connection, server_side=True):  # the write never gets a response
                process.signal(signal.SIGTERM)
                assert process.wait(20) == 0
    (line,) = [line for line in process.log().splitlines() if "reconciles were cancelled" in line]
    assert 'abandoned="default/web"' in line
    assert "grace_seconds=10" in line
    assert "Traceback" not in process.log()
