"""Label and field selectors."""

import pytest
from tests.contract.server.wire import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Api,
    names,
    pod,
    service,
)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=web", ["one", "two"]),
        ("app==web", ["one", "two"]),
        ("app!=web", ["none", "three"]),
        ("app", ["one", "three", "two"]),
        ("!app", ["none"]),
        ("app in (web,db)", ["one", "three", "two"]),
        ("app notin (web)", ["none", "three"]),
        ("app=web,tier=front", ["one"]),
        ("app = web , tier != front", ["two"]),
        ("tier in (front, back),app", ["one", "three"]),
        ("size>3", ["three"]),
        ("size<5", ["one"]),
        ("app in (web),!tier", ["two"]),
        ("example.com/app=x", ["none"]),
        ("app=", []),
        ("", ["none", "one", "three", "two"]),
    ],
)
async def test_label_selectors_filter_lists(api: Api, selector: str, found: list[str]) -> None:
    await api.config_map("one", {"app": "web", "tier": "front", "size": "3"})
    await api.config_map("two", {"app": "web"})
    await api.config_map("three", {"app": "db", "tier": "back", "size": "5"})
    await api.config_map("none", {"example.com/app": "x"})
    assert names(await api.get(CONFIG_MAPS, query={"labelSelector": selector})) == found


@pytest.mark.parametrize("selector", ["app in web", "app=web=x", "app=!", "=web", "a b", "app in (web", "-a"])
async def test_a_malformed_label_selector_is_rejected(api: Api, selector: str) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"labelSelector": selector})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.name==one", ["one"]),
        ("metadata.name!=one", ["two"]),
        ("metadata.name=one,metadata.name=two", []),
        ("metadata.name=none", []),
        ("metadata.namespace=elsewhere", []),
        ("metadata.namespace!=elsewhere", ["one", "two"]),
        ("", ["one", "two"]),
    ],
)
async def test_all_kinds_support_name_and_namespace_field_selectors(
    api: Api, selector: str, found: list[str]
) -> None:
    await api.config_map("one")
    await api.config_map("two")
    assert names(await api.get(CONFIG_MAPS, query={"fieldSelector": selector})) == found


async def test_label_and_field_selectors_must_both_match(api: Api) -> None:
    await api.config_map("one", {"app": "web"})
    await api.config_map("two", {"app": "web"})
    query = {"labelSelector": "app=web", "fieldSelector": "metadata.name=two"}
    assert names(await api.get(CONFIG_MAPS, query=query)) == ["two"]
    query = {"labelSelector": "app=db", "fieldSelector": "metadata.name=two"}
    assert names(await api.get(CONFIG_MAPS, query=query)) == []


async def test_an_unsupported_field_selector_is_rejected(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"fieldSelector": "data.a=b"})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message == (
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


@pytest.mark.parametrize("kind", ["pods", "services", "secrets", "events", "namespaces", "nodes"])
async def test_kinds_with_own_selectable_fields_have_a_different_error_for_others(
    api: Api, kind: str
) -> None:
    refusal = await api.refused("GET", f"/api/v1/{kind}", query={"fieldSelector": "spec.priority=1"})
    assert (refusal.code, refusal.message) == (400, "field label not supported: spec.priority")


@pytest.mark.parametrize("kind", ["deployments", "replicasets", "statefulsets", "daemonsets"])
async def test_workloads_support_only_name_and_namespace_field_selectors(api: Api, kind: str) -> None:
    refusal = await api.refused("GET", f"/apis/apps/v1/{kind}", query={"fieldSelector": "status.replicas=1"})
    assert refusal.message == (
        '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


async def test_a_malformed_field_selector_is_rejected(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"fieldSelector": "metadata.name"})
    assert (refusal.code, refusal.message) == (
        400,
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    )


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=node-1", ["bound"]),
        ("spec.nodeName=", ["free"]),
        ("spec.nodeName!=node-1", ["free"]),
        ("status.phase=Pending", ["bound", "free"]),
        ("status.phase!=Pending", []),
        ("spec.restartPolicy=Never", ["free"]),
        ("spec.restartPolicy=Always,spec.schedulerName=default-scheduler", ["bound"]),
        ("status.podIP=", ["bound", "free"]),
        ("spec.serviceAccountName=robot", ["free"]),
        ("spec.hostNetwork=true", []),
        ("spec.hostNetwork=false", ["bound", "free"]),
        ("status.nominatedNodeName=", ["bound", "free"]),
    ],
)
async def test_pods_are_selected_by_node_and_status(api: Api, selector: str, found: list[str]) -> None:
    await api.post(PODS, pod("bound", nodeName="node-1"))
    await api.post(PODS, pod("free", restartPolicy="Never", serviceAccountName="robot"))
    assert names(await api.get(PODS, query={"fieldSelector": selector})) == found


async def test_services_are_selected_by_address_and_type(api: Api) -> None:
    await api.post(SERVICES, service("headless", clusterIP="None"))
    made = await api.post(SERVICES, service("normal"))
    for selector, found in (
        ("spec.clusterIP=None", ["headless"]),
        ("spec.clusterIP!=None", ["normal"]),
        (f"spec.clusterIP={made['spec']['clusterIP']}", ["normal"]),
        ("spec.type=ClusterIP", ["headless", "normal"]),
    ):
        assert names(await api.get(SERVICES, query={"fieldSelector": selector})) == found


async def test_secrets_are_selected_by_type(api: Api) -> None:
    await api.post(SECRETS, {"metadata": {"name": "one"}, "type": "example.com/mine"})
    await api.post(SECRETS, {"metadata": {"name": "two"}})
    assert names(await api.get(SECRETS, query={"fieldSelector": "type=example.com/mine"})) == ["one"]
    assert names(await api.get(SECRETS, query={"fieldSelector": "type=Opaque"})) == ["two"]


async def test_namespaces_are_selected_by_phase(api: Api) -> None:
    query = {"fieldSelector": f"status.phase=Active,metadata.name={api.ns}"}
    assert names(await api.get(NAMESPACES, query=query)) == [api.ns]


async def test_a_namespace_is_selected_by_the_label_of_its_name(api: Api) -> None:
    query = {"labelSelector": f"kubernetes.io/metadata.name={api.ns}"}
    assert names(await api.get(NAMESPACES, query=query)) == [api.ns]


async def test_nodes_are_selected_by_unschedulable(api: Api) -> None:
    await api.post(NODES, {"metadata": {"name": f"{api.ns}-a"}, "spec": {"unschedulable": True}})
    await api.post(NODES, {"metadata": {"name": f"{api.ns}-b"}})
    for selector, found in (("spec.unschedulable=true", "a"), ("spec.unschedulable=false", "b")):
        listed = await api.get(NODES, query={"fieldSelector": selector})
        assert [name for name in names(listed) if name.startswith(f"{api.ns}-")] == [f"{api.ns}-{found}"]


async def test_events_are_selected_by_their_involved_object(api: Api) -> None:
    for name, kind in (("one", "Pod"), ("two", "Service")):
        about = {"kind": kind, "name": f"of-{name}", "namespace": api.ns, "uid": f"uid-{name}"}
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "Because", "type": "Normal"}
        await api.post(EVENTS, body)
    for selector, found in (
        ("involvedObject.kind=Pod", ["one"]),
        ("involvedObject.name=of-two", ["two"]),
        ("involvedObject.uid=uid-one", ["one"]),
        (f"involvedObject.namespace={api.ns}", ["one", "two"]),
        ("reason=Because,type=Normal", ["one", "two"]),
        ("type=Warning", []),
    ):
        assert names(await api.get(EVENTS, query={"fieldSelector": selector})) == found


async def test_field_selectors_may_escape_special_characters(api: Api) -> None:
    assert names(await api.get(CONFIG_MAPS, query={"fieldSelector": r"metadata.name=a\,b\=c\\d"})) == []
