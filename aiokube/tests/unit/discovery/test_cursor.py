"""Changes since a reader's last read (section 4, scenarios 8.2)."""

import gc
from collections.abc import Mapping
from datetime import UTC, datetime

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

from aiokube.api.discovery import Endpoint, EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.discovery import (
    Cursor,
    EndpointChanges,
    EndpointSliceCache,
    Location,
    PortChanges,
    ServiceEndpoints,
    local_ready_counts,
)
from aiokube.testing.builders import edited

HERE = Location("here")
REMOTE, LOCAL = "elsewhere", "here"


class Reader:
    """A cache with one reader."""

    def __init__(self, *endpoint_slices: EndpointSlice, started: datetime | None = None) -> None:
        self.cache = EndpointSliceCache(started=started)
        for each in endpoint_slices:
            self.cache.update(each)
        self.reader: Cursor = self.cache.cursor(replay=False)

    def changes(self) -> EndpointChanges:
        return self.cache.changes_since(self.reader)

    def changed(self, *endpoint_slices: EndpointSlice) -> EndpointChanges:
        for each in endpoint_slices:
            self.cache.update(each)
        return self.changes()

    @property
    def map(self) -> dict[str, list[str] | None]:
        return {str(name): addresses(found) for name, found in self.cache.snapshot().items()}

    @property
    def counts(self) -> Mapping[ObjectKey, int]:
        return local_ready_counts(self.cache.snapshot(), HERE)


def local(*ips: str) -> list[Endpoint]:
    return [endpoint(ip, node=LOCAL) for ip in ips]


# --------------------------------------------------------------------------- UpdateEndpointsMap


def test_an_empty_cache_has_no_changes() -> None:
    """C-50."""
    reader = Reader()
    assert reader.changes() == EndpointChanges()
    assert not reader.changes()


NO_CHANGE: dict[str, list[EndpointSlice]] = {
    "an unnamed port": [endpoint_slice("a", [endpoint("1.1.1.1")], [port("", 11, "UDP")])],
    "a named port, local": [endpoint_slice("a", local("1.1.1.1"), [port("p11", 11, "UDP")])],
    "two slices": [
        endpoint_slice("a", local("1.1.1.1"), [port("p11", 11)]),
        endpoint_slice("b", local("1.1.1.2"), [port("p12", 12)]),
    ],
    "two slices with several ports": [
        endpoint_slice("a", local("1.1.1.1"), [port("p11", 11), port("p12", 12)]),
        endpoint_slice("b", local("1.1.1.2"), [port("p13", 13)]),
    ],
    "two services": [
        endpoint_slice("a", local("1.1.1.1", "1.1.1.2")),
        endpoint_slice("b", local("2.2.2.2"), service="svc2"),
    ],
}


@pytest.mark.parametrize("endpoint_slices", NO_CHANGE.values(), ids=NO_CHANGE)
def test_an_identical_state_yields_no_changes(endpoint_slices: list[EndpointSlice]) -> None:
    reader = Reader(*endpoint_slices)
    before = reader.map
    changes = reader.changed(*endpoint_slices)
    assert (changes.services, dict(changes.ports), changes.udp_flows_may_be_stale) == (frozenset(), {}, False)
    assert reader.map == before


def test_local_counts_are_distinct_addresses_across_all_ports_and_slices() -> None:
    """C-71a in the same scenarios: 1, 2 + 1."""
    assert Reader(*NO_CHANGE["a named port, local"]).counts == {SVC1: 1}
    assert Reader(*NO_CHANGE["two services"]).counts == {SVC1: 2, ObjectKey("ns1", "svc2"): 1}


def test_adding_and_removing_a_udp_slice() -> None:
    reader = Reader()
    given = endpoint_slice("a", local("1.1.1.1"), [port("", 11, "UDP")])
    changes = reader.changed(given)
    assert (changes.services, changes.udp_flows_may_be_stale) == (frozenset({SVC1}), True)
    assert reader.map == {"ns1/svc1:(unnamed)/UDP": ["1.1.1.1:11"]}
    assert reader.counts == {SVC1: 1}
    reader.cache.remove(given)
    changes = reader.changes()
    assert (changes.services, changes.udp_flows_may_be_stale) == (frozenset({SVC1}), True)
    assert addresses(changes.ports[of("", "UDP")].removed) == ["1.1.1.1:11"]
    assert (reader.map, reader.counts) == ({}, {})


def test_adding_and_removing_an_address_and_a_port() -> None:
    small = endpoint_slice("a", local("1.1.1.1"), [port("p11", 11, "UDP")])
    large = endpoint_slice(
        "a", local("1.1.1.1", "1.1.1.2"), [port("p11", 11, "UDP"), port("p12", 12, "UDP")], version=2
    )
    reader = Reader(small)
    changes = reader.changed(large)
    assert addresses(changes.ports[of("p11", "UDP")].added) == ["1.1.1.2:11"]
    assert addresses(changes.ports[of("p12", "UDP")].added) == ["1.1.1.1:12", "1.1.1.2:12"]
    assert changes.udp_flows_may_be_stale
    changes = reader.changed(edited(small, resource_version="3"))
    assert addresses(changes.ports[of("p12", "UDP")].removed) == ["1.1.1.1:12", "1.1.1.2:12"]
    assert reader.map == {"ns1/svc1:p11/UDP": ["1.1.1.1:11"]}


def test_adding_and_removing_a_second_slice_of_a_service() -> None:
    reader = Reader(endpoint_slice("a", local("1.1.1.1"), [port("p11", 11)]))
    second = endpoint_slice("b", [endpoint("1.1.1.2")], [port("p12", 12)])
    assert reader.changed(second).services == {SVC1}
    assert reader.map == {"ns1/svc1:p11/TCP": ["1.1.1.1:11"], "ns1/svc1:p12/TCP": ["1.1.1.2:12"]}
    reader.cache.remove(second)
    assert reader.changes().services == {SVC1}
    assert reader.map == {"ns1/svc1:p11/TCP": ["1.1.1.1:11"]}


def test_renaming_a_port_makes_it_a_different_port() -> None:
    """C-48: the old one is removed, the new one added."""
    reader = Reader(endpoint_slice("a", local("1.1.1.1"), [port("p11", 11)]))
    changes = reader.changed(endpoint_slice("a", local("1.1.1.1"), [port("p11-2", 11)], version=2))
    assert addresses(changes.ports[of("p11")].removed) == ["1.1.1.1:11"]
    assert addresses(changes.ports[of("p11-2")].added) == ["1.1.1.1:11"]


def test_renumbering_a_port_keeps_the_port_and_replaces_its_endpoints() -> None:
    reader = Reader(endpoint_slice("a", local("1.1.1.1"), [port("p11", 11)]))
    changes = reader.changed(endpoint_slice("a", local("1.1.1.1"), [port("p11", 22)], version=2))
    (found,) = changes.ports.values()
    assert (addresses(found.removed), addresses(found.added)) == (["1.1.1.1:11"], ["1.1.1.1:22"])


def test_many_changes_in_one_batch() -> None:
    """The complex scenario: four services whose slices are added, shrunk and removed."""

    def in4(name: str, ips: list[Endpoint], number: int, version: int = 1) -> EndpointSlice:
        return endpoint_slice(
            name, ips, [port(f"p{number}", number, "UDP")], service="ep4", namespace="ns4", version=version
        )

    first = endpoint_slice("1", [endpoint("1.1.1.1")], [port("p11", 11, "UDP")], service="ep1")
    second = [
        endpoint_slice(
            "2a",
            [*local("2.2.2.2"), endpoint("2.2.2.22", node=LOCAL)],
            [port("p22", 22, "UDP")],
            service="ep2",
            namespace="ns2",
        ),
        endpoint_slice("2b", local("2.2.2.3"), [port("p23", 23, "UDP")], service="ep2", namespace="ns2"),
    ]
    fourth = [in4("4a", local("4.4.4.4", "4.4.4.5"), 44), in4("4b", local("4.4.4.6"), 45)]
    reader = Reader(first, *second, *fourth)
    reader.cache.update(
        endpoint_slice(
            "1",
            [endpoint("1.1.1.1"), endpoint("1.1.1.11")],
            [port("p11", 11, "UDP")],
            service="ep1",
            version=2,
        )
    )
    for each in second:
        reader.cache.remove(each)
    reader.cache.update(
        endpoint_slice("3", [endpoint("3.3.3.3")], [port("p33", 33, "UDP")], service="ep3", namespace="ns3")
    )
    reader.cache.remove(fourth[1])
    changes = reader.changed(in4("4a", local("4.4.4.4"), 44, version=2))
    assert {str(service) for service in changes.services} == {"ns1/ep1", "ns2/ep2", "ns3/ep3", "ns4/ep4"}
    assert changes.udp_flows_may_be_stale
    assert reader.map == {
        "ns1/ep1:p11/UDP": ["1.1.1.11:11", "1.1.1.1:11"],
        "ns3/ep3:p33/UDP": ["3.3.3.3:33"],
        "ns4/ep4:p44/UDP": ["4.4.4.4:44"],
    }
    assert reader.counts == {("ns4", "ep4"): 1}


def test_a_service_gets_its_first_address() -> None:
    reader = Reader(endpoint_slice("a", [], [port("", 11, "UDP")]))
    assert reader.map == {}
    assert reader.changed(
        endpoint_slice("a", [endpoint("1.1.1.1")], [port("", 11, "UDP")], version=2)
    ).services == {SVC1}
    assert reader.map == {"ns1/svc1:(unnamed)/UDP": ["1.1.1.1:11"]}


def test_a_terminating_endpoint_is_kept_until_it_is_removed() -> None:
    """Also: ready to terminating may leave stale flows (C-56), and local counts drop immediately (C-71a)."""
    reader = Reader(endpoint_slice("a", local("1.1.1.1"), [port("", 11, "UDP")]))
    changes = reader.changed(
        endpoint_slice("a", [draining("1.1.1.1", node=LOCAL)], [port("", 11, "UDP")], version=2)
    )
    assert changes.udp_flows_may_be_stale
    assert facts(reader.cache.endpoints(of("", "UDP"))) == {"1.1.1.1:11": (False, True, True)}
    assert reader.counts == {}
    changes = reader.changed(endpoint_slice("a", [], [port("", 11, "UDP")], version=3))
    assert changes.udp_flows_may_be_stale
    assert reader.map == {}


# --------------------------------------------------------------------------- GetLocalEndpointIPs


def test_only_ready_endpoints_of_this_node_are_counted() -> None:
    """C-71a: terminating endpoints never are, even if there are no others."""
    assert Reader().counts == {}
    assert Reader(endpoint_slice("a", [endpoint("1.1.1.1", node=REMOTE)])).counts == {}
    both = [port("a", 1), port("b", 2)]
    assert Reader(endpoint_slice("a", local("1.1.1.1", "1.1.1.2"), both)).counts == {SVC1: 2}
    mixed = [*local("1.1.1.1"), draining("1.1.1.2", node=LOCAL)]
    assert Reader(endpoint_slice("a", mixed)).counts == {SVC1: 1}
    assert Reader(endpoint_slice("a", [draining("1.1.1.2", node=LOCAL)])).counts == {}


# --------------------------------------------------------------------------- collapsing


def test_a_reverted_change_reports_the_service_without_port_changes() -> None:
    """C-24, V11: kube-proxy reports "changed" although nothing has changed."""
    reader = Reader(numbered("svc1", 1, 3))
    changes = reader.changed(numbered("svc1", 1, 5, version=2), numbered("svc1", 1, 3, version=3))
    assert (changes.services, dict(changes.ports)) == (frozenset({SVC1}), {})
    assert changes.events == 2


def test_a_slice_added_and_removed_between_two_reads_is_not_a_difference() -> None:
    """C-24."""
    reader = Reader()
    reader.cache.update(numbered("svc1", 1, 3))
    reader.cache.remove(numbered("svc1", 1, 3))
    changes = reader.changes()
    assert (changes.services, dict(changes.ports)) == (frozenset({SVC1}), {})


def test_a_write_without_effect_reports_the_service_as_written() -> None:
    """V12."""
    reader = Reader(numbered("svc1", 1, 3))
    changes = reader.changed(edited(numbered("svc1", 1, 3), resource_version="2", annotations={"a": "b"}))
    assert (changes.services, dict(changes.ports)) == (frozenset({SVC1}), {})


def test_an_immediate_second_read_has_no_changes() -> None:
    """C-50."""
    reader = Reader()
    assert reader.changed(numbered("svc1", 1, 3))
    assert not reader.changes()


def test_snapshots_between_reads_do_not_affect_reported_changes() -> None:
    reader = Reader(numbered("svc1", 1, 3))
    reader.cache.update(numbered("svc1", 1, 5, version=2))
    reader.cache.snapshot()
    reader.cache.update(numbered("svc1", 1, 4, version=3))
    reader.cache.snapshot()
    assert addresses(reader.changes().ports[of("port-0")].added) == ["10.0.1.4:80"]


def test_the_first_read_reports_everything_unless_replay_is_disabled() -> None:
    """CheckoutChanges: from nothing to a ready, a draining and an unready one."""
    cache = EndpointSliceCache()
    cache.update(
        endpoint_slice(
            "a",
            [endpoint("10.0.1.1"), draining("10.0.1.2"), endpoint("10.0.1.3", ready=False, serving=False)],
        )
    )
    changes = cache.changes_since(cache.cursor())
    assert facts(changes.ports[of()].added) == {
        "10.0.1.1:80": (True, True, False),
        "10.0.1.2:80": (False, True, True),
        "10.0.1.3:80": (False, False, False),
    }
    assert not cache.changes_since(cache.cursor(replay=False))


def test_a_removed_port_is_reported() -> None:
    """CheckoutChanges: two ports, then one."""
    reader = Reader(numbered("svc1", 1, 3, ports=[80, 443]))
    changes = reader.changed(numbered("svc1", 1, 3, version=2))
    assert changes.ports.keys() == {of("port-1")}
    assert len(changes.ports[of("port-1")].removed) == 3


def test_readers_are_independent() -> None:
    reader = Reader()
    other = reader.cache.cursor()
    assert reader.changed(numbered("svc1", 1, 1))
    assert reader.changed(numbered("svc1", 1, 3, version=2)).ports[of("port-0")].added[0].ip == "10.0.1.2"
    assert len(reader.cache.changes_since(other).ports[of("port-0")].added) == 3


def test_a_garbage_collected_reader_leaves_no_state_behind() -> None:
    reader = Reader()
    other = reader.cache.cursor()
    assert len(reader.cache._cursors) == 2
    del other
    gc.collect()
    assert len(reader.cache._cursors) == 1


def test_memory_of_an_idle_reader_is_bounded_by_the_current_state() -> None:
    """Endpoints that were added and removed leave no trace, for any number of them."""
    reader = Reader(numbered("svc1", 1, 1))
    for version in range(2, 300):
        reader.cache.update(
            endpoint_slice("b", [endpoint(f"10.1.{version % 256}.{version // 256 + 1}")], version=version)
        )
        reader.cache.snapshot()
    assert sum(len(found) for ports in reader.reader._before.values() for found in ports.values()) == 1


def test_a_cursor_of_another_cache_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"create one with cursor\(\)"):
        EndpointSliceCache().changes_since(EndpointSliceCache().cursor())


# --------------------------------------------------------------------------- trigger times

T = [f"2026-01-01T00:00:0{index}Z" for index in range(6)]
SVC2 = ObjectKey("ns1", "svc2")


def seconds(changes: EndpointChanges, service: ObjectKey = SVC1) -> list[float]:
    return [time.second + time.microsecond / 1e6 for time in changes.trigger_times.get(service, ())]


def test_trigger_times_are_kept_in_arrival_order() -> None:
    """C-53: add, and add + update; all slices of a service together, equal ones twice."""
    reader = Reader()
    assert seconds(reader.changed(endpoint_slice("a", triggered=T[1]))) == [1]
    assert seconds(
        reader.changed(
            endpoint_slice("a", triggered=T[3], version=2),
            endpoint_slice("b", triggered=T[2]),
            endpoint_slice("c", triggered=T[2]),
        )
    ) == [3, 2, 2]
    assert seconds(reader.changes()) == []  # C-55: returned once


def test_each_service_has_its_own_trigger_times() -> None:
    """Two services, one of them modified."""
    reader = Reader()
    changes = reader.changed(
        endpoint_slice("a", triggered=T[1]),
        endpoint_slice("b", service="svc2", triggered=T[2]),
        endpoint_slice("a", triggered=T[3], version=2),
    )
    assert (seconds(changes), seconds(changes, SVC2)) == ([1, 3], [2])


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00"]
)
def test_missing_and_invalid_trigger_times_are_ignored(text: str | None) -> None:
    """C-52."""
    changes = Reader().changed(endpoint_slice("a", triggered=text))
    assert changes.services == {SVC1}
    assert changes.trigger_times == {}


@pytest.mark.parametrize(
    ("text", "seconds_past"),
    [
        ("2026-01-01T00:00:01.5Z", 1.5),
        ("2026-01-01T02:00:01+02:00", 1),
        ("2026-01-01T00:00:01.123456789Z", 1.123456),
    ],
)
def test_trigger_times_may_have_fractions_and_time_zones(text: str, seconds_past: float) -> None:
    (time,) = Reader().changed(endpoint_slice("a", triggered=text)).trigger_times[SVC1]
    assert (time - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds() == pytest.approx(seconds_past)


def test_trigger_times_before_the_start_are_ignored() -> None:
    """C-52: strictly after."""
    reader = Reader(started=datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC))
    changes = reader.changed(
        *(endpoint_slice(name, triggered=time) for name, time in zip("abc", T[1:4], strict=True))
    )
    assert seconds(changes) == [3]


def test_a_repeated_trigger_time_of_an_unchanged_slice_is_counted_once() -> None:
    assert seconds(
        Reader().changed(endpoint_slice("a", triggered=T[1]), endpoint_slice("a", triggered=T[1]))
    ) == [1]


def test_deleting_a_slice_discards_all_trigger_times_of_its_service() -> None:
    """C-54: add then delete; add, delete, add; also the times of other slices."""
    reader = Reader()
    reader.changed(endpoint_slice("b"))
    reader.cache.update(endpoint_slice("a", triggered=T[1]))
    reader.cache.update(endpoint_slice("b", triggered=T[2], version=2))
    reader.cache.remove(endpoint_slice("a"))
    assert seconds(reader.changes()) == []
    reader.cache.update(endpoint_slice("a", triggered=T[3]))
    reader.cache.remove(endpoint_slice("a"))
    assert seconds(reader.changed(endpoint_slice("a", triggered=T[4]))) == [4]


def test_deleting_an_unknown_slice_keeps_trigger_times() -> None:
    reader = Reader()
    reader.cache.update(endpoint_slice("a", triggered=T[1]))
    reader.cache.remove(endpoint_slice("unknown", triggered=T[2]))
    assert seconds(reader.changes()) == [1]


# --------------------------------------------------------------------------- connection tracking


@pytest.mark.parametrize(("protocol", "expected"), [("UDP", True), ("TCP", False), ("SCTP", False)])
def test_only_udp_changes_can_leave_stale_flows(protocol: str, expected: bool) -> None:
    """C-56."""
    assert (
        Reader()
        .changed(endpoint_slice("a", [endpoint("1.1.1.1")], [port("p", 1, protocol)]))
        .udp_flows_may_be_stale
        is expected
    )


def test_udp_flows_may_be_stale_if_another_port_of_the_service_changes() -> None:
    """C-56; V10: the two protocols of one name are two ports of one service."""
    given = endpoint_slice("a", [endpoint("1.1.1.1")], [port("dns", 53, "UDP"), port("dns", 53, "TCP")])
    reader = Reader(given)
    assert reader.changed(edited(given, resource_version="2")).udp_flows_may_be_stale
    other = endpoint_slice("b", [endpoint("1.1.1.1")], service="svc2")
    assert not reader.changed(other).udp_flows_may_be_stale


def test_adding_a_udp_port_without_endpoints_leaves_no_stale_flows() -> None:
    """C-30, C-56."""
    assert not Reader().changed(endpoint_slice("a", [], [port("p", 1, "UDP")])).udp_flows_may_be_stale


# --------------------------------------------------------------------------- values


def test_two_states_of_a_service_port_can_be_compared() -> None:
    reader = Reader(numbered("svc1", 1, 3))
    name = of("port-0")
    before = reader.cache.service_endpoints(name)
    assert before.changes_since(before) == PortChanges()
    reader.cache.update(numbered("svc1", 1, 4, unready_every=3, version=2))
    after = reader.cache.service_endpoints(name)
    changes = after.changes_since(before)
    assert addresses(changes.added) == ["10.0.1.4:80"]
    assert [now.address for _, now in changes.changed] == ["10.0.1.3:80"]
    assert before.changes_since(after).removed == changes.added
    assert after.changes_since(ServiceEndpoints(name, "IPv4")).added == after.endpoints
    assert addresses(after.ready) == addresses(after.usable) == ["10.0.1.1:80", "10.0.1.2:80", "10.0.1.4:80"]
