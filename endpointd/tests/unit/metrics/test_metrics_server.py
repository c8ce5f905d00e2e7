"""The metrics listener: loopback only, with clear errors otherwise; and the process metrics."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiokube.clock import SystemClock
from aiokube.runtime.exposition import exposition
from aiokube.testing.virtual_time import ManualClock
from endpointd.cli.metrics import Metrics, process_families
from endpointd.cli.run import run
from endpointd.cli.serving_address import BindAddress, ListenError, open_listener, parse_bind_address
from endpointd.controllers.audit import Auditor
from endpointd.controllers.sync_lag import SyncLag
from tests.differential.metrics_text import parse_metrics
from tinykube.server.certificates.authority import CertificateAuthority
from tinykube.testing.kubeconfig import write_kubeconfig

HERE = BindAddress("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", BindAddress("127.0.0.1", 8080)),
        ("127.9.9.9:0", BindAddress("127.9.9.9", 0)),
        ("localhost:65535", BindAddress("127.0.0.1", 65535)),
        ("[::1]:8080", BindAddress("::1", 8080)),
    ],
)
def test_loopback_addresses_are_accepted(text: str, address: BindAddress) -> None:
    assert parse_bind_address(text, allow_remote=False) == address
    assert parse_bind_address(str(address), allow_remote=False) == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("8080", "is not an address with a port: write 127.0.0.1:8080"),
        ("127.0.0.1", "is not an address with a port"),
        ("127.0.0.1:", "is not an address with a port"),
        ("127.0.0.1:http", "is not an address with a port"),
        ("127.0.0.1:65536", "is not an address with a port"),
        ("::1:8080", "write an IPv6 address in brackets"),
        ("metrics.example:8080", "is not an IP address; the only accepted name is localhost"),
    ],
)
@pytest.mark.parametrize("allow_remote", [False, True])
def test_an_invalid_address_is_rejected_with_an_example(
    text: str, complaint: str, allow_remote: bool
) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_bind_address(text, allow_remote=allow_remote)


@pytest.mark.parametrize(
    "text", ["0.0.0.0:8080", "192.0.2.7:8080", "[2001:db8::1]:8080", "[::]:8080", ":8080"]
)
def test_a_remote_address_must_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is reachable from other machines.*--metrics-allow-remote"):
        parse_bind_address(text, allow_remote=False)
    assert parse_bind_address(text, allow_remote=True).port == 8080


def test_a_port_in_use_is_reported_with_a_remedy() -> None:
    with open_listener(HERE) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ListenError, match=rf"cannot serve metrics on 127.0.0.1:{port}: Address already in use"
        ):
            open_listener(BindAddress("127.0.0.1", port))


@pytest.mark.parametrize("address", ["0.0.0.0:0", "nonsense"])
def test_an_invalid_address_exits_with_2_before_the_start(address: str) -> None:
    done = CliRunner().invoke(run, ["--metrics-bind-address", address, "--kubeconfig", "/nowhere"])
    assert done.exit_code == 2
    assert "--metrics-bind-address" in done.output
    assert "/nowhere" not in done.output


def test_the_standard_process_metrics_are_present() -> None:
    metrics = parse_metrics(exposition(process_families()).decode())
    assert metrics["process_cpu_seconds_total"].type == "counter"
    assert metrics["process_cpu_seconds_total"].values[()] > 0
    assert metrics["endpointd_build_info"].values.popitem()[1] == 1
    assert 1e6 < metrics["process_resident_memory_bytes"].values[()] < 1e12
    assert metrics["process_start_time_seconds"].values[()] > 1.6e9
    assert 0 < metrics["process_open_fds"].values[()] <= metrics["process_max_fds"].values[()]


def test_the_rendered_text_has_each_name_once() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    auditor = Auditor(clock=SystemClock())
    metrics.add_audit(auditor.statistics)
    lag = SyncLag(clock)
    metrics.add_lag("some-controller", lag)
    lag.changed("default/web")  # type: ignore[arg-type]
    clock.now = 3.0
    text = metrics.render().decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(names) == len(set(names))
    read = parse_metrics(text)
    assert read["endpointd_unpublished_oldest_seconds"].values == {(("controller", "some-controller"),): 3.0}
    assert read["endpointd_sync_lag_seconds"].counts == {(("controller", "some-controller"),): 0}
    assert "endpointd_audits_total" in read


def test_a_port_in_use_ends_the_program_with_2_and_one_line(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(
        tmp_path / "config",
        server="https://127.0.0.1:1",
        certificate_authority=CertificateAuthority(clock=SystemClock()).pem,
        token="t",
        user="someone",
    )
    with open_listener(HERE) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "endpointd", "run", f"--kubeconfig={kubeconfig}"]
        done = subprocess.run(
            [*command, f"--metrics-bind-address={address}"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        (
            f"endpointd: cannot serve metrics on {address}: Address already in use "
            "(choose another --metrics-bind-address, or stop the program that listens there)"
        )
    ]


def test_serving_metrics_imports_neither_a_web_framework_nor_opentelemetry() -> None:
    code = (
        "import sys, endpointd.cli.run_program, endpointd.cli.serving;"
        "print([name for name in sys.modules if name.startswith(('aiohttp.web_app', 'opentelemetry'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
