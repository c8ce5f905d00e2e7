"""Behaviour of the other kinds that clients rely on."""

import base64
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, refusal

from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject, StorageKey
from tinykube.server.registry.builtin import RegistrySettings, builtin_registry
from tinykube.server.registry.events import NEW_EVENTS, RESOURCE
from tinykube.server.registry.namespaces import NAMESPACES, Finalize

APPS, DISCOVERY, LEASES, NEW = "apps", "discovery.k8s.io", "coordination.k8s.io", "events.k8s.io"


def named(**members: Any) -> JsonObject:
    return {"metadata": {"name": "x"}, **members}


def workload(**spec: Any) -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec})


async def created(world: World, plural: str, body: JsonObject, group: str = "") -> JsonObject:
    return (await world.create(body, plural, group=group)).decode()


async def patched(
    world: World, plural: str, body: JsonObject, group: str = "", subresource: str = ""
) -> JsonObject:
    return (await world.patch("x", body, plural=plural, group=group, subresource=subresource)).decode()


def test_each_registry_has_its_own_allocators() -> None:
    first, second = (builtin_registry().get("", "v1", "services") for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.strategy is not second.strategy


def test_an_invalid_cidr_is_rejected_immediately() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        builtin_registry(RegistrySettings(service_cidrs=("nonsense",)))


def test_every_table_starts_with_the_name_except_for_events() -> None:
    for definition in builtin_registry().all():
        names = [column.name for column in definition.columns]
        assert "Name" in names
        assert names[0] == "Name" or definition.plural == "events"


async def test_string_data_of_a_secret_becomes_data_and_is_not_stored() -> None:
    async with a_world() as world:
        body = named(stringData={"a": "new"}, data={"a": "b2xk", "b": "b2xk"})
        made = await created(world, "secrets", body)
        assert "stringData" not in made
        assert {key: base64.b64decode(value) for key, value in made["data"].items()} == {
            "a": b"new",
            "b": b"old",
        }


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_immutable_objects_reject_changes_of_data_and_of_the_immutable_field(plural: str) -> None:
    async with a_world() as world:
        await created(world, plural, named(data={"a": "YQ=="}, immutable=True))
        for change in ({"data": {"a": "Yg=="}}, {"immutable": None}):
            error = await refusal(patched(world, plural, change))
            assert "field is immutable when `immutable` is set" in error.message
        assert (await patched(world, plural, {"metadata": {"labels": {"a": "b"}}}))["immutable"] is True


async def test_errors_do_not_reveal_secret_contents() -> None:
    async with a_world() as world:
        data = {".dockerconfigjson": base64.b64encode(b"hunter2").decode()}
        error = await refusal(
            created(world, "secrets", named(type="kubernetes.io/dockerconfigjson", data=data))
        )
        assert "hunter2" not in str(error.to_status())
        assert data[".dockerconfigjson"] not in str(error.to_status())
        assert "<secret contents redacted>" in error.message


async def test_labels_change_the_generation_of_an_endpoint_slice_and_annotations_do_not() -> None:
    async with a_world() as world:
        body = named(addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}])
        generations = [(await created(world, "endpointslices", body, DISCOVERY))["metadata"]["generation"]]
        for change in (
            {"metadata": {"annotations": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b"}}},
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80}]},
        ):
            made = await patched(world, "endpointslices", change, DISCOVERY)
            generations.append(made["metadata"]["generation"])
        assert generations == [1, 1, 2, 3, 3]


async def test_the_address_type_of_an_endpoint_slice_is_immutable() -> None:
    async with a_world() as world:
        await created(world, "endpointslices", named(addressType="IPv4", endpoints=[]), DISCOVERY)
        error = await refusal(patched(world, "endpointslices", {"addressType": "IPv6"}, DISCOVERY))
        assert error.message.endswith('addressType: Invalid value: "IPv6": field is immutable')


async def test_endpoints_are_deprecated_and_non_canonical_addresses_cause_warnings() -> None:
    async with a_world() as world:
        body = named(subsets=[{"addresses": [{"ip": "FD00::1"}], "ports": [{"port": 80}]}])
        await created(world, "endpoints", body)
        assert world.last_request is not None
        assert world.last_request.warnings == [
            'subsets[0].addresses[0].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
        ]
        definition = world.definition("endpoints")
        assert definition.deprecation.startswith("v1 Endpoints is deprecated in v1.33+")


async def test_a_namespace_is_held_by_its_spec_finalizers_until_finalize_clears_them() -> None:
    async with a_world() as world:
        obj = await created(world, "namespaces", named())
        assert NAMESPACES.strategy.is_held(obj)
        NAMESPACES.strategy.mark_deleted(world.request(), obj)
        assert obj["status"]["phase"] == "Terminating"
        Finalize().write(world.request(), obj, {"spec": {}})
        assert not NAMESPACES.strategy.is_held(obj)


async def test_an_update_cannot_change_the_finalizers_of_a_namespace() -> None:
    async with a_world() as world:
        await created(world, "namespaces", named())
        changed = await patched(
            world, "namespaces", {"spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
        )
        assert changed["spec"]["finalizers"] == ["kubernetes"]
        assert changed["status"]["phase"] == "Active"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    with pytest.raises(StatusError, match="this namespace may not be deleted") as refused:
        NAMESPACES.strategy.check_delete(None, {"metadata": {"name": name}})  # type: ignore[arg-type]
    assert refused.value.code == 403


async def test_a_new_node_is_tainted_not_ready_and_the_taint_can_be_removed() -> None:
    async with a_world() as world:
        made = await created(world, "nodes", named(status={"capacity": {"cpu": "2"}}))
        assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        assert made["status"]["allocatable"] == {"cpu": "2"}
        assert "taints" not in (await patched(world, "nodes", {"spec": {"taints": None}}))["spec"]


async def test_events_can_be_read_in_both_api_groups() -> None:
    async with a_world() as world:
        body = named(
            regarding={"namespace": "default", "name": "p"},
            note="n",
            type="Normal",
            reason="R",
            action="A",
            eventTime="2026-01-01T00:00:00.000000Z",
            reportingController="c/d",
            reportingInstance="i",
        )
        await created(world, "events", body, NEW)
        core = await world.get("x", "events")
        assert (core["involvedObject"], core["message"], core["reportingComponent"]) == (
            {"namespace": "default", "name": "p"},
            "n",
            "c/d",
        )
        stored = world.backend.storage.get(StorageKey(RESOURCE, "default", "x"))
        assert stored is not None
        assert stored.fields["involvedObject.name"] == stored.fields["regarding.name"] == "p"
        assert NEW_EVENTS.view is not None
        assert NEW_EVENTS.view.from_storage(core)["note"] == "n"


async def test_an_event_about_an_object_in_another_namespace_is_rejected() -> None:
    async with a_world() as world:
        error = await refusal(created(world, "events", named(involvedObject={"namespace": "other"})))
        assert error.message.endswith('Invalid value: "other": does not match event.namespace')


async def test_updating_a_lease_requires_a_resource_version() -> None:
    async with a_world() as world:
        await created(world, "leases", named(spec={"holderIdentity": "a"}), LEASES)
        error = await refusal(world.update("x", named(), "leases", group=LEASES))
        assert "must be specified for an update" in error.message


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets", "daemonsets"])
async def test_only_spec_changes_increment_the_generation_of_a_workload(plural: str) -> None:
    async with a_world() as world:
        made = await created(world, plural, {**workload(), "status": {"observedGeneration": 9}}, APPS)
        assert made["metadata"]["generation"] == 1
        assert "observedGeneration" not in made["status"]
        changed = await patched(world, plural, {"spec": {"minReadySeconds": 5}}, APPS)
        assert changed["metadata"]["generation"] == 2
        changed = await patched(world, plural, {"metadata": {"labels": {"x": "y"}}}, APPS)
        assert changed["metadata"]["generation"] == 2
        changed = await patched(world, plural, {"status": {"observedGeneration": 2}}, APPS, "status")
        assert (changed["metadata"]["generation"], changed["status"]["observedGeneration"]) == (2, 2)


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
async def test_the_selector_of_a_workload_is_immutable(plural: str) -> None:
    async with a_world() as world:
        await created(world, plural, workload(), APPS)
        change = {
            "spec": {
                "selector": {"matchLabels": {"c": "d"}},
                "template": {"metadata": {"labels": {"c": "d"}}},
            }
        }
        error = await refusal(patched(world, plural, change, APPS))
        shown = 'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
        assert shown in error.message


async def test_template_changes_increment_the_template_generation_of_a_daemon_set() -> None:
    async with a_world() as world:
        key = "deprecated.daemonset.template.generation"
        made = await created(world, "daemonsets", workload(), APPS)
        assert made["metadata"]["annotations"][key] == "1"
        changed = await patched(world, "daemonsets", {"spec": {"minReadySeconds": 1}}, APPS)
        assert changed["metadata"]["annotations"][key] == "1"
        template = {"spec": {"template": {"spec": {"hostname": "h"}}}}
        changed = await patched(world, "daemonsets", template, APPS)
        assert changed["metadata"]["annotations"][key] == "2"


async def test_most_fields_of_a_stateful_set_are_immutable() -> None:
    async with a_world() as world:
        await created(world, "statefulsets", workload(serviceName="s"), APPS)
        assert (await patched(world, "statefulsets", {"spec": {"replicas": 3}}, APPS))["spec"][
            "replicas"
        ] == 3
        error = await refusal(patched(world, "statefulsets", {"spec": {"serviceName": "t"}}, APPS))
        assert "updates to statefulset spec for fields other than 'replicas'" in error.message


async def test_scale_reads_and_writes_the_replicas() -> None:
    async with a_world() as world:
        obj = await created(world, "deployments", workload(), APPS)
        subresource = world.target("deployments", "x", group=APPS, subresource="scale").subresource
        assert subresource is not None
        assert subresource.handler is not None
        shown = subresource.handler.read(obj)
        assert (shown["kind"], shown["spec"], shown["status"]) == (
            "Scale",
            {"replicas": 1},
            {"replicas": 0, "selector": "a=b"},
        )
        subresource.handler.write(world.request(), obj, {"spec": {"replicas": 4}})
        assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (4, 2)
        subresource.handler.write(world.request(), obj, {"spec": {"replicas": 4}})
        assert obj["metadata"]["generation"] == 2
        with pytest.raises(StatusError, match="must be greater than or equal to 0"):
            subresource.handler.write(world.request(), obj, {"spec": {"replicas": -1}})
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}}
        with pytest.raises(StatusError, match="the object has been modified"):
            subresource.handler.write(world.request(), obj, stale)
