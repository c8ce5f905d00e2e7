"""``snapshot`` and ``restore``: tests that share one server start from the same state."""

from typing import Any

import pytest

from aiokube import ApiError, NotFoundError
from tinykube import LoopApiServer, ThreadApiServer, running_api_server

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def names(server: ThreadApiServer, kind: str = "ConfigMap") -> list[str]:
    return [one["metadata"]["name"] for one in server.list_all("v1", kind, "default")]


def test_restore_undoes_creates_changes_and_deletes(api_server: ThreadApiServer) -> None:
    api_server.apply(config_map("kept"), config_map("changed"), config_map("deleted"))
    before = {one["metadata"]["name"]: one for one in api_server.list_all("v1", "ConfigMap")}
    snapshot = api_server.snapshot()
    api_server.apply({**config_map("changed"), "data": {"a": "b"}}, config_map("created"))
    api_server.delete("v1", "ConfigMap", "deleted")
    assert api_server.restore(snapshot) == 3
    after = {one["metadata"]["name"]: one for one in api_server.list_all("v1", "ConfigMap")}
    assert after["kept"] == before["kept"]
    for name, one in after.items():
        assert int(one["metadata"].pop("resourceVersion")) >= int(
            before[name]["metadata"].pop("resourceVersion")
        )
    assert after == before
    assert api_server.restore(snapshot) == 0


def test_restore_handles_finalizers_namespaces_and_recreated_objects(api_server: ThreadApiServer) -> None:
    api_server.apply(config_map("mine"))
    uid = api_server.get("v1", "ConfigMap", "mine")["metadata"]["uid"]
    snapshot = api_server.snapshot()
    api_server.delete("v1", "ConfigMap", "mine")
    api_server.apply(config_map("mine"), config_map("stuck", finalizers=["example.com/never"]))
    api_server.delete("v1", "ConfigMap", "stuck")
    api_server.new_namespace("extra")
    api_server.restore(snapshot)
    assert names(api_server) == ["mine"]
    assert api_server.get("v1", "ConfigMap", "mine")["metadata"]["uid"] == uid
    assert not [one for one in api_server.list_all("v1", "Namespace") if "extra" in one["metadata"]["name"]]


def test_restore_releases_and_reallocates_service_addresses(api_server: ThreadApiServer) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]},
    }
    snapshot = api_server.snapshot()
    api_server.apply(service)
    api_server.restore(snapshot)
    api_server.apply({**service, "metadata": {"name": "other"}})  # the address is free again
    with_service = api_server.snapshot()
    api_server.delete("v1", "Service", "other")
    api_server.restore(with_service)
    with pytest.raises(ApiError, match="already allocated"):
        api_server.apply(service)


def test_restore_adds_and_removes_custom_resource_definitions(api_server: ThreadApiServer) -> None:
    empty = api_server.snapshot()
    api_server.apply(CRD)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": 1}}
    api_server.apply(widget)
    full = api_server.snapshot()
    api_server.restore(empty)
    assert api_server.list_all("apiextensions.k8s.io/v1", "CustomResourceDefinition") == []
    with pytest.raises(NotFoundError):
        api_server.get("example.com/v1", "Widget", "a")
    api_server.restore(full)
    assert api_server.get("example.com/v1", "Widget", "a")["spec"] == {"x": 1}


async def test_a_watch_stays_open_during_restore_and_reports_the_changes() -> None:
    async with running_api_server() as server:
        await server.apply(config_map("changed"), config_map("deleted"), config_map("replaced"))
        snapshot = server.snapshot()
        await server.apply({**config_map("changed"), "data": {"a": "b"}}, config_map("created"))
        for name in ("deleted", "replaced"):
            await server.delete("v1", "ConfigMap", name)
        await server.apply(config_map("replaced"))
        seen = await _events_during_restore(server, snapshot)
        assert sorted(seen) == [
            ("ADDED", "deleted"),
            ("ADDED", "replaced"),
            ("DELETED", "created"),
            ("DELETED", "replaced"),
            ("MODIFIED", "changed"),
        ]
        assert seen.index(("DELETED", "replaced")) < seen.index(("ADDED", "replaced"))


async def _events_during_restore(server: LoopApiServer, snapshot: Any) -> list[tuple[str, str]]:
    from tinykube.server.objects import GroupResource

    storage = server._server.backend.storage
    subscription = storage.subscribe(GroupResource("", "configmaps"), after_revision=storage.revision)
    versions = storage.revision
    await server.restore(snapshot)
    changes = await subscription.next_batch()
    assert all(change.revision > versions for change in changes)
    return [(change.type, change.after.key.name) for change in changes]
