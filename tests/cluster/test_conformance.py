"""Kubernetes' own end-to-end specs for services and endpoints pass with endpointd in place of the three controllers.

The specs are those of the pinned Kubernetes version, unchanged. Nodes and pods are simulated, so specs that send traffic
through a service are excluded: they test kube-proxy ("multiple ports", "multiple endpoint IPs", "multiple subsets and same
IP address"). The latencies printed by "Service endpoints latency" are reported beside those of kube-controller-manager.
"""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.simulated import simulation_runs
from tinykube.simulate.settings import SimulateSettings
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ProcessError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]  # the first run builds the specs

BUILD = Path(__file__).parent / "programs" / "build"
LATENCY_SPEC = "Service endpoints latency should not be very high"
SPECS = (
    "API Server should have Endpoints and EndpointSlices pointing to API Server",
    "EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service",
    "EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no pods",
    "EndpointSlice should support creating EndpointSlice API operations",
    "EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete",
    "Endpoints should test the lifecycle of an Endpoint",
    "EndpointsController should create Endpoints for Pods matching a Service",
    "EndpointsController should create and delete Endpoints for a Service with a selector that matches no pods",
    "Services should complete a service status lifecycle",
    "Services should delete a collection of services",
    "Services should find a service from listing all namespaces",
    LATENCY_SPEC,
)
ENDPOINTS_CONTROLLERS = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
)
OTHER_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "replicationcontroller-controller",
)
"""Required by the specs themselves."""

_LINE = re.compile(r"^(?:(\[sig-network\] .*?)(?: \[.*)?|• (\[.*))$", re.MULTILINE)
Report = Callable[[str], None]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Prints progress immediately: this takes minutes."""

    def show(line: str) -> None:
        with capsys.disabled():
            print(f"  {line}", flush=True)

    return show


@pytest.fixture
def specs_program(capsys: pytest.CaptureFixture[str]) -> Path:
    """The e2e program; built on first use."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: it builds Kubernetes' end-to-end specs")
    with capsys.disabled():
        print(flush=True)
        done = subprocess.run([BUILD, "conformance"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip()) / "e2e.test"


@contextlib.contextmanager
def cluster(controllers: Sequence[str]) -> Iterator[ControlPlane]:
    """A control plane with simulated nodes and these controllers of kube-controller-manager."""
    with ControlPlane() as plane:
        flags = [f"--root-ca-file={plane.directory / 'ca.crt'}"]
        plane.start_controller_manager([*OTHER_CONTROLLERS, *controllers], flags=flags)
        with simulation_runs(plane, SimulateSettings(nodes=2, speed=10.0, image_pull_seconds=0.0)):
            yield plane


def run_specs(program: Path, plane: ControlPlane, specs: Sequence[str], report: Report) -> str:
    """Run the specs, report each as it ends, and return the whole output. Fails with the log if a spec fails."""
    command: list[str | Path] = [
        program,
        f"--kubeconfig={plane.kubeconfig_path}",
        "--provider=local",
        "--disable-log-dump",
        f"--report-dir={plane.directory / 'report'}",
        "--ginkgo.v",
        "--ginkgo.no-color",
        "--ginkgo.seed=1",
        "--ginkgo.timeout=15m",
        f"--ginkgo.focus=\\[sig-network\\] ({'|'.join(re.escape(spec) for spec in specs)})( |$)",
    ]
    child = plane.start_child("e2e", command)
    told = 0
    while child.exit_code is None:
        with contextlib.suppress(ProcessError):
            child.wait(1.0)
        results = spec_results(child.log())
        for result in results[told:]:
            report(result)
        told = len(results)
    log = child.log()
    assert child.exit_code == 0, log[-8000:]
    assert f"Ran {len(specs)} of " in log, log[-2000:]
    return log


def spec_results(log: str) -> list[str]:
    """Return the name of each finished spec with its time or result."""
    results, spec = [], ""
    for name, result in _LINE.findall(log):
        if result:
            results.append(f"{spec} {result}")
        else:
            spec = name
    return results


def latencies(log: str) -> str:
    """Return the percentiles printed by the spec."""
    found = dict(re.findall(r"(50|90|99) %ile: (\S+)", log))
    assert set(found) == {"50", "90", "99"}
    return ", ".join(f"{percent} %: {found[percent]}" for percent in ("50", "90", "99"))


def test_kubernetes_own_specs_pass_with_endpointd_in_place_of_the_controllers(
    specs_program: Path, endpointd_command: tuple[str, ...], tmp_path: Path, report: Report
) -> None:
    with cluster(()) as plane:
        flags = [f"--kubeconfig={plane.kubeconfig_path}", "--leader-elect=false"]
        ours = plane.start_child("endpointd", [*endpointd_command, *flags])
        log = run_specs(specs_program, plane, SPECS, report)
        assert ours.is_running, ours.log()
    with cluster(ENDPOINTS_CONTROLLERS) as plane:
        upstream_log = run_specs(specs_program, plane, [LATENCY_SPEC], report)
    report(f"latencies with endpointd: {latencies(log)}")
    report(f"latencies with kube-controller-manager: {latencies(upstream_log)}")
