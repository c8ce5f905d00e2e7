"""Blocking views against a real API server in this process: threads, callbacks, fork and exit."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from aiokube.client.errors import ConfigError
from aiokube.discovery import ForkedError, PodView, ServiceEndpoints, ServiceView
from tinykube.testing.api_server import ThreadApiServer, running_api_server

pytestmark = pytest.mark.slow

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80}]}
"""
SLICE = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [%s]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web, model: llama}}
spec: {containers: [{name: main, image: none}]}
"""


def slice_of(*ips: str) -> str:
    return SLICE % ", ".join(f"{{addresses: ['{ip}']}}" for ip in ips)


@pytest.fixture
def server() -> Iterator[ThreadApiServer]:
    with running_api_server() as server:
        server.apply(SERVICE, slice_of("10.0.0.1"))
        yield server


def addresses(view: ServiceView | PodView) -> list[str]:
    return [each.address for each in view.usable]


def test_a_service_view_is_complete_when_it_is_entered_and_follows_changes(server: ThreadApiServer) -> None:
    with ServiceView("default/web", cluster=server.kubeconfig_path, stale_after=60) as view:
        assert addresses(view) == ["10.0.0.1:8080"]
        changer = threading.Timer(0.1, lambda: server.apply(slice_of("10.0.0.1", "10.0.0.2")))
        changer.start()
        assert view.wait_for_change(30.0)
        assert addresses(view) == ["10.0.0.1:8080", "10.0.0.2:8080"]
        view.check()
        assert view.age < 60
        changer.join()
    assert addresses(view) == ["10.0.0.1:8080", "10.0.0.2:8080"]
    with pytest.raises(RuntimeError, match="the view is not open"):
        view.check()
    assert not view.wait_for_change()


def test_the_background_thread_ends_with_the_last_view(server: ThreadApiServer) -> None:
    def running() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "aiokube-discovery"]

    with ServiceView("default/web", cluster=server.kubeconfig_path) as first:
        with ServiceView("default/web", cluster=server.kubeconfig_path) as second:
            (thread,) = running()
            assert addresses(first) == addresses(second)
        assert running() == [thread]
    thread.join(30.0)
    assert running() == []


def test_a_pod_view_has_the_requested_labels(server: ThreadApiServer) -> None:
    server.apply(POD % "a")
    with PodView("default", "app=web", port=8000, labels=["model"], cluster=server.kubeconfig_path) as view:
        before = view.current
        assert before.endpoints == ()  # the pod has no address yet
        server.run_pod("a", ip="10.0.0.9")
        while not view.usable:
            assert view.wait_for_change(30.0)
        (found,) = view.usable
        assert (found.address, dict(found.labels)) == ("10.0.0.9:8000", {"model": "llama"})


def test_callbacks_get_the_first_state_and_changes_and_may_fail(server: ThreadApiServer) -> None:
    seen: list[int] = []
    arrived = threading.Semaphore(0)

    def on_change(endpoints: ServiceEndpoints) -> None:
        seen.append(len(endpoints.usable))
        arrived.release()
        raise ValueError("a mistake of the program")

    with ServiceView("default/web", cluster=server.kubeconfig_path, on_change=on_change):
        assert arrived.acquire(timeout=30)
        server.apply(slice_of("10.0.0.1", "10.0.0.2"))
        assert arrived.acquire(timeout=30)
    assert seen == [1, 2]


def test_use_after_a_fork_is_an_error_and_the_child_can_open_its_own_view(
    server: ThreadApiServer,
) -> None:
    path = server.kubeconfig_path
    with ServiceView("default/web", cluster=path) as view:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                view.usable  # noqa: B018 - raises
            except ForkedError:
                with ServiceView("default/web", cluster=path) as own:
                    code = 0 if addresses(own) == ["10.0.0.1:8080"] else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert addresses(view) == ["10.0.0.1:8080"]


def test_a_program_that_forgets_to_close_exits_cleanly(server: ThreadApiServer) -> None:
    program = (
        "import sys\n"
        "from aiokube.discovery import ServiceView\n"
        "view = ServiceView('default/web', cluster=sys.argv[1])\n"
        "view.open()\n"
        "print(view.usable[0].address)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(server.kubeconfig_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "10.0.0.1:8080\n", "")


def test_opening_raises_the_same_errors_as_the_asyncio_view(tmp_path: os.PathLike[str]) -> None:
    missing = os.path.join(tmp_path, "missing")  # noqa: PTH118 - users pass paths as text
    with pytest.raises(ConfigError, match="missing"):
        ServiceView("default/web", cluster=missing).open()
    with pytest.raises(ValueError, match="namespace/name"):
        ServiceView("web")
