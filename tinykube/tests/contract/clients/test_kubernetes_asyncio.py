"""``kubernetes_asyncio`` against the embedded server: the same operations in an event loop."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tinykube.testing.api_server import ThreadApiServer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes_asyncio")


@pytest.fixture(scope="module")
def k8s() -> Any:
    return pytest.importorskip("kubernetes_asyncio")


@pytest.fixture
async def connected(k8s: Any, api_server_session: ThreadApiServer) -> AsyncIterator[Any]:
    configuration = k8s.client.Configuration()
    await k8s.config.load_kube_config(
        str(api_server_session.kubeconfig_path), client_configuration=configuration
    )
    async with k8s.client.ApiClient(configuration) as client:
        yield client


@pytest.fixture
def core(k8s: Any, connected: Any) -> Any:
    return k8s.client.CoreV1Api(connected)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_an_object_is_created_read_replaced_patched_and_deleted(
    k8s: Any, core: Any, namespace: str
) -> None:
    made = await core.create_namespaced_config_map(namespace, config_map("a", x="1"))
    made.data["x"] = "2"
    put = await core.replace_namespaced_config_map("a", namespace, made)
    with pytest.raises(k8s.client.ApiException) as caught:
        await core.replace_namespaced_config_map("a", namespace, made)
    assert caught.value.status == 409
    patched = await core.patch_namespaced_config_map("a", namespace, {"data": {"y": "3"}})
    assert patched.data == {"x": "2", "y": "3"}
    assert int(patched.metadata.resource_version) > int(put.metadata.resource_version)
    operations = [{"op": "remove", "path": "/data/y"}]
    assert (await core.patch_namespaced_config_map("a", namespace, operations)).data == {"x": "2"}
    listed = await core.list_namespaced_config_map(namespace, field_selector="metadata.name=a")
    assert [item.metadata.name for item in listed.items] == ["a"]
    assert (await core.delete_namespaced_config_map("a", namespace)).status == "Success"


async def test_a_watch_reports_changes(k8s: Any, core: Any, namespace: str) -> None:
    await core.create_namespaced_config_map(namespace, config_map("a"))
    seen = []
    async with k8s.watch.Watch() as watching:
        async for event in watching.stream(core.list_namespaced_config_map, namespace, timeout_seconds=10):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                await core.delete_namespaced_config_map("a", namespace)
            else:
                break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_status_is_written_through_its_subresource(core: Any, namespace: str) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "registry.invalid/none"}]}
    made = await core.create_namespaced_pod(namespace, {"metadata": {"name": "p"}, "spec": spec})
    made.status.phase = "Running"
    assert (await core.replace_namespaced_pod_status("p", namespace, made)).status.phase == "Running"
    await core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
    assert (await core.list_namespaced_pod(namespace)).items == []


async def test_the_dynamic_client_finds_kinds_by_discovery(connected: Any, namespace: str) -> None:
    dynamic = pytest.importorskip("kubernetes_asyncio.dynamic")
    async with dynamic.DynamicClient(connected) as client:
        leases = await client.resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
        made = await leases.create(body={"metadata": {"name": "l"}}, namespace=namespace)
        found = await leases.get(name="l", namespace=namespace)
        assert found.metadata.uid == made.metadata.uid
