"""The plan for one service: when a write is due, and its content (E-10 to E-24, E-40 to E-43)."""

import msgspec
import pytest
from tests.unit.controllers.endpoints.builders import make_pod, make_service

from aiokube.api.core import Pod, Service, ServicePort
from aiokube.api.endpoints import (
    HEADLESS_LABEL,
    LAST_CHANGE_TRIGGER_TIME_ANNOTATION,
    LEADER_ANNOTATION,
    MANAGED_BY_LABEL,
    MANAGED_BY_US,
    OVER_CAPACITY_ANNOTATION,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
)
from aiokube.api.meta import NarrowMeta, ObjectKey, ObjectMeta, OwnerReference
from endpointd.controllers.endpoints.plan import (
    NOTHING,
    Create,
    Delete,
    Plan,
    Update,
    plan_without_service,
)
from endpointd.controllers.endpoints.state import ServiceState

KEY = ObjectKey("ns", "svc")
MANAGED = {MANAGED_BY_LABEL: MANAGED_BY_US}


def make_pods(ready: int, not_ready: int = 0, **changes: object) -> list[Pod]:
    return [
        make_pod(
            metadata=NarrowMeta(name=f"pod{number}", namespace="ns", uid=f"u{number}", resource_version="1"),
            pod_ips=(f"10.1.{number // 250}.{number % 250}",),
            ready=number < ready,
            **changes,
        )
        for number in range(ready + not_ready)
    ]


def plan(
    service: Service, pods: list[Pod], observed: Endpoints | None, trigger_time: str | None = None
) -> Plan:
    return ServiceState(service, pods).plan(observed, trigger_time)


def stored(
    subsets: tuple[EndpointSubset, ...] | None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Endpoints:
    return Endpoints(
        ObjectMeta(
            name="svc",
            namespace="ns",
            uid="e0",
            resource_version="7",
            labels=MANAGED if labels is None else labels,
            annotations=annotations,
            creation_timestamp="2020-01-01T00:00:00Z",
            finalizers=("example.com/keep",),
            owner_references=(OwnerReference("v1", "Other", "o", "o0"),),
        ),
        subsets,
    )


def desired_subsets(service: Service, pods: list[Pod]) -> tuple[EndpointSubset, ...]:
    return ServiceState(service, pods).desired.wanted().subsets


def body_of(plan: Plan) -> Endpoints:
    assert isinstance(plan, Create | Update), plan
    return plan.body


FOREIGN = (EndpointSubset((EndpointAddress("6.7.8.9"),), None, (EndpointPort(port=1000),)),)

# ----------------------------------------------------------------------------------- no write is due


def test_manual_endpoints_of_a_service_without_selector_are_kept() -> None:
    """E-12."""
    assert plan(make_service(selector=None), [], stored(FOREIGN, labels={})) is NOTHING
    assert plan(make_service(selector=None), [], None) is NOTHING


@pytest.mark.parametrize("selector", [None, {"foo": "bar"}])
@pytest.mark.parametrize("ports", [(), (ServicePort("", "TCP", 80, 8080),)])
def test_an_external_name_service_gets_and_loses_no_endpoints(
    selector: dict[str, str] | None, ports: tuple[ServicePort, ...]
) -> None:
    """E-11."""
    service = make_service(type="ExternalName", selector=selector, ports=ports)
    assert plan(service, make_pods(1), None) is NOTHING
    assert plan(service, make_pods(1), stored(FOREIGN)) is NOTHING


@pytest.mark.parametrize("subsets", [None, ()])
def test_endpoints_without_subsets_are_correct_without_pods(
    subsets: tuple[EndpointSubset, ...] | None,
) -> None:
    """E-19."""
    assert plan(make_service(), [], stored(subsets)) is NOTHING


def test_a_correct_object_is_not_written_again() -> None:
    """E-19."""
    pods = make_pods(2, 1)
    assert plan(make_service(), pods, stored(desired_subsets(make_service(), pods))) is NOTHING


def test_older_resource_versions_in_references_cause_no_write() -> None:
    """E-19a."""
    pods = make_pods(1, 1)
    (subset,) = desired_subsets(make_service(), pods)

    def versioned(addresses: tuple[EndpointAddress, ...] | None) -> tuple[EndpointAddress, ...]:
        return tuple(
            msgspec.structs.replace(
                address, target_ref=msgspec.structs.replace(address.target_ref, resource_version="3")
            )
            for address in addresses or ()
            if address.target_ref is not None
        )

    old = EndpointSubset(versioned(subset.addresses), versioned(subset.not_ready_addresses), subset.ports)
    assert plan(make_service(), pods, stored((old,))) is NOTHING


def test_another_order_or_division_of_the_same_addresses_causes_no_write() -> None:
    """E-19a."""
    service = make_service(ports=(ServicePort("a", "TCP", 1, 11), ServicePort("b", "TCP", 2, 22)))
    pods = make_pods(3)
    (subset,) = desired_subsets(service, pods)
    assert subset.addresses is not None
    assert subset.ports is not None
    reversed_ = EndpointSubset(subset.addresses[::-1], None, subset.ports[::-1])
    assert plan(service, pods, stored((reversed_,))) is NOTHING
    divided = tuple(EndpointSubset(subset.addresses, None, (port,)) for port in subset.ports)
    assert plan(service, pods, stored(divided)) is NOTHING


def test_our_last_write_is_compared_without_repacking() -> None:
    pods = make_pods(3)
    state = ServiceState(make_service(), pods)
    subsets = state.desired.wanted().subsets
    state.written_version = "7"
    assert state.plan(stored(subsets), None) is NOTHING
    state.pod_changed(pods[0], make_pod(metadata=pods[0].metadata, pod_ips=pods[0].pod_ips, ready=False))
    assert isinstance(state.plan(stored(subsets), None), Update)


def test_correct_headless_and_managed_labels_cause_no_write() -> None:
    """E-19b."""
    service = make_service(cluster_ip="None")
    assert plan(service, [], stored(None, labels={**MANAGED, HEADLESS_LABEL: ""})) is NOTHING


def test_a_service_with_our_labels_does_not_cause_a_write_on_every_sync() -> None:
    """E-19b: upstream never considers the labels of such a service equal and writes each time without effect."""
    service = make_service(labels={HEADLESS_LABEL: "x", MANAGED_BY_LABEL: "me", "a": "b"})
    assert plan(service, [], stored(None, labels={**MANAGED, "a": "b"})) is NOTHING


def test_a_trigger_time_alone_causes_no_write() -> None:
    """E-19."""
    annotations = {LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2019-01-01T00:00:00Z", "theirs": "stays"}
    assert plan(make_service(), [], stored(None, annotations=annotations), "2020-02-02T00:00:00Z") is NOTHING


# -------------------------------------------------------------------------------------- a write is due


def test_a_service_without_pods_gets_endpoints_without_subsets() -> None:
    """E-24."""
    made = plan(make_service(), [], None)
    assert isinstance(made, Create)
    assert made.key == KEY
    assert made.body == Endpoints(
        ObjectMeta(name="svc", labels=MANAGED), None, kind="Endpoints", api_version="v1"
    )


def test_a_create_has_labels_and_trigger_time_but_no_namespace_in_its_body() -> None:
    """E-21."""
    service = make_service(labels={"foo": "bar"}, cluster_ip="None")
    body = body_of(plan(service, make_pods(3), None, "2020-02-02T00:00:00Z"))
    assert body.metadata == ObjectMeta(
        name="svc",
        labels={"foo": "bar", HEADLESS_LABEL: "", **MANAGED},
        annotations={LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2020-02-02T00:00:00Z"},
    )
    assert body.subsets == desired_subsets(service, make_pods(3))
    assert "namespace" not in msgspec.json.decode(msgspec.json.encode(body))["metadata"]


def test_an_update_replaces_subsets_and_labels_and_keeps_other_annotations() -> None:
    """E-20."""
    service = make_service(labels={"baz": "blah"})
    observed = stored(FOREIGN, labels={"foo": "bar"}, annotations={"theirs": "stays"})
    made = plan(service, make_pods(1), observed, "2020-02-02T00:00:00Z")
    assert isinstance(made, Update)
    assert made.key == KEY
    metadata = made.body.metadata
    assert metadata.labels == {"baz": "blah", **MANAGED}
    assert metadata.annotations == {
        "theirs": "stays",
        LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2020-02-02T00:00:00Z",
    }
    assert (metadata.uid, metadata.resource_version) == ("e0", "7")
    assert metadata.finalizers == observed.metadata.finalizers
    assert metadata.owner_references == observed.metadata.owner_references
    assert made.body.subsets == desired_subsets(service, make_pods(1))


def test_an_older_trigger_time_is_replaced_or_removed() -> None:
    """E-20."""
    old = {LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2019-01-01T00:00:00Z"}
    later = body_of(plan(make_service(), make_pods(1), stored(None, annotations=old), "2020-02-02T00:00:00Z"))
    assert later.metadata.annotations == {LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2020-02-02T00:00:00Z"}
    none = body_of(plan(make_service(), make_pods(1), stored(None, annotations=old), None))
    assert none.metadata.annotations is None


@pytest.mark.parametrize(
    "labels",
    [{}, {MANAGED_BY_LABEL: "someone"}, {**MANAGED, "more": "x"}, {**MANAGED, HEADLESS_LABEL: ""}],
)
def test_wrong_labels_cause_a_write(labels: dict[str, str]) -> None:
    """E-19b: Upstream never compares the headless label; a wrong one is repaired here."""
    assert body_of(plan(make_service(), [], stored(None, labels=labels))).metadata.labels == MANAGED


@pytest.mark.parametrize(("cluster_ip", "headless"), [("None", True), ("", True), ("10.96.0.1", False)])
def test_only_headless_services_get_the_headless_label(cluster_ip: str, headless: bool) -> None:
    """E-20."""
    service = make_service(cluster_ip=cluster_ip, labels={HEADLESS_LABEL: "yes"})
    labels = body_of(plan(service, [], None)).metadata.labels
    assert labels == ({**MANAGED, HEADLESS_LABEL: ""} if headless else MANAGED)


@pytest.mark.parametrize("protocol", ["TCP", "UDP", "SCTP"])
def test_foreign_addresses_are_replaced_for_every_protocol(protocol: str) -> None:
    service = make_service(ports=(ServicePort("", protocol, 80, 8080),))
    (subset,) = body_of(plan(service, make_pods(1), stored(FOREIGN))).subsets or ()
    assert subset.ports == (EndpointPort(port=8080, protocol=protocol),)
    assert [address.ip for address in subset.addresses or ()] == ["10.1.0.0"]


def test_ready_and_unready_pods_share_a_subset() -> None:
    """E-32."""
    (subset,) = body_of(plan(make_service(), make_pods(1, 1), None)).subsets or ()
    assert [address.ip for address in subset.addresses or ()] == ["10.1.0.0"]
    assert [address.ip for address in subset.not_ready_addresses or ()] == ["10.1.0.1"]


def test_finished_pods_are_removed_along_with_their_subset() -> None:
    pods = make_pods(1, phase="Failed")
    assert body_of(plan(make_service(), pods, stored(FOREIGN))).subsets is None


@pytest.mark.parametrize(
    ("mark", "ready_stored", "ready", "not_ready", "kept", "marked"),
    [
        (None, 0, 0, 0, (0, 0), None),
        (None, 999, 997, 4, (997, 3), "truncated"),
        (None, 999, 1000, 10, (1000, 0), "truncated"),
        ("truncated", 999, 999, 0, (999, 0), None),
        ("warning", 1000, 1000, 0, (1000, 0), None),
        ("warning", 1001, 1001, 0, (1000, 0), "truncated"),
        ("truncated", 1000, 1000, 0, (1000, 0), None),
        ("invalid", 1001, 1001, 0, (1000, 0), "truncated"),
    ],
)
def test_truncation_is_marked_and_the_mark_is_removed_with_it(
    mark: str | None,
    ready_stored: int,
    ready: int,
    not_ready: int,
    kept: tuple[int, int],
    marked: str | None,
) -> None:
    """E-40, E-43: TestSyncServiceOverCapacity; in the first case nothing is due here."""
    annotations = {OVER_CAPACITY_ANNOTATION: mark} if mark is not None else None
    before = desired_subsets(make_service(), make_pods(ready_stored))
    made = plan(make_service(), make_pods(ready, not_ready), stored(before, annotations=annotations))
    if made is NOTHING:
        assert (ready, not_ready, mark) == (0, 0, None)
        return
    body = body_of(made)
    subsets = body.subsets or ()
    assert (
        sum(len(subset.addresses or ()) for subset in subsets),
        sum(len(subset.not_ready_addresses or ()) for subset in subsets),
    ) == kept
    assert (body.metadata.annotations or {}).get(OVER_CAPACITY_ANNOTATION) == marked


def test_over_capacity_changes_of_truncated_addresses_are_not_written() -> None:
    """E-42: Upstream writes at every sync beyond the capacity."""
    pods = make_pods(1200)
    service = make_service()
    state = ServiceState(service, pods)
    body = body_of(state.plan(stored(None), None))
    observed = msgspec.structs.replace(
        body, metadata=msgspec.structs.replace(body.metadata, resource_version="8")
    )
    assert state.plan(observed, None) is NOTHING
    last = max(pods, key=lambda pod: pod.pod_ips)
    assert state.pod_changed(last, msgspec.structs.replace(last, ready=False))
    assert state.plan(observed, None) is NOTHING
    first = min(pods, key=lambda pod: pod.pod_ips)
    assert state.pod_changed(first, msgspec.structs.replace(first, ready=False))
    assert isinstance(state.plan(observed, None), Update)


# ------------------------------------------------------------------------------- the service is deleted


def test_endpoints_of_a_deleted_service_are_deleted_at_the_observed_version() -> None:
    """E-10."""
    assert plan_without_service(stored(FOREIGN, labels={})) == Delete(KEY, "e0", "7")
    assert plan_without_service(None) is NOTHING


def test_an_election_record_is_never_deleted() -> None:
    """E-5."""
    assert plan_without_service(stored(None, annotations={LEADER_ANNOTATION: ""})) is NOTHING


def test_terminating_endpoints_are_not_deleted_again() -> None:
    observed = stored(None)
    dying = msgspec.structs.replace(
        observed,
        metadata=msgspec.structs.replace(observed.metadata, deletion_timestamp="2020-01-01T00:00:00Z"),
    )
    assert plan_without_service(dying) is NOTHING
