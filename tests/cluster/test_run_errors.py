"""Errors are reported in one line; transient ones are retried; signals always end the program cleanly."""

import itertools
import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig
from tinykube.testing.processes import ChildProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Start = Callable[..., ChildProcess]
USER = "endpointd"
_numbers = itertools.count()


@pytest.fixture
def start(endpointd_command: tuple[str, ...], tmp_path: Path) -> Iterator[Start]:
    """Start ``endpointd run`` with flags; stopped after the test."""
    running: list[ChildProcess] = []

    def start_one(*flags: str) -> ChildProcess:
        command = [*endpointd_command, "--leader-elect=false", *flags]
        running.append(ChildProcess("endpointd", command, log_path=tmp_path / f"log-{len(running)}"))
        return running[-1]

    yield start_one
    for process in running:
        process.kill()


def lines_about(process: ChildProcess, words: str) -> list[str]:
    assert "Traceback" not in process.log(), process.log()
    return [line for line in process.log().splitlines() if words in line]


def no_file(folder: Path) -> tuple[str, str]:
    return f"--kubeconfig={folder / 'nowhere'}", str(folder / "nowhere")


def not_yaml(folder: Path) -> tuple[str, str]:
    (folder / "odd").write_text("a: [1,\n")
    return f"--kubeconfig={folder / 'odd'}", str(folder / "odd")


def no_current_context(folder: Path) -> tuple[str, str]:
    (folder / "empty").write_text("apiVersion: v1\nkind: Config\n")
    return f"--kubeconfig={folder / 'empty'}", "context"


@pytest.mark.parametrize("broken", [no_file, not_yaml, no_current_context])
def test_an_unusable_kubeconfig_exits_with_2_and_one_line(
    broken: Callable[[Path], tuple[str, str]], start: Start, tmp_path: Path
) -> None:
    flag, named = broken(tmp_path)
    process = start(flag)
    assert process.wait(30) == 2
    (line,) = process.log().splitlines()
    assert named in line


def test_an_invalid_flag_exits_with_2(start: Start) -> None:
    process = start("--max-endpoints-per-slice=1001")
    assert process.wait(30) == 2
    assert "max-endpoints-per-slice must not be more than 1000, but got 1001" in process.log()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("https://no-such-host.invalid:6443", "no-such-host.invalid"),
        ("https://127.0.0.1:{port}", "127.0.0.1:{port}"),
    ],
    ids=["no such host", "connection refused"],
)
def test_an_unreachable_server_is_named_and_retried(
    server: str, told: str, start: Start, tmp_path: Path
) -> None:
    port = unused_port()
    config = write_kubeconfig(tmp_path / "config", server=server.format(port=port), token="t")
    process = start(f"--kubeconfig={config}")
    process.wait_until(
        lambda: [
            line
            for line in lines_about(process, told.format(port=port))
            if " I " not in line and "INFO" not in line
        ],
        what="naming the server",
        timeout_seconds=60,
    )
    assert process.is_running
    assert process.stop(20) == 0


def test_a_rejected_token_is_reported_and_retried(
    control_plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    config = write_kubeconfig(
        tmp_path / "config",
        server=control_plane.url,
        certificate_authority=control_plane.certificate_authority,
        token="a-wrong-one",
    )
    process = start(f"--kubeconfig={config}")
    process.wait_until(lambda: lines_about(process, "nauthorized"), what="telling", timeout_seconds=60)
    assert process.is_running
    assert "a-wrong-one" not in process.log()
    assert process.stop(20) == 0


def role(*, pods: bool) -> str:
    """The permissions of the two controllers, with or without pods."""
    read = ["get", "list", "watch"]
    write = [*read, "create", "update", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["services", "nodes", *(["pods"] if pods else [])], "verbs": read},
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": write},
        {"apiGroups": [""], "resources": ["endpoints/restricted"], "verbs": ["create"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": write},
        {"apiGroups": [""], "resources": ["services/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    ]
    name = {"name": "endpointd"}
    api = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "endpointd"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": USER}],
    }
    granted = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [granted, binding]})


@pytest.fixture
def service(control_plane: ControlPlane) -> Iterator[str]:
    """The name of an unpublished service."""
    name = f"told-{next(_numbers)}"
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }
    control_plane.kubectl("create", "-f", "-", document=json.dumps(body))
    yield name
    control_plane.kubectl("delete", "service,endpoints", name, "--ignore-not-found")
    control_plane.kubectl("delete", "endpointslices", "-l", f"kubernetes.io/service-name={name}")


def test_a_missing_permission_is_named_and_used_as_soon_as_it_is_granted(
    control_plane: ControlPlane, start: Start, service: str
) -> None:
    """The permissions are exactly those of behaviour 0.1."""
    control_plane.kubectl("apply", "-f", "-", document=role(pods=False))
    process = start(f"--kubeconfig={control_plane.kubeconfig_for(USER)}")
    process.wait_until(
        lambda: lines_about(process, r"resource \"pods\" in API group"),
        what="naming the right",
        timeout_seconds=60,
    )
    assert process.is_running
    assert service not in control_plane.kubectl("get", "endpoints", "-o", "name")
    control_plane.kubectl("apply", "-f", "-", document=role(pods=True))
    process.wait_until(
        lambda: service in control_plane.kubectl("get", "endpoints", "-o", "name"),
        what="publishing",
        timeout_seconds=90,
        poll_seconds=0.5,
    )
    process.wait_until(
        lambda: f"{service}-" in control_plane.kubectl("get", "endpointslices", "-o", "name"),
        what="publishing slices",
        timeout_seconds=20,
        poll_seconds=0.5,
    )
    assert process.stop(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_exits_with_0(
    number: signal.Signals, control_plane: ControlPlane, start: Start, service: str
) -> None:
    process = start(f"--kubeconfig={control_plane.kubeconfig_path}")
    process.wait_until(
        lambda: service in control_plane.kubectl("get", "endpoints", "-o", "name"),
        what="publishing",
        timeout_seconds=60,
        poll_seconds=0.3,
    )
    process.signal(number)
    assert process.wait(20) == 0
    assert "Traceback" not in process.log()
