"""The state of one service as its pods are created, changed and deleted."""

import msgspec
import pytest
from tests.unit.controllers.endpoints.builders import make_pod, make_service

from aiokube.api.core import NamedPort, Pod, Service, ServicePort
from aiokube.api.endpoints import EndpointSubset
from aiokube.api.meta import NarrowMeta
from endpointd.controllers.endpoints.state import ServiceState


def pod_named(name: str, ip: str, **changes: object) -> Pod:
    return make_pod(
        metadata=NarrowMeta(name=name, namespace="ns", uid=f"uid-{name}", resource_version="1"),
        pod_ips=(ip,),
        **changes,
    )


def subsets(state: ServiceState) -> tuple[EndpointSubset, ...]:
    return state.desired.wanted().subsets


def ips(subset: EndpointSubset) -> tuple[list[str], list[str]]:
    return (
        [address.ip for address in subset.addresses or ()],
        [address.ip for address in subset.not_ready_addresses or ()],
    )


def test_a_readiness_flip_moves_a_pod_between_the_sorted_lists() -> None:
    one, two, three = (pod_named(f"p{number}", f"10.0.0.{number}") for number in (1, 2, 3))
    state = ServiceState(make_service(), [three, one])
    assert state.pod_changed(None, two)
    (subset,) = subsets(state)
    assert ips(subset) == (["10.0.0.1", "10.0.0.2", "10.0.0.3"], [])
    assert state.pod_changed(one, msgspec.structs.replace(one, ready=False))
    (subset,) = subsets(state)
    assert ips(subset) == (["10.0.0.2", "10.0.0.3"], ["10.0.0.1"])
    assert state.pod_changed(two, None)
    (subset,) = subsets(state)
    assert ips(subset) == (["10.0.0.3"], ["10.0.0.1"])


def test_removing_the_last_pod_removes_its_subset() -> None:
    pod = pod_named("p", "10.0.0.1")
    state = ServiceState(make_service(), [pod])
    state.pod_changed(pod, None)
    assert subsets(state) == ()


def test_an_irrelevant_change_is_ignored() -> None:
    pod = pod_named("p", "10.0.0.1")
    state = ServiceState(make_service(), [pod])
    assert not state.pod_changed(pod, msgspec.structs.replace(pod, labels={"foo": "bar", "more": "x"}))
    assert not state.pod_changed(None, pod_named("q", "10.0.0.2", phase="Failed"))
    assert not state.pod_changed(pod_named("q", "10.0.0.2", phase="Failed"), None)


def test_a_pod_that_fails_without_a_readiness_change_is_removed() -> None:
    """Upstream ignores the phase and keeps it until another event (0.3; k/k#109414)."""
    pod = pod_named("p", "10.0.0.1", ready=False)
    state = ServiceState(make_service(), [pod])
    assert state.pod_changed(pod, msgspec.structs.replace(pod, phase="Failed"))
    assert subsets(state) == ()


def test_two_pods_with_one_address_are_two_addresses() -> None:
    """E-30: Pods on the host's network share its address."""
    one, two = pod_named("a", "10.0.0.1"), pod_named("b", "10.0.0.1")
    state = ServiceState(make_service(), [two, one])
    (subset,) = subsets(state)
    assert [address.target_ref.name for address in subset.addresses or () if address.target_ref] == ["a", "b"]
    state.pod_changed(one, None)
    (subset,) = subsets(state)
    assert [address.target_ref.name for address in subset.addresses or () if address.target_ref] == ["b"]


NAMED = make_service(ports=(ServicePort("web", "TCP", 80, "web"), ServicePort("admin", "TCP", 81, 9000)))


def test_each_number_of_a_named_port_has_a_subset_and_shared_ports_another() -> None:
    """E-32."""
    old = pod_named("old", "10.0.0.1", named_ports=(NamedPort("web", "TCP", 8080),))
    new = pod_named("new", "10.0.0.2", named_ports=(NamedPort("web", "TCP", 8081),), ready=False)
    state = ServiceState(NAMED, [old, new])
    found = {
        tuple((port.name, port.port) for port in subset.ports or ()): ips(subset) for subset in subsets(state)
    }
    assert found == {
        (("web", 8080),): (["10.0.0.1"], []),
        (("web", 8081),): ([], ["10.0.0.2"]),
        (("admin", 9000),): (["10.0.0.1"], ["10.0.0.2"]),
    }


def test_pods_that_share_a_port_are_sorted_together() -> None:
    """E-31."""
    pods = [
        pod_named(f"p{number}", f"10.0.0.{number}", named_ports=(NamedPort("web", "TCP", 8080 + number % 2),))
        for number in range(1, 7)
    ]
    (shared,) = (subset for subset in subsets(ServiceState(NAMED, pods)) if len(ips(subset)[0]) == 6)
    assert ips(shared)[0] == [f"10.0.0.{number}" for number in range(1, 7)]


def test_a_service_without_ports_that_becomes_headless_publishes_its_pods() -> None:
    """E-15."""
    pods = [pod_named("p", "10.0.0.1")]
    state = ServiceState(make_service(ports=(), cluster_ip=""), pods)
    assert subsets(state) == ()
    state.service_changed(make_service(ports=(), cluster_ip="None"), pods)
    assert len(subsets(state)) == 1


def test_adding_and_removing_service_ports_splits_and_merges_subsets() -> None:
    """TestSyncEndpointsAddDeletePorts."""
    one = pod_named("pod1", "10.0.0.1", named_ports=(NamedPort("svc1", "TCP", 8081),))
    two = pod_named("pod2", "10.0.0.2", named_ports=(NamedPort("svc2", "TCP", 8082),))

    def service(*names: str) -> Service:
        ports = tuple(ServicePort(name, "TCP", 80 + number, name) for number, name in enumerate(names))
        return make_service(ports=ports)

    state = ServiceState(service("svc1"), [one])
    assert len(subsets(state)) == 1
    state.service_changed(service("svc1", "svc2"), [one, two])
    assert len(subsets(state)) == 2
    state.service_changed(service("svc2"), [one, two])
    (subset,) = subsets(state)
    assert ips(subset) == (["10.0.0.2"], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"ports": (ServicePort("http", "TCP", 80, 9090),)},
        {"publish_not_ready_addresses": True},
        {"ip_families": ("IPv6",)},
        {"ip_families": (), "cluster_ip": "fd00::1"},
        {"selector": {"foo": "other"}},
        {"labels": {"a": "b"}},
        {"cluster_ip": "None", "ports": ()},
    ],
)
def test_a_changed_service_equals_a_rebuilt_one(changes: dict[str, object]) -> None:
    pods = [
        make_pod(pod_ips=("10.0.0.1", "fd00::1")),
        pod_named("p2", "10.0.0.2", ready=False),
        pod_named("p3", "fd00::3", terminating=True),
    ]
    after = make_service(**changes)
    members = [pod for pod in pods if (after.selector or {}).items() <= pod.labels.items()]
    state = ServiceState(make_service(), pods)
    state.service_changed(after, members)
    assert state.snapshot() == ServiceState(after, members).snapshot()


def test_a_label_change_of_a_service_does_not_read_its_pods() -> None:
    def refuse() -> list[Pod]:
        raise AssertionError("looked at")

    pods = [pod_named("p", "10.0.0.1")]
    state = ServiceState(make_service(), pods)
    state.service_changed(make_service(labels={"a": "b"}), (pod for _ in "x" for pod in refuse()))
    assert state.service.labels == {"a": "b"}
    assert len(state.desired) == 1


def test_the_first_sync_carries_the_creation_time_and_later_ones_the_oldest_change() -> None:
    service = make_service(creation_timestamp="2020-01-01T00:00:00Z")
    early = pod_named("early", "10.0.0.1", ready_since="2019-01-01T00:00:00Z")
    state = ServiceState(service, [early])
    assert state.trigger_times.take() == "2020-01-01T00:00:00Z"
    assert state.trigger_times.take() is None
    state.pod_changed(early, msgspec.structs.replace(early, ready=False, ready_since="2020-01-05T00:00:00Z"))
    state.pod_changed(None, pod_named("new", "10.0.0.2", ready_since="2020-01-04T00:00:00Z"))
    assert state.trigger_times.take() == "2020-01-04T00:00:00Z"


def test_pods_added_by_a_new_selector_count_as_changes() -> None:
    first = pod_named("first", "10.0.0.1", ready_since="2020-01-03T00:00:00Z")
    second = pod_named(
        "second", "10.0.0.2", ready_since="2020-01-02T00:00:00Z", labels={"foo": "other", "both": "x"}
    )
    both = msgspec.structs.replace(first, labels={"foo": "bar", "both": "x"})
    state = ServiceState(make_service(), [both])
    state.trigger_times.take()
    state.service_changed(make_service(selector={"both": "x"}), [both, second])
    assert state.trigger_times.take() == "2020-01-02T00:00:00Z"
