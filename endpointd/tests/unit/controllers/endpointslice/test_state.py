"""A service's state after each change, and the slices that it marks as dirty."""

from aiokube.api.core import NamedPort, Pod, Service
from aiokube.api.discovery import EndpointPort, EndpointSlice
from aiokube.testing.builders import (
    edited,
    make_endpoint,
    make_pod,
    make_pods,
    make_service,
    make_service_port,
    make_slice,
)
from endpointd.controllers.endpointslice.address_type_state import AddressTypeState
from endpointd.controllers.endpointslice.state import ServicePlan, ServiceState

SERVICE = make_service()


def state_of(pods: list[Pod], slices: list[EndpointSlice], *, service: Service = SERVICE) -> ServiceState:
    return ServiceState.build(service, lambda node: "zone-a" if node == "node-1" else None, pods, slices)


def family_of(state: ServiceState) -> AddressTypeState:
    (family,) = state.address_type_states()
    return family


def holding(name: str, pods: list[Pod]) -> EndpointSlice:
    return make_slice(SERVICE, name, [make_endpoint(pod) for pod in pods])


def written(plan: ServicePlan) -> dict[str, list[str]]:
    """Return the writes of a plan: verb and name to the resulting pods."""
    found = {}
    for _, family in plan.address_type_plans:
        for verb, endpoint_slices in (
            ("create", family.create),
            ("update", family.update),
            ("delete", family.delete),
        ):
            for endpoint_slice in endpoint_slices:
                found[f"{verb} {endpoint_slice.metadata.name}".strip()] = [
                    (endpoint.target_ref.name if endpoint.target_ref is not None else None) or ""
                    for endpoint in endpoint_slice.endpoints or ()
                ]
    return found


def test_a_correct_service_needs_no_plan() -> None:
    pods = make_pods(3)
    assert not state_of(pods, [holding("web-a", pods[:2]), holding("web-b", pods[2:])]).needs_plan


def test_a_new_pod_is_unplaced_and_a_deleted_one_marks_its_slice_dirty() -> None:
    pods = make_pods(3)
    state = state_of(pods[:2], [holding("web-a", pods[:2])])
    state.set_pod("pod-00003", pods[2])
    assert family_of(state).unplaced_pods() == {"pod-00003"}
    state.set_pod("pod-00001", None)
    assert state.needs_plan
    assert written(state.plan(100, None)) == {"update web-a": ["pod-00002", "pod-00003"]}


def test_a_change_reverted_before_its_write_causes_no_write() -> None:
    pods = make_pods(2)
    state = state_of(pods, [holding("web-a", pods)])
    for away in (make_pod("pod-00001", "10.7.7.7"), make_pod("pod-00001", ""), None):
        state.set_pod("pod-00001", away)
        state.set_pod("pod-00001", pods[0])
        assert state.plan(100, None).is_empty
        assert not state.needs_plan
        assert family_of(state).unplaced_pods() == frozenset()


def test_a_pod_with_new_addresses_is_removed_from_its_previous_slice() -> None:
    """S-33: with other addresses it is another endpoint; any slice may take it."""
    pods = make_pods(2)
    state = state_of(pods, [holding("web-a", pods)])
    moved = make_pod("pod-00001", "10.7.7.7")
    state.set_pod("pod-00001", moved)
    assert family_of(state).unplaced_pods() == {"pod-00001"}
    state.observe("web-b", holding("web-b", [moved]))
    assert family_of(state).unplaced_pods() == frozenset()
    assert written(state.plan(100, None)) == {"update web-a": ["pod-00002"]}


def test_endpoints_of_a_deleted_slice_become_unplaced() -> None:
    pods = make_pods(3)
    state = state_of(pods, [holding("web-a", pods[:2]), holding("web-b", pods[2:])])
    state.observe("web-a", None)
    assert family_of(state).unplaced_pods() == {"pod-00001", "pod-00002"}
    assert written(state.plan(100, None)) == {"update web-b": ["pod-00003", "pod-00001", "pod-00002"]}


def test_a_terminating_slice_counts_as_deleted() -> None:
    """S-14."""
    pods = make_pods(1)
    state = state_of(pods, [holding("web-a", pods)])
    state.observe("web-a", edited(holding("web-a", pods), deletion_timestamp="2026-01-01T00:00:00Z"))
    assert written(state.plan(100, None)) == {"create": ["pod-00001"]}


def test_a_duplicate_is_removed_from_the_slice_observed_second() -> None:
    pods = make_pods(2)
    state = state_of(pods, [holding("web-b", pods)])
    state.observe("web-a", holding("web-a", pods[:1]))
    assert written(state.plan(100, None)) == {"delete web-a": ["pod-00001"]}
    state.observe("web-b", None)
    assert written(state.plan(100, None)) == {"update web-a": ["pod-00001", "pod-00002"]}


def test_an_accepted_placeholder_is_rechecked_when_pods_are_added() -> None:
    """S-52: it was accepted once, and then stayed next to new slices."""
    state = state_of([], [make_slice(SERVICE, "web-a", ports=())])
    assert state.plan(100, None).is_empty
    assert not state.needs_plan
    state.set_pod("pod-00001", make_pods(1)[0])
    assert written(state.plan(100, None)) == {"update web-a": ["pod-00001"]}


def test_an_accepted_placeholder_is_rechecked_when_another_slice_appears() -> None:
    state = state_of([], [make_slice(SERVICE, "web-b", ports=())])
    assert state.plan(100, None).is_empty
    state.observe("web-a", make_slice(SERVICE, "web-a", ports=()))
    assert written(state.plan(100, None)) == {"delete web-b": []}


def test_an_empty_slice_is_deleted_when_no_pod_has_its_ports() -> None:
    """S-46."""
    service = make_service(ports=(make_service_port(80, "http"),))
    one = make_pod("a", named_ports=(NamedPort("http", "TCP", 8080),))
    two = make_pod("b", named_ports=(NamedPort("http", "TCP", 9090),))
    slices = [
        make_slice(service, "web-a", [make_endpoint(one)]),
        make_slice(service, "web-b"),
        make_slice(
            service, "web-c", [make_endpoint(two)], ports=(EndpointPort(name="", protocol="TCP", port=9090),)
        ),
    ]
    state = state_of([one, two], slices, service=service)
    assert not state.needs_plan
    state.set_pod("a", None)
    assert written(state.plan(100, None)) == {"delete web-a": ["a"], "delete web-b": []}


def test_a_slice_that_changes_its_address_type_is_moved() -> None:
    """S-22: no server allows it, but a recreated slice may have another type."""
    pods = make_pods(1)
    state = state_of(pods, [holding("web-a", pods)])
    state.observe("web-a", edited(holding("web-a", pods), address_type="FQDN"))
    plan = state.plan(100, None)
    assert [endpoint_slice.metadata.name for endpoint_slice in plan.strays] == ["web-a"]
    assert written(plan) == {"create": ["pod-00001"]}
    state.observe("web-a", None)
    state.observe("web-b", holding("web-b", pods))
    assert not state.needs_plan


def test_missing_nodes_are_reported_until_the_node_exists_or_the_pod_is_deleted() -> None:
    lost = make_pod("lost", node_name="gone")
    state = state_of([lost], [])
    assert state.missing_nodes == {"lost": "gone"}
    state.set_pod("lost", make_pod("lost"))
    assert state.missing_nodes == {}
    state.set_pod("lost", lost)
    state.set_pod("lost", None)
    assert state.missing_nodes == {}


def test_a_snapshot_does_not_depend_on_the_version_of_the_service() -> None:
    one = state_of([], [], service=make_service(resource_version="1"))
    two = state_of([], [], service=make_service(resource_version="2"))
    assert one.snapshot() == two.snapshot()
    assert one.snapshot() != state_of([], [], service=make_service(labels={"a": "b"})).snapshot()


def test_port_sets_are_forgotten_with_their_last_pod() -> None:
    """A game server names a different port on each pod; Jobs and rolling updates keep creating and deleting these."""
    service = make_service(ports=(make_service_port(80, "game"),))
    state = state_of([], [], service=service)
    for number in range(1000):
        name = f"game-{number}"
        state.set_pod(name, make_pod(name, named_ports=(NamedPort("game", "TCP", 20_000 + number),)))
        if number % 2:
            state.set_pod(name, None)
    assert len(state.translator._port_sets) == 500
    for number in range(0, 1000, 2):
        state.set_pod(f"game-{number}", None)
    assert not state.translator._port_sets


def test_a_correct_placeholder_needs_no_plan() -> None:
    """S-50: written by us as the last of two slices, it waited for a plan that was never queued."""
    pods = make_pods(2)
    state = state_of(pods, [holding("web-a", pods[:1]), holding("web-b", pods[1:])])
    for pod in pods:
        state.set_pod(pod.metadata.name, None)
    ((_, plan),) = state.plan(100, None).address_type_plans
    (placeholder,), (gone,) = plan.update, plan.delete
    state.observe(placeholder.metadata.name, edited(placeholder, endpoints=None, ports=None))
    state.observe(gone.metadata.name, None)
    assert not state.needs_plan
    state.set_pod("pod-00001", pods[0])
    assert written(state.plan(100, None)) == {f"update {placeholder.metadata.name}": ["pod-00001"]}
