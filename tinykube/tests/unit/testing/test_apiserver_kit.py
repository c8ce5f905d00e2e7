"""The test kit: a server for a block, in a thread or in the event loop; helpers; cleanup."""

import asyncio
import stat
import threading
import urllib.request
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from aiokube.client.errors import InvalidError, NotFoundError, TransportError
from tinykube.server.settings import ServerSettings, SettingsError
from tinykube.testing.api_server import DEFAULT_SETTINGS, FAST_PODS, running_api_server
from tinykube.testing.objects import documents_of

pytest_plugins = ("pytester",)

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: registry.invalid/none}]}
"""


def test_a_server_in_a_thread_serves_blocking_callers() -> None:
    with running_api_server() as server:
        (made,) = server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        assert server.get("v1", "ConfigMap", "a") == made
        assert [item["metadata"]["name"] for item in server.list_all("v1", "ConfigMap", "default")] == ["a"]
        server.delete("v1", "ConfigMap", "a")
        with pytest.raises(NotFoundError):
            server.get("v1", "ConfigMap", "a")


async def test_a_server_in_the_event_loop_serves_async_callers() -> None:
    async with running_api_server() as server:
        (made,) = await server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        assert await server.get("v1", "ConfigMap", "a") == made
        assert len(await server.list_all("v1", "ConfigMap")) == 1
        await server.delete("v1", "ConfigMap", "a")
        assert await server.list_all("v1", "ConfigMap") == []


def test_servers_are_independent_and_start_empty() -> None:
    with running_api_server() as first, running_api_server() as second:
        assert first.url != second.url
        assert first.token != second.token
        first.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        assert second.list_all("v1", "ConfigMap") == []


def test_the_server_listens_only_on_loopback() -> None:
    with running_api_server() as server:
        assert server.url.startswith("https://127.0.0.1:")
    with pytest.raises(ValueError, match="only on loopback"):
        running_api_server(replace(DEFAULT_SETTINGS, host="0.0.0.0", allow_remote=True))
    with pytest.raises(SettingsError), running_api_server(replace(DEFAULT_SETTINGS, host="192.0.2.1")):
        pass


def test_the_kubeconfig_is_private_and_removed_with_the_server() -> None:
    with running_api_server() as server:
        path = server.kubeconfig_path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.read_text() == server.kubeconfig()
        assert yaml.safe_load(server.kubeconfig())["users"][0]["user"]["token"] == server.token
        assert server.kubeconfig_path == path
    assert not path.parent.exists()


def test_leaving_the_block_ends_the_thread_and_closes_the_port() -> None:
    before = set(threading.enumerate())
    with running_api_server() as server:
        url = server.url
        (thread,) = set(threading.enumerate()) - before
    assert not thread.is_alive()
    with pytest.raises(OSError, match=r"refused"):
        urllib.request.urlopen(f"{url}/healthz", timeout=2)


def test_an_exception_in_the_block_is_raised_unchanged() -> None:
    with pytest.raises(KeyError, match="mine"), running_api_server():
        raise KeyError("mine")


def test_a_startup_error_is_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = ServerSettings(data_dir=tmp_path / "file" / "data")
    before = set(threading.enumerate())
    with pytest.raises(Exception, match="file"), running_api_server(settings):
        pass
    assert not set(threading.enumerate()) - before


def test_repeated_applies_are_merged() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    with running_api_server() as server:
        server.apply(manifest)
        (now,) = server.apply({**manifest, "data": {"y": "2"}})
        assert now["data"] == {"x": "1", "y": "2"}


def test_manifests_may_be_text_files_or_objects(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    with running_api_server() as server:
        namespace = server.new_namespace("mine")
        assert namespace.startswith("mine-")
        text = f"---\nkind: ConfigMap\napiVersion: v1\nmetadata: {{name: a, namespace: {namespace}}}\n---\n"
        made = server.apply(text, file, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        assert [one["kind"] for one in made] == ["ConfigMap", "Pod", "Node"]
        assert made[0]["metadata"]["namespace"] == namespace


def test_the_status_of_a_manifest_is_written() -> None:
    (pod,) = documents_of(POD)
    status = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}
    with running_api_server() as server:
        (made,) = server.apply({**pod, "status": status})
        assert made["status"]["podIP"] == "10.1.2.3"


def test_a_rejection_is_raised_with_the_message_of_the_server() -> None:
    with running_api_server() as server, pytest.raises(InvalidError, match=r"metadata\.name"):
        server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "B_"}})


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [", "is not valid YAML"), ("- a", "not a manifest"), ("kind: Pod", "not a manifest")],
)
def test_an_invalid_manifest_is_rejected_in_one_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        documents_of(text)
    assert "\n" not in str(caught.value)


def test_run_pod_sets_node_address_and_readiness() -> None:
    with running_api_server() as server:
        server.apply(POD, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        pod = server.run_pod("web", node="n")
        assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Running", "n")
        assert pod["status"]["podIP"] == "10.244.0.1"
        assert pod["status"]["containerStatuses"][0]["ready"]
        unready = server.run_pod("web", ready=False)
        assert unready["status"]["podIP"] == "10.244.0.1", "the address is kept"
        conditions = {item["type"]: item["status"] for item in unready["status"]["conditions"]}
        assert conditions["Ready"] == "False"
        assert server.run_pod("web", ip="10.9.9.9")["status"]["podIPs"] == [{"ip": "10.9.9.9"}]


def test_simulated_pods_run_in_a_thread() -> None:
    with (
        running_api_server() as server,
        server.simulated_pods(replace(FAST_PODS, nodes=1, image_pull_seconds=0)),
    ):
        server.apply(POD)
        for _ in range(500):
            pod = server.get("v1", "Pod", "web")
            if pod["status"]["phase"] == "Running":
                break
            threading.Event().wait(0.01)
        assert pod["spec"]["nodeName"]
        assert pod["status"]["podIP"]


async def test_simulated_pods_run_in_the_event_loop() -> None:
    async with running_api_server() as server, server.simulated_pods():
        await server.apply(POD)
        for _ in range(500):
            pod = await server.get("v1", "Pod", "web")
            if pod["status"]["phase"] == "Running":
                return
            await asyncio.sleep(0.01)
    raise AssertionError("the pod does not run")


def test_wait_for_returns_the_object_once_the_condition_holds() -> None:
    with (
        running_api_server() as server,
        server.simulated_pods(replace(FAST_PODS, nodes=1, image_pull_seconds=0)),
    ):
        server.apply(POD)
        pod = server.wait_for("v1", "Pod", "web", lambda it: it["status"].get("phase") == "Running")
        assert pod["status"]["phase"] == "Running"


def test_a_wait_for_timeout_names_the_object_and_its_state() -> None:
    with running_api_server() as server:
        with pytest.raises(
            TimeoutError, match=r"Pod default/web did not meet .* within 0 s: it does not exist"
        ):
            server.wait_for("v1", "Pod", "web", bool, timeout_seconds=0)
        server.apply(POD)
        with pytest.raises(TimeoutError, match=r"its status is \{'phase': 'Pending'"):
            server.wait_for("v1", "Pod", "web", lambda _: False, timeout_seconds=0)


async def test_requests_after_the_block_fail() -> None:
    async with running_api_server() as server:
        pass
    with pytest.raises((TransportError, RuntimeError)):
        await server.get("v1", "ConfigMap", "a")


def test_data_can_outlive_the_block(tmp_path: Path) -> None:
    settings = replace(DEFAULT_SETTINGS, data_dir=tmp_path)
    with running_api_server(settings) as server:
        server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    with running_api_server(settings) as server:
        server.get("v1", "ConfigMap", "a")


def test_the_fixtures_provide_a_fresh_and_a_shared_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}

        def test_fresh(api_server):
            api_server.apply(CONFIG_MAP)

        def test_fresh_again(api_server):
            assert api_server.list_all("v1", "ConfigMap") == []

        def test_shared(api_server_session):
            api_server_session.apply(CONFIG_MAP)

        def test_shared_again(api_server_session, api_server):
            assert len(api_server_session.list_all("v1", "ConfigMap")) == 1
            assert api_server.url != api_server_session.url

        async def test_from_a_loop(api_server):
            api_server.apply(CONFIG_MAP)
        """
    )
    pytester.makeconftest("from tinykube.pytest_plugin import *")  # as if it were not installed
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=5)


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tinykube.pytest_plugin; "
        "sys.exit('tinykube.server' in sys.modules or 'aiohttp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
