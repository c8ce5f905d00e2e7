"""For any Endpoints and slices: nothing is lost, one slice per group, correct slices are not written, one plan suffices."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.unit.controllers.mirroring.world import change, labels_of, make_endpoints, members

from aiokube.api import discovery
from aiokube.api.addresses import canonical_ip, ip_family
from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from aiokube.api.meta import ObjectReference
from endpointd.controllers.mirroring.desired import group_key_of, mirror
from endpointd.controllers.mirroring.plan import MirrorPlan, plan_mirror
from endpointd.controllers.recording import slice_content
from endpointd.controllers.repack import repack

IPS = [
    "10.0.0.1",
    "10.0.0.2",
    "010.0.0.2",
    "10.0.0.10",
    "fd00::1",
    "FD00::1",
    "fd00::2",
    "::ffff:10.0.0.1",
    "x",
]
PORTS = [
    EndpointPort(name="http", port=80, protocol="TCP"),
    EndpointPort(name="http", port=81, protocol="TCP"),
    EndpointPort(name="dns", port=53, protocol="UDP"),
    EndpointPort(name="grpc", port=443, protocol="TCP", app_protocol="kubernetes.io/h2c"),
]
ADDRESSES = st.builds(
    lambda ip, pod, node: EndpointAddress(
        ip=ip,
        node_name=node,
        target_ref=ObjectReference(kind="Pod", namespace="default", name=pod, uid=f"{pod}-uid")
        if pod
        else None,
    ),
    st.sampled_from(IPS),
    st.sampled_from([None, None, "pod-1", "pod-2"]),
    st.sampled_from([None, "node-1"]),
)
SUBSETS = st.builds(
    lambda ready, not_ready, ports: EndpointSubset(
        addresses=tuple(ready) or None,
        not_ready_addresses=tuple(not_ready) or None,
        ports=tuple(ports) or None,
    ),
    st.lists(ADDRESSES, max_size=5),
    st.lists(ADDRESSES, max_size=3),
    st.lists(st.sampled_from(PORTS), max_size=3),
)
PAIRS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), max_size=2)
ENDPOINTS = st.builds(
    lambda subsets, labels, annotations, uid: make_endpoints(
        *subsets, labels=labels or None, annotations=annotations or None, uid=uid
    ),
    st.lists(SUBSETS, max_size=3),
    PAIRS,
    PAIRS,
    st.sampled_from(["e-1", "e-2"]),
)
MANY = 1000


def plan(item: Endpoints, slices: list[EndpointSlice], most: int = MANY) -> MirrorPlan:
    return plan_mirror(item, mirror(item, most), slices)


def executed(made: MirrorPlan, slices: list[EndpointSlice]) -> list[EndpointSlice]:
    """Return the slices after a plan has been executed, as the server would store them."""
    by_name = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in slices}
    for endpoint_slice in made.delete:
        del by_name[endpoint_slice.metadata.name]
    for endpoint_slice in made.update:
        assert by_name[endpoint_slice.metadata.name].address_type == endpoint_slice.address_type, (
            "it is immutable"
        )
        by_name[endpoint_slice.metadata.name] = _stored(endpoint_slice, endpoint_slice.metadata.name)
    for number, endpoint_slice in enumerate(made.create):
        by_name[f"new-{number}"] = _stored(endpoint_slice, f"new-{number}")
    return list(by_name.values())


def _stored(endpoint_slice: EndpointSlice, name: str) -> EndpointSlice:
    version = str(int(endpoint_slice.metadata.resource_version or "0") + 1)
    return change(
        endpoint_slice,
        name=name,
        uid=f"{name}-uid",
        resource_version=version,
        creation_timestamp="2026-01-01T00:00:00Z",
        endpoints=endpoint_slice.endpoints or None,
        ports=endpoint_slice.ports or None,
    )


def fresh(item: Endpoints) -> list[EndpointSlice]:
    """Return the slices of an Endpoints that was mirrored from nothing."""
    return [
        change(endpoint_slice, name=f"old-{number}", uid=f"old-{number}-uid")
        for number, endpoint_slice in enumerate(executed(plan(item, []), []))
    ]


Offer = tuple[str, str, object]
"""An address as written, its pod, and a port in four words (None without a port)."""


def offers(item: Endpoints) -> dict[Offer, bool]:
    """Return the content of an Endpoints without repacking: is an address of a pod ready on a port?"""
    found: dict[Offer, bool] = {}
    for subset in item.subsets or ():
        for port in subset.ports or (None,):
            for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses)):
                for address in addresses or ():
                    key = (address.ip, _pod(address.target_ref), _words(port))
                    found[key] = ready and found.get(key, True)
    return found


def _pod(target: ObjectReference | None) -> str:
    return (target.name or "") if target is not None else ""


def _words(port: EndpointPort | discovery.EndpointPort | None) -> object:
    return port and (port.name, port.port, port.protocol, port.app_protocol)


def published(slices: list[EndpointSlice]) -> Counter[Offer]:
    return Counter(
        (endpoint.addresses[0], _pod(endpoint.target_ref), _words(port))
        for endpoint_slice in slices
        for endpoint in members(endpoint_slice)
        for port in endpoint_slice.ports or (None,)
    )


@given(ENDPOINTS)
def test_every_address_is_published_under_every_port_it_has_and_under_no_other(item: Endpoints) -> None:
    expected = {
        (canonical, pod, port)
        for ip, pod, port in offers(item)
        if (canonical := canonical_ip(ip)) is not None
    }
    found = set(published(fresh(item)))
    assert {offer for offer in found if offer[2]} == {offer for offer in expected if offer[2]}
    assert {offer[:2] for offer in found} == {
        offer[:2] for offer in expected
    }  # E-30.5: with ports if there are any


@given(ENDPOINTS)
def test_an_address_is_ready_on_a_port_only_if_no_subset_says_otherwise(item: Endpoints) -> None:
    """M-20, E-30.4; k/k#102683. (Of several spellings of an address one counts.)"""
    said = offers(item)
    spellings: dict[str | None, list[str]] = {}
    for ip in IPS:
        spellings.setdefault(canonical_ip(ip), []).append(ip)
    for endpoint_slice in fresh(item):
        for endpoint in members(endpoint_slice):
            for port in endpoint_slice.ports or (None,):
                rest = (_pod(endpoint.target_ref), _words(port))
                ways = {said.get((ip, *rest)) for ip in spellings[endpoint.addresses[0]]}
                assert endpoint.conditions.ready in ways


@given(ENDPOINTS, ENDPOINTS, st.integers(1, 4))
def test_an_executed_plan_leaves_nothing_to_do(before: Endpoints, now: Endpoints, most: int) -> None:
    slices = fresh(before)
    again = plan(now, executed(plan(now, slices, most), slices), most)
    assert again.is_empty
    assert (again.counts.added, again.counts.updated, again.counts.removed) == (0, 0, 0)


@given(ENDPOINTS, ENDPOINTS)
def test_each_group_has_one_slice_with_the_metadata_of_the_endpoints(
    before: Endpoints, now: Endpoints
) -> None:
    slices = executed(plan(now, fresh(before)), fresh(before))
    groups = [group_key_of(endpoint_slice) for endpoint_slice in slices]
    assert len(set(groups)) == len(groups)
    for endpoint_slice in slices:
        assert members(endpoint_slice)
        assert {ip_family(endpoint.addresses[0]) for endpoint in members(endpoint_slice)} == {
            endpoint_slice.address_type
        }
        assert {k: v for k, v in labels_of(endpoint_slice).items() if "/" not in k} == (
            now.metadata.labels or {}
        )
        assert endpoint_slice.metadata.annotations == now.metadata.annotations
        assert [owner.uid for owner in endpoint_slice.metadata.owner_references or ()] == [now.metadata.uid]


@given(ENDPOINTS, ENDPOINTS)
def test_slices_with_an_unchanged_group_are_never_written(before: Endpoints, now: Endpoints) -> None:
    """Changing one address of many writes only the slices it touches."""
    now = change(
        now, labels=before.metadata.labels, annotations=before.metadata.annotations, uid=before.metadata.uid
    )
    slices = fresh(before)
    wanted = {group.key: group for group in mirror(now, MANY).groups}
    made = plan(now, slices)
    written = {endpoint_slice.metadata.name for endpoint_slice in (*made.update, *made.delete)}
    for endpoint_slice in slices:
        group = wanted.get(group_key_of(endpoint_slice))
        if group is not None and sorted(map(repr, group.endpoints)) == sorted(
            map(repr, members(endpoint_slice))
        ):
            assert endpoint_slice.metadata.name not in written
        else:
            assert endpoint_slice.metadata.name in written
    assert plan(before, slices).is_empty


@given(ENDPOINTS, st.data())
def test_one_of_several_slices_of_a_group_stays_regardless_of_content(
    item: Endpoints, data: st.DataObject
) -> None:
    """M-31; k/k#93374: duplicates after a create whose response was lost."""
    slices = fresh(item)
    copies = [
        change(
            data.draw(st.sampled_from(slices)),
            name=f"copy-{number}",
            creation_timestamp=data.draw(st.sampled_from(["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])),
            endpoints=data.draw(st.sampled_from([None, members(slices[0])])),
        )
        for number in range(data.draw(st.integers(0, 4)) if slices else 0)
    ]
    everything = data.draw(st.permutations([*slices, *copies]))
    made = plan(item, everything)
    assert made.create == ()
    assert len(made.delete) == len(copies)
    left = executed(made, everything)
    assert sorted(map(group_key_of, left)) == sorted(map(group_key_of, slices))
    assert published(left) == published(slices)
    assert made == plan(item, list(reversed(everything))), "the order of a list must not matter"


@settings(max_examples=50)
@given(ENDPOINTS, st.integers(1, 3))
def test_the_limit_applies_per_subset_and_omitted_addresses_are_counted(item: Endpoints, most: int) -> None:
    """M-22, M-25."""
    mirrored, everything = mirror(item, most), mirror(item, MANY)
    taken = Counter[str]()
    for group in mirrored.groups:
        taken[group.key.ports] += len(group.endpoints)
        assert group.key in {whole.key for whole in everything.groups}
    assert all(count <= most for count in taken.values())
    assert everything.skipped == everything.invalid >= mirrored.invalid
    total = sum(
        len(subset.addresses or ()) + len(subset.not_ready_addresses or ()) for subset in repack(item.subsets)
    )
    assert taken.total() <= total - mirrored.skipped


@given(ENDPOINTS, ENDPOINTS)
def test_no_slice_is_written_unchanged(before: Endpoints, after: Endpoints) -> None:
    slices = {endpoint_slice.metadata.name: endpoint_slice for endpoint_slice in fresh(before)}
    for endpoint_slice in plan(after, list(slices.values())).update:
        assert slice_content(endpoint_slice) != slice_content(slices[endpoint_slice.metadata.name])
