"""Plans against an independent reading of the rules: equal sizes, nothing left to do, deterministic."""

import random
from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.support.slice_invariants import (
    Ports,
    Published,
    expected_endpoints,
    ports_of_slice,
    published_in,
    slice_violations,
    wanted_ports,
)

from aiokube.api.core import NamedPort, Pod, Service
from aiokube.api.discovery import Endpoint, EndpointPort, EndpointSlice
from aiokube.testing.builders import (
    edited,
    make_endpoint,
    make_owner,
    make_pod,
    make_service,
    make_service_port,
    make_slice,
)
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.state import ServiceState

SERVICE = make_service(ports=(make_service_port(80, "http"),))
NUMBERS = (8080, 8081)
KEYS = [8080, 8080, 8080, 8081, None, 7]
ZONES = {"node-1": "zone-a", "node-2": ""}


def zone_of(node: str) -> str | None:
    return ZONES.get(node)


def ports_of(number: int | None) -> tuple[EndpointPort, ...]:
    return () if number is None else (EndpointPort(name="", protocol="TCP", port=number),)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    """Pods of one service with one of two numbers for the named port, or none; some not publishable."""
    found = []
    for number in draw(st.sets(st.integers(1, 14), max_size=14)):
        port = draw(st.sampled_from([*[NUMBERS[0]] * 6, NUMBERS[1], None]))
        found.append(
            make_pod(
                f"pod-{number:02}",
                draw(st.sampled_from([*[f"10.0.0.{number}"] * 7, "fd00::1"])),
                ready=draw(st.integers(0, 4)) > 0,
                node_name=draw(st.sampled_from([*["node-1"] * 7, "node-2", "gone"])),
                phase=draw(st.sampled_from([*["Running"] * 7, "Failed"])),
                named_ports=(NamedPort("http", "TCP", port),) if port is not None else (),
            )
        )
    return found


def number_of(pod: Pod) -> int | None:
    return pod.named_ports[0].number if pod.named_ports else None


@st.composite
def slices(draw: st.DrawFn, of: list[Pod]) -> list[EndpointSlice]:
    """Slices as a long and faulty history may have left them."""
    known = [*of, make_pod("stranger", "10.9.9.9")]
    keys: list[int | None] = draw(st.lists(st.sampled_from(KEYS), max_size=6))
    held: list[list[Pod]] = [[] for _ in keys]
    for pod in of:  # mostly each in one slice with its ports
        places = [place for place, key in enumerate(keys) if key == number_of(pod)]
        if places and draw(st.integers(0, 3)) > 0:
            place: int = draw(st.sampled_from(places))
            held[place].append(pod)
    found = []
    for number, (port, members) in enumerate(zip(keys, held, strict=True)):
        if not draw(st.integers(0, 4)):
            members += draw(st.lists(st.sampled_from(known), max_size=3))
        endpoint_slice = make_slice(
            SERVICE,
            f"web-{number}",
            [draw(endpoints(member)) for member in members],
            ports=ports_of(port),
            extra_labels=draw(st.sampled_from([{}, {}, {}, {"odd": "yes"}])),
        )
        if draw(st.integers(0, 7)):
            found.append(endpoint_slice)
        else:
            found.append(edited(endpoint_slice, owner_references=(make_owner(make_service(uid="earlier")),)))
    return found


def endpoints(pod: Pod) -> st.SearchStrategy[Endpoint]:
    """Return an endpoint of a pod: mostly the correct one."""
    right = make_endpoint(pod, zone=zone_of(pod.node_name) or None)
    return st.sampled_from(
        [
            *[right] * 9,
            make_endpoint(pod, zone=None, ready=None),
            make_endpoint(pod, "10.8.8.8"),
            make_endpoint(pod, hostname="other"),
        ]
    )


def family_plan(state: ServiceState, limit: int) -> AddressTypePlan:
    planned = state.plan(limit, None).address_type_plans
    return planned[0][1] if planned else AddressTypePlan()


def executed(before: list[EndpointSlice], plan: AddressTypePlan) -> list[EndpointSlice]:
    """Return the slices after a plan, as the server would store them."""
    after = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in before}
    for number, endpoint_slice in enumerate(plan.create):
        name = f"web-new-{number}"
        after[name] = edited(endpoint_slice, name=name, uid=f"{name}-uid")
    for endpoint_slice in plan.update:
        assert after[endpoint_slice.metadata.name].metadata.uid == endpoint_slice.metadata.uid
        after[endpoint_slice.metadata.name] = endpoint_slice
    for endpoint_slice in plan.delete:
        del after[endpoint_slice.metadata.name]
    return [
        edited(endpoint_slice, endpoints=endpoint_slice.endpoints or None, ports=endpoint_slice.ports or None)
        for endpoint_slice in after.values()
    ]


# ------------------------------------------------------------------- an independent, plain reading of the rules


def reference_sizes(
    service: Service, members: list[Pod], stored: list[EndpointSlice], limit: int
) -> Counter[tuple[Ports, int]]:
    """Return the slices' ports and sizes after a full reconcile of a service with one address type.

    S-30, S-31.3, S-40 to S-46, S-50: everything is read, slices in name order.
    """
    wanted_keys = wanted_ports(service, members)
    remaining: dict[Ports, dict[tuple[object, ...], Published]] = {}
    for published in expected_endpoints(service, members, zone_of):
        remaining.setdefault(published.ports, {})[identity(published)] = published
    right_labels = make_slice(service).metadata.labels
    owned = [
        endpoint_slice
        for endpoint_slice in stored
        if (endpoint_slice.metadata.owner_references or ())[0].uid == service.metadata.uid
    ]
    unchanged: list[tuple[Ports, int]] = []
    dirty: list[tuple[Ports, int]] = []
    gone = len(stored) - len(owned)
    for endpoint_slice in sorted(owned, key=lambda endpoint_slice: endpoint_slice.metadata.name):
        key = frozenset(
            (port.name, port.protocol, port.port, port.app_protocol) for port in endpoint_slice.ports or ()
        )
        if key not in wanted_keys:
            gone += 1
            continue
        kept, changed = 0, False
        for published in published_in([endpoint_slice]):
            wanted = remaining.get(key, {}).pop(identity(published), None)
            kept += wanted is not None
            changed = changed or wanted != published
        if changed and not kept:
            gone += 1
        elif changed or endpoint_slice.metadata.labels != right_labels:
            dirty.append((key, kept))
        else:
            unchanged.append((key, kept))
    after: list[tuple[Ports, int]] = []
    created = 0
    for key in {*remaining, *(each for each, _ in dirty), *(each for each, _ in unchanged)}:
        waiting = len(remaining.get(key, ()))
        for size in sorted((size for each, size in dirty if each == key), reverse=True):
            added = max(min(waiting, limit - size), 0)
            after.append((key, size + added))
            waiting -= added
        still = sorted(size for each, size in unchanged if each == key)
        while waiting:
            fitting = [size for size in still if size + waiting <= limit] if waiting < limit else []
            if fitting:
                still.remove(max(fitting))
                after.append((key, max(fitting) + waiting))
                break
            after.append((key, min(waiting, limit)))
            waiting -= min(waiting, limit)
            created += 1
        after += [(key, size) for size in still]
    if gone == len(stored) and not created:
        after.append((frozenset(), 0))
    return Counter(after)


def identity(published: Published) -> tuple[object, ...]:
    return published.addresses, published.hostname, published.pod


def sizes_of(found: list[EndpointSlice]) -> Counter[tuple[Ports, int]]:
    return Counter(
        (
            ports_of_slice(endpoint_slice),
            len(endpoint_slice.endpoints or ()),
        )
        for endpoint_slice in found
    )


# ------------------------------------------------------------------------------------------ properties


@given(data=st.data(), limit=st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_a_full_plan_matches_the_sizes_of_the_rules(data: st.DataObject, limit: int) -> None:
    members = data.draw(pods())
    stored = data.draw(slices(members))
    plan = family_plan(ServiceState.build(SERVICE, zone_of, members, stored), limit)
    assert sizes_of(executed(stored, plan)) == reference_sizes(SERVICE, members, stored, limit)


@given(data=st.data(), limit=st.integers(1, 6))
@settings(max_examples=400, deadline=None)
def test_an_executed_plan_leaves_nothing_to_do_and_nothing_wrong(data: st.DataObject, limit: int) -> None:
    members = data.draw(pods())
    stored = data.draw(slices(members))
    plan = family_plan(ServiceState.build(SERVICE, zone_of, members, stored), limit)
    after = executed(stored, plan)
    assert family_plan(ServiceState.build(SERVICE, zone_of, members, after), limit).is_empty
    sizes = {endpoint_slice.metadata.name: len(endpoint_slice.endpoints or ()) for endpoint_slice in stored}
    for endpoint_slice in plan.update:
        size = len(endpoint_slice.endpoints or ())
        assert size <= max(limit, sizes[endpoint_slice.metadata.name]), "filled over the limit"
    largest = max([limit, *sizes.values()])
    assert slice_violations(SERVICE, members, zone_of, after, max_endpoints=largest) == []
    owned = [endpoint_slice for endpoint_slice in stored if is_owned(endpoint_slice)]
    difference = sum(len(endpoint_slice.endpoints or ()) for endpoint_slice in after) - sum(
        len(endpoint_slice.endpoints or ()) for endpoint_slice in owned
    )
    assert plan.added - plan.removed == difference


def is_owned(endpoint_slice: EndpointSlice) -> bool:
    return (endpoint_slice.metadata.owner_references or ())[0].uid == SERVICE.metadata.uid


@given(data=st.data(), limit=st.integers(1, 6), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_the_same_cluster_gives_the_same_plan_in_any_order_of_events(
    data: st.DataObject, limit: int, seed: int
) -> None:
    members = data.draw(pods())
    stored = data.draw(slices(members))
    one = family_plan(ServiceState.build(SERVICE, zone_of, members, stored), limit)
    chance = random.Random(seed)
    chance.shuffle(members)
    chance.shuffle(stored)
    assert family_plan(ServiceState.build(SERVICE, zone_of, members, stored), limit) == one


@given(data=st.data(), limit=st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_a_plan_writes_no_slice_twice_and_no_correct_one(data: st.DataObject, limit: int) -> None:
    members = data.draw(pods())
    stored = data.draw(slices(members))
    plan = family_plan(ServiceState.build(SERVICE, zone_of, members, stored), limit)
    written = [endpoint_slice.metadata.name for endpoint_slice in (*plan.update, *plan.delete)]
    assert len(written) == len(set(written))
    assert not set(written) & set(plan.unchanged)
    by_name = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in stored}
    for endpoint_slice in plan.update:
        before = by_name[endpoint_slice.metadata.name]
        assert (
            endpoint_slice.endpoints or None,
            endpoint_slice.ports or None,
            endpoint_slice.metadata.labels,
        ) != (
            before.endpoints,
            before.ports,
            before.metadata.labels,
        )
