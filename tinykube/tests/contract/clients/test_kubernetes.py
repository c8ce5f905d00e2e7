"""The official Python client (``kubernetes``) against the embedded server: common operations with default settings."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tinykube.testing.api_server import ThreadApiServer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # its pools are closed by the garbage collector
]


@pytest.fixture(scope="module")
def k8s() -> Any:
    return pytest.importorskip("kubernetes")


@pytest.fixture(scope="module")
def connected(k8s: Any, api_server_session: ThreadApiServer) -> Iterator[Any]:
    """A client configured from the kubeconfig, as most are."""
    configuration = k8s.client.Configuration()
    k8s.config.load_kube_config(str(api_server_session.kubeconfig_path), client_configuration=configuration)
    with k8s.client.ApiClient(configuration) as client:
        yield client


@pytest.fixture
def core(k8s: Any, connected: Any) -> Any:
    return k8s.client.CoreV1Api(connected)


def config_map(k8s: Any, name: str, labels: dict[str, str] | None = None, **data: str) -> Any:
    metadata = k8s.client.V1ObjectMeta(name=name, labels=labels)
    return k8s.client.V1ConfigMap(metadata=metadata, data=data)


def a_pod(k8s: Any, name: str) -> Any:
    container = k8s.client.V1Container(name="c", image="registry.invalid/none")
    return k8s.client.V1Pod(
        metadata=k8s.client.V1ObjectMeta(name=name),
        spec=k8s.client.V1PodSpec(containers=[container], node_name="n"),
    )


def test_an_object_is_created_read_replaced_and_deleted(k8s: Any, core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map(k8s, "a", x="1"))
    assert made.metadata.uid
    found = core.read_namespaced_config_map("a", namespace)
    found.data = {"x": "2"}
    put = core.replace_namespaced_config_map("a", namespace, found)
    assert put.data == {"x": "2"}
    with pytest.raises(k8s.client.ApiException) as caught:
        core.replace_namespaced_config_map("a", namespace, made)
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    status = core.delete_namespaced_config_map("a", namespace)
    assert status["status"] == "Success", "this client leaves a Status as it came"
    assert status["details"]["uid"] == made.metadata.uid
    with pytest.raises(k8s.client.ApiException) as caught:
        core.read_namespaced_config_map("a", namespace)
    assert caught.value.status == 404


def test_lists_have_selectors_and_pages(k8s: Any, core: Any, namespace: str) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(namespace, config_map(k8s, name, {"app": name}))
    listed = core.list_namespaced_config_map(namespace, label_selector="app in (a,c)")
    assert [item.metadata.name for item in listed.items] == ["a", "c"]
    page = core.list_namespaced_config_map(namespace, limit=2)
    assert page.metadata.remaining_item_count == 1
    rest = core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)
    assert [item.metadata.name for item in page.items + rest.items] == ["a", "b", "c"]


def test_a_patch_of_a_dictionary_merges(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map(k8s, "a", x="1", y="2"))
    patched = core.patch_namespaced_config_map("a", namespace, {"data": {"x": "9", "y": None}})
    assert patched.data == {"x": "9"}


def test_a_patch_of_a_list_is_a_json_patch(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map(k8s, "a", x="1"))
    operations = [{"op": "add", "path": "/data/z", "value": "3"}]
    assert core.patch_namespaced_config_map("a", namespace, operations).data == {"x": "1", "z": "3"}


def test_a_strategic_patch_merges_containers_by_name(k8s: Any, connected: Any, namespace: str) -> None:
    apps = k8s.client.AppsV1Api(connected)
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "registry.invalid/one"}]},
    }
    body = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    apps.create_namespaced_deployment(namespace, body)
    change = {
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "registry.invalid/two"}]}}}
    }
    patched = apps.patch_namespaced_deployment("a", namespace, change)
    assert [one.image for one in patched.spec.template.spec.containers] == ["registry.invalid/two"]
    scale = apps.patch_namespaced_deployment_scale("a", namespace, {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3
    assert apps.read_namespaced_deployment_scale("a", namespace).spec.replicas == 3


def test_a_status_is_patched_through_its_subresource(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, a_pod(k8s, "p"))
    status = {"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}
    patched = core.patch_namespaced_pod_status("p", namespace, status)
    assert (patched.status.phase, patched.status.pod_ip) == ("Running", "10.1.2.3")
    going = core.delete_namespaced_pod("p", namespace)
    assert going.metadata.deletion_grace_period_seconds == 30
    core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)


def test_a_watch_reports_changes_until_it_is_stopped(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map(k8s, "a"))
    watching = k8s.watch.Watch()
    seen = []
    for event in watching.stream(core.list_namespaced_config_map, namespace, timeout_seconds=10):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            core.create_namespaced_config_map(namespace, config_map(k8s, "b"))
        if len(seen) == 2:
            core.delete_namespaced_config_map("a", namespace)
        if len(seen) == 3:
            watching.stop()
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_from_the_version_of_a_list_misses_nothing(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map(k8s, "a"))
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map(k8s, "b"))
    watching = k8s.watch.Watch()
    stream = watching.stream(
        core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=10
    )
    assert next(iter(stream))["object"].metadata.name == "b"
    watching.stop()


def test_a_slice_is_read_as_a_typed_object(k8s: Any, connected: Any, namespace: str) -> None:
    discovery = k8s.client.DiscoveryV1Api(connected)
    body = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [],
    }
    discovery.create_namespaced_endpoint_slice(namespace, body)
    (found,) = discovery.list_namespaced_endpoint_slice(namespace).items
    assert found.endpoints[0].addresses == ["10.1.2.3"]


def test_a_collection_is_deleted(k8s: Any, core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map(k8s, "a"))
    core.delete_collection_namespaced_config_map(namespace)
    assert core.list_namespaced_config_map(namespace).items == []


def test_the_dynamic_client_finds_kinds_by_discovery(
    k8s: Any, connected: Any, namespace: str, tmp_path: Any
) -> None:
    dynamic = pytest.importorskip("kubernetes.dynamic")
    client = dynamic.DynamicClient(connected, cache_file=str(tmp_path / "cache"))
    services = client.resources.get(api_version="v1", kind="Service")
    body = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    made = services.create(body=body, namespace=namespace)
    assert made.spec.type == "ClusterIP"
    assert services.get(name="web", namespace=namespace).metadata.uid == made.metadata.uid
    patched = services.patch(
        body={"metadata": {"name": "web", "labels": {"l": "v"}}},
        namespace=namespace,
        content_type="application/merge-patch+json",
    )
    assert patched.metadata.labels.l == "v"
    slices = client.resources.get(api_version="discovery.k8s.io/v1", kind="EndpointSlice")
    assert slices.namespaced
    assert slices.get(namespace=namespace).items == []
    for event in services.watch(namespace=namespace, timeout=5):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "web")
        break
    services.delete(name="web", namespace=namespace)
    assert services.get(namespace=namespace).items == []


def test_manifests_are_created_from_a_file(k8s: Any, connected: Any, namespace: str, tmp_path: Any) -> None:
    manifest = tmp_path / "all.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
    )
    utils = pytest.importorskip("kubernetes.utils")
    made = utils.create_from_yaml(connected, str(manifest), namespace=namespace)
    assert [one.metadata.name for group in made for one in group] == ["a", "web"]


def test_one_of_two_candidates_becomes_the_leader(
    k8s: Any, connected: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = pytest.importorskip("kubernetes.leaderelection.leaderelection")
    config = pytest.importorskip("kubernetes.leaderelection.electionconfig")
    locks = pytest.importorskip("kubernetes.leaderelection.resourcelock.leaselock")
    # Its locks use the default configuration.
    monkeypatch.setattr(k8s.client.Configuration, "_default", connected.configuration)

    def candidate(name: str) -> Any:
        lock = locks.LeaseLock("lock", namespace, name)
        return election.LeaderElection(config.Config(lock, 15, 10, 2, lambda: None, lambda: None))

    first, second = candidate("one"), candidate("two")
    assert first.try_acquire_or_renew()
    assert not second.try_acquire_or_renew()
    assert first.try_acquire_or_renew(), "the leader renews"
    lease = k8s.client.CoordinationV1Api(connected).read_namespaced_lease("lock", namespace)
    assert lease.spec.holder_identity == "one"


def test_an_error_response_is_raised_with_its_status(k8s: Any, core: Any, namespace: str) -> None:
    with pytest.raises(k8s.client.ApiException) as caught:
        core.create_namespaced_config_map(namespace, config_map(k8s, "B_"))
    assert caught.value.status == 422
    assert "metadata.name" in caught.value.body


def test_version_and_api_groups_are_readable(k8s: Any, connected: Any) -> None:
    assert k8s.client.VersionApi(connected).get_code().minor == "36"
    groups = k8s.client.ApisApi(connected).get_api_versions().groups
    assert {"apps", "discovery.k8s.io"} <= {group.name for group in groups}


def test_threads_share_a_client(k8s: Any, core: Any, namespace: str) -> None:
    def create(number: int) -> None:
        core.create_namespaced_config_map(namespace, config_map(k8s, f"c{number}"))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(core.list_namespaced_config_map(namespace).items) == 8
