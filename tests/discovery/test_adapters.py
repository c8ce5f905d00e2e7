"""The adapters for other programs, with pods on a real API server in this process."""

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from aiokube.discovery import EndpointView, FrozenLabels, ServiceEndpoints, watch_pods
from aiokube.discovery.endpoint import ServicePortName
from docs.guide.examples import adapter_vllm
from docs.guide.examples.adapter_file import document, follow, write
from docs.guide.examples.adapter_vllm import LiveServiceDiscovery
from tinykube.testing.api_server import running_api_server

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: vllm, model: %s}}
spec: {containers: [{name: main, image: none}]}
"""


@pytest.mark.slow
def test_the_vllm_adapter_drops_a_deleted_engine_and_asks_each_pod_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter_vllm, "RETRY_SECONDS", 0.01)
    asked: Counter[str] = Counter()
    changed = threading.Semaphore(0)

    def model_of(endpoint: EndpointView) -> str:
        asked[endpoint.ip] += 1
        changed.release()
        if endpoint.ip == "10.0.0.2" and asked[endpoint.ip] < 3:
            raise ConnectionRefusedError("the engine still loads its model")
        return f"served by {endpoint.ip}"

    with running_api_server() as server:
        server.apply(POD % ("a", "llama"))
        server.run_pod("a", ip="10.0.0.1")
        path = server.kubeconfig_path
        discovery = LiveServiceDiscovery("default", 8000, "app=vllm", kubeconfig=path, model_of=model_of)
        try:
            (engine,) = discovery.get_endpoint_info()
            assert (engine.url, engine.model_name) == ("http://10.0.0.1:8000", "served by 10.0.0.1")
            assert engine.model_label == "llama"
            assert discovery.get_health()
            server.apply(POD % ("b", "qwen"))
            server.run_pod("b", ip="10.0.0.2")
            while len(discovery.get_endpoint_info()) < 2:  # two refused connections, then its model
                changed.acquire(timeout=1)
            server.delete("v1", "Pod", "a")
            while len(engines := discovery.get_endpoint_info()) > 1:
                changed.acquire(timeout=0.01)
            assert [each.model_label for each in engines] == ["qwen"]
            assert asked["10.0.0.1"] == 1
        finally:
            discovery.close()
        assert not discovery.get_health()


@pytest.mark.slow
async def test_the_targets_file_follows_the_pods(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    async with running_api_server() as server:
        await server.apply(POD % ("a", "llama"))
        await server.run_pod("a", ip="10.0.0.1")
        async with (
            watch_pods(server.client, "default", "app=vllm", port=8000, labels=["model"]) as live,
            asyncio.TaskGroup() as group,
        ):
            following = group.create_task(follow(live, path), name="follow")
            await asyncio.sleep(0)
            assert json.loads(path.read_text()) == [
                {"targets": ["10.0.0.1:8000"], "labels": {"model": "llama"}}
            ]
            states = aiter(live)
            await anext(states)
            await server.delete("v1", "Pod", "a")
            await anext(states)
            await asyncio.sleep(0)
            assert json.loads(path.read_text()) == []
            following.cancel()


def test_targets_are_grouped_by_labels() -> None:
    def endpoint(ip: str, role: str) -> EndpointView:
        return EndpointView(ip=ip, port=80, labels=FrozenLabels({"role": role}))

    name = ServicePortName("ns", "app=x", "80")
    views = (endpoint("10.0.0.1", "a"), endpoint("10.0.0.2", "b"), endpoint("10.0.0.3", "a"))
    assert json.loads(document(ServiceEndpoints(name, "IPv4", views))) == [
        {"targets": ["10.0.0.1:80", "10.0.0.3:80"], "labels": {"role": "a"}},
        {"targets": ["10.0.0.2:80"], "labels": {"role": "b"}},
    ]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "targets.json"
    write(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fchmod", full)
    with pytest.raises(OSError, match="No space"):
        write(path, "new")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]
