"""The slice cache (section 2 and scenarios 8.1)."""

import copy
import itertools

import pytest
from tests.unit.discovery.slices import (
    SVC1,
    addresses,
    draining,
    endpoint,
    endpoint_slice,
    facts,
    numbered,
    of,
    port,
)

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.discovery import EndpointSliceCache, EndpointView, Location
from aiokube.testing.builders import edited


def cache_of(*endpoint_slices: EndpointSlice) -> EndpointSliceCache:
    cache = EndpointSliceCache()
    for each in endpoint_slices:
        cache.update(each)
    return cache


def seen(cache: EndpointSliceCache, name: str = "port-0") -> tuple[EndpointView, ...]:
    return cache.endpoints(of(name))


# --------------------------------------------------------------------------- EndpointsMapFromESC


def test_one_slice_on_two_hosts_with_two_ports() -> None:
    cache = cache_of(numbered("svc1", 1, 3, hosts=["host1", "host2"], ports=[80, 443]))
    assert cache.ports_of(SVC1) == [of("port-0"), of("port-1")]
    assert addresses(seen(cache)) == ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"]
    assert addresses(seen(cache, "port-1")) == ["10.0.1.1:443", "10.0.1.2:443", "10.0.1.3:443"]
    assert [view.is_local_to(Location("host1")) for view in seen(cache)] == [False, True, False]


def test_two_slices_with_the_same_port_are_merged() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc1", 2, 3))
    assert addresses(seen(cache)) == [f"10.0.{slice_}.{index}:80" for slice_ in (1, 2) for index in (1, 2, 3)]
    assert not any(view.is_local_to(Location("host1")) for view in seen(cache))


def test_a_newer_version_of_a_slice_replaces_the_older_one() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc1", 1, 4, version=2))
    assert len(seen(cache)) == 4


def test_conditions_reflect_the_latest_state() -> None:
    cache = cache_of(
        numbered("svc1", 1, 10, unready_every=3), numbered("svc1", 1, 10, unready_every=6, version=2)
    )
    assert [each.address for each in seen(cache) if not each.ready] == ["10.0.1.6:80"]
    assert [each.address for each in seen(cache) if not each.serving] == ["10.0.1.6:80"]
    assert addresses(seen(cache))[:2] == ["10.0.1.10:80", "10.0.1.1:80"]  # type: ignore[index]  # C-39


def test_terminating_endpoints_are_reported_with_their_conditions() -> None:
    cache = cache_of(
        numbered("svc1", 1, 10, unready_every=3, terminating_every=5),
        numbered("svc1", 1, 10, unready_every=6, terminating_every=5, version=2),
    )
    found = facts(seen(cache))
    assert found["10.0.1.5:80"] == found["10.0.1.10:80"] == (False, True, True)
    assert found["10.0.1.6:80"] == (False, False, False)
    assert sum(value == (True, True, False) for value in found.values()) == 7


def test_endpoints_are_kept_if_none_is_ready() -> None:
    cache = cache_of(
        numbered("svc1", 1, 10, unready_every=1), numbered("svc1", 1, 10, unready_every=1, version=2)
    )
    assert len(seen(cache)) == 10
    assert not any(view.ready or view.serving for view in seen(cache))


def test_services_and_namespaces_are_separate() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc2", 2, 3), numbered("svc1", 3, 3, namespace="ns2"))
    assert addresses(seen(cache)) == ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"]
    assert cache.services() == [("ns1", "svc1"), ("ns1", "svc2"), ("ns2", "svc1")]


def test_a_port_without_a_number_has_no_endpoints_and_is_reported() -> None:
    given = endpoint_slice(endpoints=[endpoint("10.0.0.1")], ports=[port("http", None)])
    cache = cache_of(given)
    assert cache.snapshot() == {}
    assert cache.problems() == {given.metadata.key: ("ports[0] ('http') has no number",)}
    cache.update(endpoint_slice(endpoints=[endpoint("10.0.0.1")], version=2))
    assert cache.problems() == {}


def test_a_port_name_may_have_different_numbers_in_different_slices() -> None:
    """C-31, and "4 different slices with duplicate IPs": identity is ip:port (C-34)."""
    ips = [endpoint("10.0.1.1"), endpoint("10.0.1.2")]
    cache = cache_of(
        endpoint_slice("a", ips, [port("port-0", 80)]), endpoint_slice("b", ips, [port("port-0", 8080)])
    )
    assert addresses(seen(cache)) == ["10.0.1.1:80", "10.0.1.1:8080", "10.0.1.2:80", "10.0.1.2:8080"]


def test_slices_of_one_service_may_have_different_ports() -> None:
    """C-31; the other endpoints stay when one is removed."""
    http = endpoint_slice("a", [endpoint("10.0.0.1")], [port("http")])
    cache = cache_of(http, endpoint_slice("b", [endpoint("10.0.0.2")], [port("http"), port("metrics", 9090)]))
    assert addresses(seen(cache, "http")) == ["10.0.0.1:80", "10.0.0.2:80"]
    assert addresses(seen(cache, "metrics")) == ["10.0.0.2:9090"]
    cache.remove(http)
    assert addresses(seen(cache, "http")) == ["10.0.0.2:80"]


def test_addresses_are_sorted_as_text() -> None:
    """C-39: 2.2.2.22:22 precedes 2.2.2.2:22."""
    cache = cache_of(
        endpoint_slice(
            "a", [endpoint("2.2.2.2"), endpoint("2.2.2.22"), endpoint("10.0.1.1")], [port("p", 22)]
        )
    )
    assert addresses(seen(cache, "p")) == ["10.0.1.1:22", "2.2.2.22:22", "2.2.2.2:22"]


def test_different_spellings_of_an_address_are_one_endpoint() -> None:
    """V14, over two slices."""
    cache = EndpointSliceCache("IPv6")
    cache.update(endpoint_slice("a", [endpoint("2001:DB8::0:1")], family="IPv6"))
    cache.update(endpoint_slice("b", [endpoint("2001:db8::1")], family="IPv6"))
    assert addresses(seen(cache, "http")) == ["[2001:db8::1]:80"]


# --------------------------------------------------------------------------- duplicates over slices

ALIVE = endpoint("10.0.0.1", ready=True, serving=True, terminating=False, node="alive")
UNREADY = endpoint("10.0.0.1", ready=False, serving=False, terminating=False, node="unready")
DRAINING = draining("10.0.0.1", node="draining")
DEAD = endpoint("10.0.0.1", ready=False, serving=False, terminating=True, node="dead")


def winner(*endpoint_slices: EndpointSlice) -> str:
    (view,) = cache_of(*endpoint_slices).endpoints(of())
    return view.node_name


@pytest.mark.parametrize("alive", [ALIVE, UNREADY])
@pytest.mark.parametrize("dying", [DRAINING, DEAD])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_non_terminating_duplicates_win_regardless_of_slice_and_order(
    alive: object, dying: object, names: str
) -> None:
    """C-35, k/k#135593; C-38, V3: even if only the other one is serving."""
    endpoint_slices = [endpoint_slice(names[0], [alive]), endpoint_slice(names[1], [dying])]  # type: ignore[list-item]
    for order in itertools.permutations(endpoint_slices):
        assert winner(*order) == alive.node_name  # type: ignore[attr-defined]


def test_ties_are_broken_by_slice_name_and_not_by_event_order() -> None:
    """C-36 leaves it open: the last name of the non-terminating ones, else the first; fields are not mixed."""
    alive = [endpoint_slice("a", [ALIVE]), endpoint_slice("b", [UNREADY]), endpoint_slice("c", [DRAINING])]
    dying = [endpoint_slice("a", [DRAINING]), endpoint_slice("b", [DEAD])]
    assert {winner(*order) for order in itertools.permutations(alive)} == {"unready"}
    assert {winner(*order) for order in itertools.permutations(dying)} == {"draining"}


def test_age_readiness_and_locality_do_not_decide_between_duplicates() -> None:
    """C-37: age, trigger time, readiness and locality do not matter."""
    newer = endpoint_slice("a", [ALIVE], version=99, triggered="2026-02-02T00:00:00Z")
    older = endpoint_slice("b", [UNREADY], version=1, triggered="2026-01-01T00:00:00Z")
    assert winner(newer, older) == winner(older, newer) == "unready"


def test_a_cache_applies_events_without_comparing_versions() -> None:
    """C-21: versions are not compared; our store never goes back, so older states never arrive."""
    cache = cache_of(endpoint_slice("a", [endpoint("10.0.0.2")], version=2))
    assert cache.update(endpoint_slice("a", [endpoint("10.0.0.1")], version=1))
    assert addresses(cache.endpoints(of())) == ["10.0.0.1:80"]


def test_slices_with_the_service_label_add_endpoints_regardless_of_their_manager() -> None:
    """C-85, C-11: owners and managers do not matter."""
    label = "endpointslice.kubernetes.io/managed-by"
    cache = cache_of(
        endpoint_slice("a", [endpoint("10.0.0.1")], labels={label: "endpointslice-controller.k8s.io"}),
        endpoint_slice(
            "b", [endpoint("10.0.0.2")], labels={label: "endpointslicemirroring-controller.k8s.io"}
        ),
        endpoint_slice("c", [endpoint("10.0.0.3")]),
    )
    assert addresses(cache.endpoints(of())) == ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]


def test_a_slice_without_hints_disables_hints_for_its_port_only() -> None:
    """C-60, over all slices of the family; C-59: nothing else matters."""
    hinted = [endpoint("10.0.0.1", zones=["a"]), endpoint("10.0.0.2", zones=["b"])]
    cache = cache_of(
        endpoint_slice("a", hinted, [port("http"), port("metrics", 9090)]),
        endpoint_slice("b", [endpoint("10.0.0.3")], [port("http")]),
    )
    here = Location("n1", "a")
    http, metrics = (cache.service_endpoints(of(name), location=here) for name in ("http", "metrics"))
    assert addresses(http.usable) == ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]
    assert addresses(metrics.usable) == ["10.0.0.1:9090"]


def test_removing_a_duplicate_keeps_the_other() -> None:
    """C-83: a moving endpoint is in two slices for a moment, but never twice in the list."""
    first, second = (
        endpoint_slice("a", [endpoint("10.0.0.1", node="a")]),
        endpoint_slice("b", [endpoint("10.0.0.1", node="b")]),
    )
    cache = cache_of(first)
    cursor = cache.cursor(replay=False)
    cache.update(second)
    assert len(seen(cache, "http")) == 1
    cache.remove(first)
    assert [view.node_name for view in seen(cache, "http")] == ["b"]
    changes = cache.changes_since(cursor).ports[of()]
    assert (changes.added, changes.removed) == ((), ())
    assert [(before.node_name, now.node_name) for before, now in changes.changed] == [("a", "b")]


def test_moving_an_endpoint_to_another_slice_is_not_a_difference() -> None:
    cache = cache_of(
        endpoint_slice("a", [endpoint("10.0.0.1"), endpoint("10.0.0.2")]),
        endpoint_slice("b", [endpoint("10.0.0.3")]),
    )
    cursor = cache.cursor(replay=False)
    cache.update(endpoint_slice("a", [endpoint("10.0.0.2")], version=2))
    cache.update(endpoint_slice("b", [endpoint("10.0.0.1"), endpoint("10.0.0.3")], version=2))
    changes = cache.changes_since(cursor)
    assert changes.services == {SVC1}
    assert changes.ports == {}


# --------------------------------------------------------------------------- EsDataChanged, EndpointSliceUpdate

ONE = endpoint_slice(
    endpoints=[endpoint("10.0.0.1"), endpoint("10.0.0.2")], ports=[port("a", 1), port("b", 2)]
)


@pytest.mark.parametrize("given", [ONE, endpoint_slice(ports=[port("a", 1), port("b", 2)])])
def test_an_identical_slice_is_not_a_change(given: EndpointSlice) -> None:
    """C-22: resyncs and relists cost nothing. ``given`` twice is equal, not the same object."""
    cache = cache_of(given)
    cursor = cache.cursor(replay=False)
    assert not cache.update(copy.deepcopy(given))
    assert not cache.changes_since(cursor)
    assert cache.update(edited(given, resource_version="2"))
    assert not cache.update(edited(given, resource_version="2"))  # compared with pending slices, too


@pytest.mark.parametrize(
    "fields",
    [
        {"ports": (port("b", 2), port("a", 1))},
        {"ports": (port("a", 1),)},
        {"ports": (port("a", 1), port("b", 2), port("c", 3))},
        {"endpoints": (endpoint("10.0.0.2"), endpoint("10.0.0.1"))},
        {"endpoints": (endpoint("10.0.0.1"), endpoint("10.0.0.2"), endpoint("10.0.0.3"))},
        {"annotations": {"a": "b"}},
        {"resource_version": "2"},
    ],
    ids=[
        "ports in another order",
        "one port fewer",
        "one more port",
        "endpoints in another order",
        "one more endpoint",
        "an annotation",
        "a new resource version",
    ],
)
def test_any_other_difference_in_a_slice_is_a_change_of_the_service(fields: dict[str, object]) -> None:
    """C-23: the whole slice is compared, in its order; V12."""
    cache = cache_of(ONE)
    cursor = cache.cursor(replay=False)
    assert cache.update(edited(ONE, **fields))
    assert cache.changes_since(cursor).services == {SVC1}


def test_a_new_slice_is_a_change_unless_it_has_another_address_type() -> None:
    cache = EndpointSliceCache()
    assert cache.update(numbered("svc1", 1, 3, ports=[80, 443]))
    assert len(cache.ports_of(SVC1)) == 2
    assert not cache.update(edited(numbered("svc1", 2, 3), address_type="FQDN"))
    assert not cache.update(edited(numbered("svc1", 2, 3), address_type="IPv6"))
    assert not cache.update(endpoint_slice(service=None))


def test_a_growing_slice_does_not_affect_other_slices() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc1", 2, 2))
    assert cache.update(numbered("svc1", 1, 5, version=2))
    assert len(seen(cache)) == 7


def test_an_overlapping_third_slice_is_merged() -> None:
    cache = cache_of(numbered("svc1", 1, 5, ports=[80, 443]))
    overlapping = edited(numbered("svc1", 1, 7), name="svc1-3")
    assert cache.update(overlapping)
    assert len(seen(cache)) == 7
    assert len(seen(cache, "port-1")) == 5


def test_deleting_a_slice_removes_its_endpoints_and_an_unknown_one_is_ignored() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc1", 2, 2))
    assert not cache.remove(numbered("svc1", 3, 5))
    assert not cache.remove(numbered("svc9", 1, 5))
    assert cache.remove(numbered("svc1", 1, 3))
    assert addresses(seen(cache)) == ["10.0.2.1:80", "10.0.2.2:80"]


@pytest.mark.parametrize(
    ("before", "after", "ready"),
    [
        ({}, {"unready_every": 1}, 0),
        ({"unready_every": 1}, {}, 5),
        ({"unready_every": 1}, {"unready_every": 2}, 3),
        ({}, {"terminating_every": 2}, 3),
    ],
    ids=["all become unready", "all become ready", "some become ready", "some begin to terminate"],
)
def test_condition_changes_are_reported_without_removals(
    before: dict[str, int], after: dict[str, int], ready: int
) -> None:
    cache = cache_of(numbered("svc1", 1, 5, **before))  # type: ignore[arg-type]
    cursor = cache.cursor(replay=False)
    assert cache.update(numbered("svc1", 1, 5, version=2, **after))  # type: ignore[arg-type]
    assert len(seen(cache)) == 5
    assert sum(view.ready for view in seen(cache)) == ready
    changes = cache.changes_since(cursor).ports[of("port-0")]
    assert changes.added == changes.removed == ()
    assert len(changes.changed) == sum(a.ready != b.ready for a, b in changes.changed) > 0


def test_input_slices_are_never_modified() -> None:
    """The last line of 8.1."""
    given = [numbered("svc1", 1, 5, unready_every=2), endpoint_slice("b", [DRAINING, ALIVE])]
    before = copy.deepcopy(given)
    cache = cache_of(*given)
    cache.changes_since(cache.cursor())
    assert given == before


# -------------------------------------------------------------------------------------------------- removal


@pytest.mark.parametrize("settled", [False, True])
def test_a_relabelled_slice_moves_to_the_other_service(settled: bool) -> None:
    """C-16, V13: kube-proxy keeps the old entry; here it moves, and both services report a change."""
    cache = cache_of(endpoint_slice("a", [endpoint("10.0.0.1")]))
    cursor = cache.cursor(replay=False)
    if settled:
        cache.snapshot()
    assert cache.update(endpoint_slice("a", [endpoint("10.0.0.1")], service="svc2", version=2))
    assert cache.snapshot().keys() == {of(service="svc2")}
    assert cache.changes_since(cursor).services == {SVC1, ("ns1", "svc2")}
    assert cache.remove(endpoint_slice("a", service="svc2", version=3))
    assert cache.services() == []


@pytest.mark.parametrize(
    "after", [endpoint_slice("a", service=None, version=2), endpoint_slice("a", family="IPv6", version=2)]
)
def test_a_slice_that_loses_its_service_label_or_family_is_removed(after: EndpointSlice) -> None:
    """C-16 fixed."""
    cache = cache_of(endpoint_slice("a", [endpoint("10.0.0.1")]))
    assert cache.update(after)
    assert not cache.update(after)
    assert (cache.snapshot(), cache.services()) == ({}, [])


def test_a_deletion_finds_the_slice_regardless_of_its_final_labels() -> None:
    """C-7: the last state may be one that we never received."""
    cache = cache_of(endpoint_slice("a", [endpoint("10.0.0.1")]))
    assert cache.remove(endpoint_slice("a", service="svc2", version=9))
    assert cache.snapshot() == {}


def test_deleted_slices_leave_no_state_behind() -> None:
    """C-20."""
    endpoint_slices = [numbered(f"svc{index}", 1, 3, ports=[80, 443]) for index in range(5)]
    cache = cache_of(*endpoint_slices)
    cache.snapshot()
    for each in endpoint_slices:
        cache.remove(each)
    cache.snapshot()
    for name in ("_filed", "_slices", "_pending", "_merged", "_problems"):
        assert not getattr(cache, name), name


def test_a_cache_holds_endpoints_of_unknown_services() -> None:
    """C-15: services are tracked elsewhere."""
    assert cache_of(endpoint_slice(service="not-there-yet", endpoints=[endpoint("10.0.0.1")])).services() == [
        ObjectKey("ns1", "not-there-yet")
    ]


def test_address_families_are_separate() -> None:
    """C-13, C-14."""
    four, six = (
        endpoint_slice("a", [endpoint("10.0.0.1")]),
        endpoint_slice("b", [endpoint("2001:db8::1")], family="IPv6"),
    )
    for family, address in (("IPv4", "10.0.0.1:80"), ("IPv6", "[2001:db8::1]:80")):
        cache = EndpointSliceCache(family)  # type: ignore[arg-type]
        assert [cache.update(four), cache.update(six)] == [family == "IPv4", family == "IPv6"]
        assert addresses(cache.endpoints(of())) == [address]
        assert cache.statistics().events == 1  # C-51: ignored slices do not count


# ---------------------------------------------------------------------------------------------------- cost


def test_returned_endpoints_are_not_affected_by_later_events() -> None:
    cache = cache_of(numbered("svc1", 1, 3))
    before = cache.endpoints(of("port-0"))
    whole = cache.snapshot()
    cache.update(numbered("svc1", 1, 5, version=2))
    assert len(cache.endpoints(of("port-0"))) == 5
    assert len(before) == len(whole[of("port-0")]) == 3


@pytest.mark.parametrize("others", [1, 400])
def test_the_cost_of_a_change_is_independent_of_other_slices(others: int) -> None:
    """Neither the slices of other services nor the service's other slices are scanned."""
    cache = EndpointSliceCache()
    for index in range(others):
        cache.update(numbered(f"other{index}", 1, 10))
        cache.update(numbered("svc1", index + 2, 10))
    cache.update(numbered("svc1", 1, 10))
    cursor = cache.cursor(replay=False)
    before = cache.statistics()
    cache.update(numbered("svc1", 1, 10, unready_every=10, version=2))
    changes = cache.changes_since(cursor)
    after = cache.statistics()
    assert len(changes.ports[of("port-0")].changed) == 1
    assert after.slices_read - before.slices_read == 1
    assert after.addresses_compared - before.addresses_compared == 20  # ten as they were, ten as they are


def test_a_hundred_events_of_a_slice_between_two_reads_are_parsed_once() -> None:
    """C-17 to C-19: pending slices are not parsed, and only their last state ever is."""
    cache = EndpointSliceCache()
    cursor = cache.cursor()
    for version in range(1, 101):
        cache.update(numbered("svc1", 1, 10, version=version, unready_every=version))
    assert cache.statistics().slices_read == 1
    assert len(cache.changes_since(cursor).ports[of("port-0")].added) == 10
    assert (cache.statistics().events, cache.statistics().changes) == (100, 100)


def test_the_endpoint_list_of_a_port_is_built_once_for_all_readers() -> None:
    cache = cache_of(numbered("svc1", 1, 3), numbered("svc2", 2, 3))
    before = cache.endpoints(of("port-0"))
    cache.update(numbered("svc2", 2, 4, version=2))
    assert cache.endpoints(of("port-0")) is before
