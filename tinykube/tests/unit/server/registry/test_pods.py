"""Pods: defaults, mutable fields, statuses and subresources."""

from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, refusal

from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject
from tinykube.server.registry.pod_defaults import pull_policy
from tinykube.server.registry.pods import PODS, Binding, Eviction
from tinykube.server.registry.resource_validation import quality_of_service, resource_errors


def pod(name: str = "p", **spec: Any) -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def created(world: World, body: JsonObject) -> JsonObject:
    return (await world.create(body, "pods")).decode()


async def patched(world: World, body: JsonObject, subresource: str = "") -> JsonObject:
    return (await world.patch("p", body, plural="pods", subresource=subresource)).decode()


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "0" * 64, "Always"),
        ("Registry/nginx", "Always"),
        ("NGINX", "IfNotPresent"),
        ("a b", "IfNotPresent"),
        ("f" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_mutable_tags_are_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def of_resources(*resources: JsonObject) -> JsonObject:
    return {"containers": [{"resources": one} for one in resources]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (of_resources({}), "BestEffort"),
        (of_resources({"requests": {"cpu": "0"}}), "BestEffort"),
        (of_resources({"requests": {"cpu": "1"}}), "Burstable"),
        (
            of_resources({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}),
            "Guaranteed",
        ),
        (
            of_resources(
                {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1000m", "memory": "1"}}
            ),
            "Guaranteed",
        ),
        (
            of_resources({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m", "memory": "1"}}),
            "Burstable",
        ),
        (
            of_resources(
                {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}, {}
            ),
            "Burstable",
        ),
        (of_resources({"limits": {"nvidia.com/gpu": "1"}}), "BestEffort"),
        (
            {
                **of_resources({}),
                "resources": {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}},
            },
            "Guaranteed",
        ),
    ],
)
def test_the_quality_of_service_follows_from_cpu_and_memory(spec: JsonObject, expected: str) -> None:
    assert quality_of_service(spec) == expected


def test_a_request_above_its_limit_is_reported_with_the_limit() -> None:
    (error,) = resource_errors("r", {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}})
    assert str(error) == 'r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m'


async def test_a_new_pod_is_pending_whatever_status_is_sent() -> None:
    async with a_world() as world:
        made = await created(world, {**pod(), "status": {"phase": "Running", "podIP": "1.2.3.4"}})
        assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert made["metadata"]["generation"] == 1


async def test_limits_default_the_requests() -> None:
    async with a_world() as world:
        body = pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}])
        made = await created(world, body)
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "1"},
            "requests": {"cpu": "1"},
        }


async def test_pods_tolerate_lost_nodes_for_five_minutes_by_default() -> None:
    async with a_world() as world:
        made = await created(world, pod())
        assert [one["tolerationSeconds"] for one in made["spec"]["tolerations"]] == [300, 300]
        made = await created(world, pod("q", tolerations=[{"operator": "Exists"}]))
        assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


async def test_host_network_pods_use_their_container_ports_on_the_host() -> None:
    async with a_world() as world:
        containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
        made = await created(world, pod(hostNetwork=True, containers=containers))
        assert made["spec"]["containers"][0]["ports"] == [
            {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
        ]


async def test_the_image_is_mutable_and_increments_the_generation() -> None:
    async with a_world() as world:
        await created(world, pod())
        changed = await patched(world, {"spec": {"containers": [{"name": "c", "image": "j"}]}})
        assert changed["spec"]["containers"][0]["image"] == "j"
        assert changed["metadata"]["generation"] == 2


async def test_changes_of_immutable_fields_are_rejected_with_the_mutable_fields_and_the_difference() -> None:
    async with a_world() as world:
        await created(world, pod())
        error = await refusal(patched(world, {"spec": {"hostname": "h"}}))
        first, *rest = error.message.split("\n")
        assert first.startswith(
            'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.con'
        )
        assert rest == ["- hostname: null", '+ hostname: "h"']


async def test_tolerations_can_be_added_but_not_removed() -> None:
    async with a_world() as world:
        own = {"key": "x", "operator": "Exists"}
        tolerations = (await created(world, pod(tolerations=[own])))["spec"]["tolerations"]
        more = [*tolerations, {"key": "y", "operator": "Exists"}]
        assert (await patched(world, {"spec": {"tolerations": more}}))["spec"]["tolerations"] == more
        error = await refusal(patched(world, {"spec": {"tolerations": more[1:]}}))
        assert "existing toleration can not be modified except its tolerationSeconds" in error.message


async def test_the_status_subresource_changes_only_the_status() -> None:
    async with a_world() as world:
        await created(world, pod())
        body = {"spec": {"hostname": "h"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
        changed = await patched(world, body, "status")
        assert "hostname" not in changed["spec"]
        assert changed["status"] == {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "qosClass": "BestEffort",
        }
        assert changed["metadata"]["generation"] == 1


async def test_updates_of_the_main_resource_ignore_the_status() -> None:
    async with a_world() as world:
        await created(world, pod())
        changed = await patched(world, {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}})
        assert changed["status"]["phase"] == "Pending"
        assert changed["metadata"]["labels"] == {"a": "b"}


async def test_conditions_keep_their_observed_generation() -> None:
    async with a_world() as world:
        await created(world, pod())
        first = {"type": "Ready", "status": "True", "observedGeneration": 1}
        await patched(world, {"status": {"conditions": [first]}}, "status")
        changed = await patched(
            world, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status"
        )
        assert changed["status"]["conditions"][0]["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("spec", "status", "asked", "expected"),
    [
        ({}, {}, None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, {}, None, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, {}, 5, 5),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, {}, -1, 1),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, {"phase": "Failed"}, None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, {"phase": "Succeeded"}, 10, 0),
    ],
)
def test_only_pods_running_on_a_node_have_a_grace_period(
    spec: JsonObject, status: JsonObject, asked: int | None, expected: int
) -> None:
    assert PODS.strategy.grace_period_seconds({"spec": spec, "status": status}, asked) == expected


async def test_binding_sets_the_node_the_condition_and_the_topology_labels() -> None:
    async with a_world() as world:
        node = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z", "other": "x"}}}
        await world.create(node, "nodes")
        obj = await created(world, pod())
        body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        response = Binding().write(world.request(), obj, body)
        assert response["status"] == "Success"
        assert obj["spec"]["nodeName"] == "n"
        assert obj["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}
        (condition,) = obj["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        with pytest.raises(StatusError, match='pod p is already assigned to node "n"') as refused:
            Binding().write(world.request(), obj, body)
        assert refused.value.code == 409


async def test_a_gated_pod_cannot_be_bound() -> None:
    async with a_world() as world:
        obj = await created(world, pod(schedulingGates=[{"name": "a/b"}]))
        assert obj["status"]["conditions"][0]["reason"] == "SchedulingGated"
        with pytest.raises(StatusError, match=r"has non-empty \.spec\.schedulingGates"):
            Binding().write(world.request(), obj, {"target": {"name": "n"}})


async def test_an_eviction_sets_a_condition_and_honours_the_uid_precondition() -> None:
    async with a_world() as world:
        obj = await created(world, pod())
        other = {"deleteOptions": {"preconditions": {"uid": "other"}}}
        with pytest.raises(StatusError, match="the UID in the precondition"):
            Eviction().write(world.request(), obj, other)
        Eviction().write(world.request(), obj, {"metadata": {"name": "p"}})
        assert obj["status"]["conditions"][0]["reason"] == "EvictionByEvictionAPI"


async def test_a_pod_name_that_is_not_a_dns_label_causes_a_warning_on_create_only() -> None:
    async with a_world() as world:
        await created(world, pod("a.b"))
        assert world.last_request is not None
        (warning,) = world.last_request.warnings
        assert warning.endswith("a DNS label is recommended: [must not contain dots]")
        await world.patch("a.b", {"metadata": {"labels": {"x": "y"}}}, plural="pods")
        assert world.last_request.warnings == []


async def test_an_unknown_priority_class_is_rejected() -> None:
    async with a_world() as world:
        error = await refusal(created(world, pod(priorityClassName="gold")))
        assert (error.code, error.message) == (
            403,
            'pods "p" is forbidden: no PriorityClass with name gold was found',
        )
