"""The control plane used by the other tests keeps its promises."""

import json
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tinykube.testing.control_plane import ControlPlane, ControlPlaneError

pytestmark = pytest.mark.timeout(120)


def kubectl_as(plane: ControlPlane, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(plane.assets / "kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_admin_may_do_everything_and_other_users_only_what_is_granted(
    control_plane: ControlPlane,
) -> None:
    assert control_plane.kubectl("auth", "can-i", "*", "*").strip() == "yes"
    bob = control_plane.kubeconfig_for("bob", ["watchers", "others"])
    who = kubectl_as(control_plane, bob, "auth", "whoami", "-o", "json")
    assert json.loads(who.stdout)["status"]["userInfo"]["groups"] == [
        "watchers",
        "others",
        "system:authenticated",
    ]
    forbidden = kubectl_as(control_plane, bob, "get", "pods")
    assert forbidden.returncode
    assert 'User "bob" cannot list resource "pods"' in forbidden.stderr
    control_plane.kubectl("create", "clusterrole", "watcher", "--verb=get,list", "--resource=pods")
    control_plane.kubectl(
        "create", "clusterrolebinding", "watcher", "--clusterrole=watcher", "--group=watchers"
    )
    assert kubectl_as(control_plane, bob, "get", "pods").returncode == 0


def test_kubeconfigs_are_readable_only_by_their_owner(control_plane: ControlPlane) -> None:
    for path in (control_plane.kubeconfig_path, control_plane.kubeconfig_for("eve")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_services_are_dual_stack_on_request(control_plane: ControlPlane) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "both", "namespace": "default"},
        "spec": {"ipFamilyPolicy": "RequireDualStack", "selector": {"app": "x"}, "ports": [{"port": 80}]},
    }
    control_plane.kubectl("create", "-f", "-", document=json.dumps(service))
    families = control_plane.kubectl("get", "service", "both", "-o", "jsonpath={.spec.ipFamilies}")
    assert json.loads(families) == ["IPv4", "IPv6"]
    control_plane.kubectl("delete", "service", "both")


def test_writes_are_audited_and_reads_are_not(control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "configmap", "audited")
    control_plane.kubectl("get", "configmaps")
    lines = [json.loads(line) for line in control_plane.audit_log_path.read_text().splitlines()]
    assert any(line["verb"] == "create" and line["objectRef"].get("name") == "audited" for line in lines)
    assert not any(line["verb"] in ("get", "list", "watch") for line in lines)


def test_kube_controller_manager_runs_only_the_requested_controllers(
    control_plane: ControlPlane,
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    with control_plane.start_controller_manager(["endpoints-controller"]) as manager:
        control_plane.kubectl("create", "-f", "-", document=json.dumps(service))
        manager.wait_until(
            lambda: "web" in control_plane.kubectl("get", "endpoints", "-o", "name"),
            what="publishing Endpoints",
            timeout_seconds=20,
        )
        assert "web" not in control_plane.kubectl("get", "endpointslices", "-o", "name")
    assert not manager.is_running
    control_plane.kubectl("delete", "service", "web")


def test_two_control_planes_run_in_parallel_and_the_api_server_restarts_at_its_address(
    control_plane: ControlPlane, second_control_plane: ControlPlane
) -> None:
    second = second_control_plane
    assert control_plane.url != second.url
    second.kubectl("create", "configmap", "kept")
    second.stop_apiserver()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(second.url, timeout=2)
    with pytest.raises(ControlPlaneError, match="not running"):
        second.apiserver.pause()
    second.start_apiserver()
    assert "kept" in second.kubectl("get", "configmaps", "-o", "name")
    assert "kept" not in control_plane.kubectl("get", "configmaps", "-o", "name")
