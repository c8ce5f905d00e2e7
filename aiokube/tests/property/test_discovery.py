"""After any changes of slices, the cache agrees with the rules (consumer rules C-11 to C-40, C-48, C-57 to C-63).

The model computes the expected result from scratch each time: ``aiokube/tests/unit/discovery/model.py``.
"""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.discovery.model import Map, fact_of, map_of, model_map, model_selection

from aiokube.api.discovery import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
)
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import WatchEvent
from aiokube.discovery import (
    Cursor,
    EndpointSliceCache,
    EndpointView,
    Location,
    TrafficPolicy,
    select,
)
from aiokube.runtime.store import Store

NODES, ZONES = ("n1", "n2"), ("a", "b")
SLICES, SERVICES = ("s1", "s2", "s3"), ("web", "api")

# ------------------------------------------------------------------------------------------ arbitrary slices

CONDITION = st.sampled_from([None, True, False])
IPS = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.10", "10.0.0.3"])
HINTS = st.none() | st.builds(
    EndpointHints,
    for_zones=st.none() | st.lists(st.sampled_from(ZONES).map(ForZone), max_size=2).map(tuple),
    for_nodes=st.none() | st.lists(st.sampled_from(NODES).map(ForNode), max_size=1).map(tuple),
)
ENDPOINTS = st.builds(
    Endpoint,
    addresses=st.lists(IPS, max_size=2).map(tuple),
    conditions=st.builds(EndpointConditions, ready=CONDITION, serving=CONDITION, terminating=CONDITION),
    node_name=st.none() | st.sampled_from(NODES),
    hints=HINTS,
)
PORTS = st.builds(
    EndpointPort,
    name=st.sampled_from([None, "", "http"]),
    protocol=st.sampled_from([None, "TCP", "UDP"]),
    port=st.sampled_from([None, 0, 80, 8080]),
)


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "service": draw(st.sampled_from((*SERVICES, ""))),
        "family": draw(st.sampled_from(["IPv4", "IPv4", "IPv4", "IPv6"])),
        "endpoints": tuple(draw(st.lists(ENDPOINTS, max_size=4))),
        "ports": tuple(draw(st.lists(PORTS, max_size=3))),
    }


def slice_of(name: str, version: int, what: dict[str, Any], uid: str = "") -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            labels={SERVICE_NAME_LABEL: what["service"]} if what["service"] else None,
        ),
        address_type=what["family"],
        endpoints=what["endpoints"],
        ports=what["ports"],
    )


class Histories(RuleBasedStateMachine):
    """Slices are written, deleted, repeated; readers read changes or snapshots at random."""

    @initialize()
    def begin(self) -> None:
        self.cache = EndpointSliceCache()
        self.slices: dict[str, EndpointSlice] = {}
        self.version = 0
        self.cursors: list[tuple[Cursor, Map]] = [(self.cache.cursor(), {})]

    @rule(name=st.sampled_from(SLICES), what=contents())
    def write(self, name: str, what: dict[str, Any]) -> None:
        self.version += 1
        self.slices[name] = slice_of(name, self.version, what)
        self.cache.update(self.slices[name])

    @rule(name=st.sampled_from(SLICES))
    def delete(self, name: str) -> None:
        endpoint_slice = self.slices.pop(name, None)
        if endpoint_slice is not None:
            self.version += 1
            last = msgspec.structs.replace(endpoint_slice.metadata, resource_version=str(self.version))
            self.cache.remove(msgspec.structs.replace(endpoint_slice, metadata=last))

    @rule(name=st.sampled_from(SLICES))
    def redeliver(self, name: str) -> None:
        if name in self.slices:
            assert not self.cache.update(msgspec.structs.replace(self.slices[name]))

    @rule()
    def add_cursor(self) -> None:
        if len(self.cursors) < 3:
            self.cursors.append((self.cache.cursor(replay=False), map_of(self.cache)))

    @rule(which=st.integers(0, 2))
    def read_changes(self, which: int) -> None:
        """The changes, applied to the previous state, give the current one; no change is spurious."""
        if which >= len(self.cursors):
            return
        reader, known = self.cursors[which]
        changes = self.cache.changes_since(reader)
        known = {name: dict(found) for name, found in known.items()}
        for name, found in changes.ports.items():
            assert name.service_key in changes.services
            assert found
            before = known.setdefault(name, {})
            for each in found.added:
                assert each.address not in before
                before[each.address] = fact_of(each)
            for was, now in found.changed:
                assert before[was.address] == fact_of(was) != fact_of(now)
                before[now.address] = fact_of(now)
            for each in found.removed:
                assert before.pop(each.address) == fact_of(each)
        known = {name: found for name, found in known.items() if found}
        assert known == model_map(self.slices, "IPv4")
        assert not self.cache.changes_since(reader)
        self.cursors[which] = (reader, known)

    @rule()
    def read_snapshot(self) -> None:
        """C-39, C-30: in order, and no port without endpoints."""
        assert map_of(self.cache) == model_map(self.slices, "IPv4")
        for name, found in self.cache.snapshot().items():
            assert found
            assert [each.address for each in found] == sorted(each.address for each in found)
            assert self.cache.endpoints(name) == found

    @invariant()
    def deleted_slices_leave_no_state(self) -> None:
        if not self.slices:
            assert self.cache.statistics().slices == self.cache.statistics().services == 0


Histories.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_any_history_of_slices_is_reported_as_the_model_predicts = Histories.TestCase


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SLICES), contents()), max_size=6), st.randoms(use_true_random=False)
)
def test_the_result_does_not_depend_on_the_order_of_events(
    written: list[tuple[str, dict[str, Any]]], chance: Any
) -> None:
    """C-36 with a deterministic choice."""
    last = {name: slice_of(name, 1, what) for name, what in written}
    orders = []
    for _ in range(3):
        names = list(last)
        chance.shuffle(names)
        cache = EndpointSliceCache()
        for name in names:
            cache.update(last[name])
            if chance.random() < 0.5:
                cache.snapshot()
        orders.append(cache.snapshot())
    assert orders[0] == orders[1] == orders[2]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_relist_corrects_reordered_duplicated_and_lost_events(data: st.DataObject) -> None:
    """The store keeps versions in order; the next list restores missed events. The cache follows."""
    store: Store[EndpointSlice] = Store("slices")
    cache = EndpointSliceCache()
    store.subscribe(cache.handle)
    reader = cache.cursor()
    store.replace([], "1")
    truth: dict[str, EndpointSlice] = {}
    events: list[WatchEvent[EndpointSlice]] = []
    version = 1
    for name, what in data.draw(
        st.lists(st.tuples(st.sampled_from(SLICES), st.none() | contents()), max_size=8)
    ):
        version += 1
        if what is None:
            gone = truth.pop(name, None)
            if gone is not None:
                last = msgspec.structs.replace(gone.metadata, resource_version=str(version))
                events.append(WatchEvent("DELETED", msgspec.structs.replace(gone, metadata=last)))
        else:
            truth[name] = slice_of(name, version, what)
            events.append(WatchEvent("MODIFIED", truth[name]))
    doubled = data.draw(st.permutations([*events, *events[::2]]))
    for event in doubled:
        if data.draw(st.booleans()):
            store.apply([event])
        cache.snapshot()
    store.replace(list(truth.values()), str(version))
    assert map_of(cache) == model_map(truth, "IPv4")
    changes = cache.changes_since(reader)
    told = {name: [each.address for each in found.added] for name, found in changes.ports.items()}
    assert told == {name: sorted(found) for name, found in model_map(truth, "IPv4").items()}


VIEWS = st.builds(
    EndpointView,
    ip=st.integers(1, 250).map(lambda number: f"10.0.0.{number}"),
    port=st.just(80),
    ready=st.booleans(),
    serving=st.booleans(),
    terminating=st.booleans(),
    node_name=st.sampled_from(["", *NODES]),
    zone_hints=st.frozensets(st.sampled_from(ZONES), max_size=2),
    node_hints=st.frozensets(st.sampled_from(NODES), max_size=2),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(VIEWS, max_size=6, unique_by=lambda view: view.ip),
    st.builds(
        TrafficPolicy,
        internal_local=st.booleans(),
        external_local=st.booleans(),
        externally_accessible=st.booleans(),
    ),
    st.builds(Location, st.sampled_from(["", *NODES]), st.sampled_from(["", *ZONES])),
)
def test_endpoint_selection_agrees_with_the_model(
    views: list[EndpointView], policy: TrafficPolicy, location: Location
) -> None:
    found = select(views, policy, location)
    cluster, local, reachable, has_any = model_selection(views, policy, location)
    assert (None if found.cluster is None else [each.address for each in found.cluster]) == cluster
    assert (None if found.local is None else [each.address for each in found.local]) == local
    assert {each.address for each in found.all_reachable} == reachable
    assert len(found.all_reachable) == len(reachable)
    assert found.has_any is has_any


def test_the_model_detects_a_cache_that_prefers_terminating_endpoints() -> None:
    """The property test detects a cache that prefers terminating endpoints."""
    dying = Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=False, terminating=True))
    alive = Endpoint(addresses=("10.0.0.1",))
    ports = (EndpointPort(name="http", protocol="TCP", port=80),)
    what = {"service": "web", "family": "IPv4", "ports": ports}
    slices = {
        "s1": slice_of("s1", 1, {**what, "endpoints": (alive,)}),
        "s2": slice_of("s2", 1, {**what, "endpoints": (dying,)}),
    }
    (found,) = model_map(slices, "IPv4").values()
    assert found["10.0.0.1:80"][4] is False
    assert ObjectKey("ns", "web") == next(iter(model_map(slices, "IPv4"))).service_key
