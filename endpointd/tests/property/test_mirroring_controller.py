"""After any sequence of events and failures, the settled slices match their Endpoints.

Endpoints and services are created, changed and deleted; slices are edited externally; writes fail, or succeed
and report a failure; watches lag, and a process restarts. All with the real controller, stores and queue.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.controllers.mirroring.world import (
    ADMIN,
    HTTP,
    MANAGED_BY,
    OURS,
    SERVICE_NAME,
    World,
    change,
    labels_of,
    make_endpoints,
    make_plain_service,
    members,
    refusal,
    subset,
)

from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    Endpoint,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForZone,
)
from aiokube.api.endpoints import ENDPOINTS, EndpointSubset
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.client.errors import RequestTimedOutError
from aiokube.testing.builders import make_service
from aiokube.testing.memory_server import Verb
from endpointd.controllers.mirroring.controller import MirroringSettings
from endpointd.controllers.mirroring.desired import is_mirrorable, mirror
from endpointd.controllers.mirroring.plan import plan_mirror

R = TypeVar("R")

NAMES = ["web", "db"]
LIMIT = 3
SUBSETS: list[EndpointSubset] = [
    subset("10.0.0.1", "10.0.0.2"),
    subset("10.0.0.1", not_ready=["10.0.0.3"]),
    subset("10.0.0.2", ports=(ADMIN,)),
    subset("10.0.0.1", ports=(HTTP, ADMIN)),
    subset("10.0.0.4", "fd00::1"),
    subset("fd00::2", ports=(ADMIN,)),
    subset("10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "nonsense"),
    subset("10.0.0.9", ports=()),
]
SKIP = {"endpointslice.kubernetes.io/skip-mirror": "true"}
LEADER = {"control-plane.alpha.kubernetes.io/leader": ""}

Edit = Callable[[EndpointSlice], EndpointSlice]
EDITS: list[Edit] = [
    lambda p: change(p, endpoints=None),
    lambda p: change(p, endpoints=members(p)[:1]),
    lambda p: change(p, endpoints=(*members(p), *members(p)[:1])),
    lambda p: change(p, endpoints=(*members(p)[:1], Endpoint(addresses=("10.66.6.6",)))),
    lambda p: change(p, ports=(EndpointPort(name="odd", port=7, protocol="TCP"),)),
    lambda p: change(p, labels={**labels_of(p), "odd": "yes"}),
    lambda p: change(p, labels={**labels_of(p), MANAGED_BY: "somebody"}),
    lambda p: change(p, labels={**labels_of(p), MANAGED_BY: OURS}),
    lambda p: change(p, labels={**labels_of(p), SERVICE_NAME: "db"}),
    lambda p: change(p, labels={**labels_of(p), SERVICE_NAME: "nobody"}),
    lambda p: change(p, annotations={"odd": "yes"}),
    lambda p: change(p, owner_references=None),
    lambda p: change(p, finalizers=("example.com/hold",)),
]
ERRORS = [
    RequestTimedOutError("no answer"),
    refusal(500, "InternalError", "broken"),
    refusal(409, "Conflict", "changed"),
    refusal(404, "NotFound", "404 page not found"),
    refusal(422, "Invalid", "no"),
]


def _with_hints(body: Any) -> Any:
    """A mutating webhook that adds unwanted hints to every write."""
    if not isinstance(body, EndpointSlice):
        return body
    hints = EndpointHints(for_zones=(ForZone("webhook"),))
    hinted = tuple(msgspec.structs.replace(one, hints=hints) for one in body.endpoints or ())
    return change(body, endpoints=hinted, labels={**labels_of(body), "webhook": "was-here"})


def _with_weights(body: Any) -> Any:
    """A newer server with an unknown field and a default for it."""
    if not isinstance(body, EndpointSlice):
        return body
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(body))
    for endpoint in document["endpoints"] or ():
        endpoint.setdefault("weight", 1)
    return ENDPOINT_SLICES.decode(msgspec.json.encode(document))


class MirroringMachine(RuleBasedStateMachine):
    """A cluster with two services whose Endpoints are hand-written."""

    @initialize(
        at_once=st.sampled_from([1, 8]),
        metadata_only=st.booleans(),
        admission=st.sampled_from([None, _with_hints, _with_weights]),
    )
    def start(self, at_once: int, metadata_only: bool, admission: Callable[[Any], Any] | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.world = World(MirroringSettings(max_endpoints_per_subset=LIMIT, max_concurrent_writes=at_once))
        self.world.server.metadata_only = metadata_only
        self.world.server.admission = admission
        self.world.put_service(make_plain_service())
        self.world.put(make_endpoints(SUBSETS[0]), seen=False)
        self.world.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(work)

    # ------------------------------------------------------------------------------------ the cluster

    @rule(
        name=st.sampled_from(NAMES),
        subsets=st.lists(st.sampled_from(SUBSETS), max_size=3),
        labels=st.sampled_from([None, {"app": "x"}, {SERVICE_NAME: "other", MANAGED_BY: "other"}, SKIP]),
        annotations=st.sampled_from([None, {"note": "x"}, {"note": "y"}, LEADER]),
        seen=st.booleans(),
    )
    def write_endpoints(
        self,
        name: str,
        subsets: list[EndpointSubset],
        labels: dict[str, str] | None,
        annotations: dict[str, str] | None,
        seen: bool,
    ) -> None:
        item = make_endpoints(*subsets, name=name, labels=labels, annotations=annotations)
        self.world.put(item, seen=seen)

    @rule(name=st.sampled_from(NAMES), again=st.booleans(), seen=st.booleans())
    def delete_endpoints(self, name: str, again: bool, seen: bool) -> None:
        item = self.world.server.objects(ENDPOINTS).get(ObjectKey("default", name))
        if item is not None:
            self.world.remove(item, seen=seen)
            if again:
                self.world.put(change(item, uid=""), seen=seen)

    @rule(name=st.sampled_from(NAMES), selected=st.booleans())
    def write_service(self, name: str, selected: bool) -> None:
        self.world.put_service(make_service(name) if selected else make_plain_service(name))

    @rule(name=st.sampled_from(NAMES))
    def delete_service(self, name: str) -> None:
        if ObjectKey("default", name) in self.world.server.services:
            self.world.remove_service(name)

    # ------------------------------------------------------------------------------------ external edits

    def pick(self, place: int) -> EndpointSlice | None:
        found = sorted(self.world.server.objects(ENDPOINT_SLICES).items())
        return found[place % len(found)][1] if found else None

    @rule(place=st.integers(0, 20), edit=st.sampled_from(EDITS), seen=st.booleans())
    def edit_externally(self, place: int, edit: Edit, seen: bool) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None and not endpoint_slice.metadata.name.startswith("foreign-"):
            self.world.server.update_foreign(ENDPOINT_SLICES, edit(endpoint_slice))
            if seen:
                self.world.watch()

    @rule(place=st.integers(0, 20), seen=st.booleans())
    def delete_slice(self, place: int, seen: bool) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None:
            self.world.remove(endpoint_slice, seen=seen)

    @rule(place=st.integers(0, 20))
    def copy_slice(self, place: int) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None and endpoint_slice.metadata.deletion_timestamp is None:
            copy = change(
                endpoint_slice, name="", uid="", resource_version="", generate_name="copy-", finalizers=None
            )
            self.world.server.create_foreign(ENDPOINT_SLICES, copy)

    @rule(name=st.sampled_from([*NAMES, "nobody"]), manager=st.sampled_from([OURS, "somebody"]))
    def make_slice(self, name: str, manager: str) -> None:
        metadata = ObjectMeta(
            generate_name="copy-" if manager == OURS else "foreign-",
            namespace="default",
            labels={SERVICE_NAME: name, MANAGED_BY: manager},
        )
        endpoint_slice = EndpointSlice(
            metadata=metadata, address_type="FQDN", endpoints=(Endpoint(("example.com",)),)
        )
        self.world.server.create_foreign(ENDPOINT_SLICES, endpoint_slice)

    # ---------------------------------------------------------------------------------- faults and time

    @rule(
        error=st.sampled_from(ERRORS),
        verb=st.sampled_from([None, "get", "create", "update", "delete"]),
        acts=st.booleans(),
        times=st.integers(1, 3),
    )
    def fail(self, error: Exception, verb: Verb | None, acts: bool, times: int) -> None:
        self.world.server.fail_next(error, verb=verb, acts=acts, times=times)

    @rule()
    def work(self) -> None:
        self.run(self.world.work())

    @rule(count=st.integers(1, 3))
    def watch_some_slices(self, count: int) -> None:
        self.world.server.feed(ENDPOINT_SLICES, self.world.slices, count)

    @rule(count=st.integers(1, 3))
    def watch_some_endpoints(self, count: int) -> None:
        self.world.server.feed(ENDPOINTS, self.world.endpoints, count)

    @rule()
    def relist(self) -> None:
        server = self.world.server
        self.world.slices.replace(server.objects(ENDPOINT_SLICES).values(), server.resource_version)

    @rule(seconds=st.sampled_from([0.1, 1.0, 100.0]))
    def advance(self, seconds: float) -> None:
        self.world.clock.now += seconds

    @rule()
    def restart(self) -> None:
        self.world = self.world.restarted()

    @rule()
    def come_to_rest(self) -> None:
        """End the faults and let everything catch up: then the slices are correct and no write follows."""
        world = self.world
        world.server.heal()
        self.run(world.rest())
        for endpoint_slice in world.server.objects(ENDPOINT_SLICES).values():
            if endpoint_slice.metadata.finalizers:
                world.server.update_foreign(ENDPOINT_SLICES, change(endpoint_slice, finalizers=None))
        self.run(world.rest())
        world.writes()
        world.clock.now += 1000.0
        self.run(world.rest())
        assert world.writes() == [], "writes although settled"
        endpoint_slices = world.server.objects(ENDPOINT_SLICES)
        assert {
            endpoint_slice.metadata.key: endpoint_slice for endpoint_slice in world.slices.values()
        } == endpoint_slices
        for name in (*NAMES, "nobody"):
            self.check(name)

    def check(self, name: str) -> None:
        """Compare one name with the result computed from all objects."""
        world, key = self.world, ObjectKey("default", name)
        assert world.controller.audit(key) is None
        slices = [p for p in world.slices_of(name) if p.metadata.deletion_timestamp is None]
        service, item = world.server.services.get(key), world.server.objects(ENDPOINTS).get(key)
        if service is None or service.selector is not None or item is None or not is_mirrorable(item):
            assert slices == []
            return
        mirrored = mirror(item, LIMIT)
        sent = {p.metadata.name: one for p in slices if (one := world.controller._writes.sent_for(p))}
        assert plan_mirror(item, mirrored, slices, sent).is_empty
        assert len(slices) == len(mirrored.groups)
        assert world.published(name).keys() == {
            endpoint.addresses[0] for group in mirrored.groups for endpoint in group.endpoints
        }

    # -------------------------------------------------------------------------------------- invariants

    @invariant()
    def other_managers_slices_are_not_touched(self) -> None:
        for call in self.world.server.calls:
            if call.verb in ("update", "delete"):
                assert call.key.name.startswith(("web-", "db-", "copy-")), call

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.come_to_rest()
            finally:
                self.loop.close()


TestMirroring = MirroringMachine.TestCase
TestMirroring.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
