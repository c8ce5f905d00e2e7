"""After any sequence of events, the slices become correct, and incremental state equals a rebuild.

Pods, services and nodes are created, changed and deleted; slices are edited externally; writes fail, or
succeed and report a failure; the watch lags. All with the real controller, store and queue.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.slice_invariants import slice_violations
from tests.support.slice_world import SliceWorld

from aiokube.api.core import NamedPort, Service
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    EndpointHints,
    EndpointPort,
    EndpointSlice,
    ForZone,
)
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.status import Status
from aiokube.client.errors import RequestTimedOutError, api_error
from aiokube.testing.builders import (
    edited,
    make_endpoint,
    make_node,
    make_owner,
    make_pod,
    make_service,
    make_service_port,
    make_slice,
)
from aiokube.testing.memory_server import MemoryServer, Verb
from endpointd.controllers.endpointslice.controller import EndpointSliceSettings

pytestmark = pytest.mark.timeout(300)  # takes more than a minute on a busy machine

R = TypeVar("R")

PODS = [f"pod-{number}" for number in range(7)]
SERVICES = ["web", "api"]
NODES = ["node-1", "node-2"]
ADDRESSES: dict[str, Callable[[int], tuple[str, ...]]] = {
    "one": lambda number: (f"10.0.0.{number + 1}",),
    "both": lambda number: (f"10.0.0.{number + 1}", f"fd00::{number + 1}"),
    "shared": lambda number: ("10.0.0.99",),
    "none": lambda number: ("",),
}
PORTS = {
    "number": (make_service_port(80, 8080),),
    "other": (make_service_port(80, 9090),),
    "named": (make_service_port(80, "http"), make_service_port(81, 81, name="x")),
    "none": (),
}


def _strip(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, endpoints=None)


def _double(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(
        endpoint_slice,
        endpoints=(*(endpoint_slice.endpoints or ()), *(endpoint_slice.endpoints or ())[:1]) or None,
    )


def _reverse(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, endpoints=(endpoint_slice.endpoints or ())[::-1] or None)


def _add_stranger(endpoint_slice: EndpointSlice) -> EndpointSlice:
    stranger = make_endpoint(make_pod("stranger", "10.9.9.9"))
    return edited(endpoint_slice, endpoints=(*(endpoint_slice.endpoints or ())[:1], stranger))


def _unready(endpoint_slice: EndpointSlice) -> EndpointSlice:
    changed = tuple(
        msgspec.structs.replace(endpoint, conditions=msgspec.structs.replace(endpoint.conditions, ready=None))
        for endpoint in endpoint_slice.endpoints or ()
    )
    return edited(endpoint_slice, endpoints=changed or None)


def _label(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, labels={**(endpoint_slice.metadata.labels or {}), "odd": "yes"})


def _disown(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, owner_references=None)


def _give_away(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(
        endpoint_slice, labels={**(endpoint_slice.metadata.labels or {}), MANAGED_BY_LABEL: "somebody"}
    )


def _hand_over(endpoint_slice: EndpointSlice) -> EndpointSlice:
    other = (
        "api" if (endpoint_slice.metadata.labels or {}).get("kubernetes.io/service-name") == "web" else "web"
    )
    return edited(
        endpoint_slice, labels={**(endpoint_slice.metadata.labels or {}), "kubernetes.io/service-name": other}
    )


def _other_ports(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, ports=(EndpointPort(name="z", protocol="TCP", port=7),))


def _no_ports(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, ports=None)


def _annotate(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, annotations={"note": "mine"})


def _hold(endpoint_slice: EndpointSlice) -> EndpointSlice:
    return edited(endpoint_slice, finalizers=("example.com/hold",))


def _with_hints(body: EndpointSlice) -> EndpointSlice:
    """A mutating webhook that adds unwanted hints to every write."""
    hints = EndpointHints(for_zones=(ForZone("webhook"),))
    hinted = [msgspec.structs.replace(endpoint, hints=hints) for endpoint in body.endpoints or ()]
    return edited(body, endpoints=tuple(hinted))


def _with_weights(body: EndpointSlice) -> EndpointSlice:
    """A newer server with an unknown field and a default for it."""
    document = msgspec.json.decode(ENDPOINT_SLICES.encode(body))
    for endpoint in document["endpoints"] or ():
        endpoint.setdefault("weight", 1)
    return ENDPOINT_SLICES.decode(msgspec.json.encode(document))


EDITS: list[Callable[[EndpointSlice], EndpointSlice]] = [
    _strip,
    _double,
    _reverse,
    _add_stranger,
    _unready,
    _label,
    _disown,
    _give_away,
    _hand_over,
    _other_ports,
    _no_ports,
    _annotate,
    _hold,
]

ERRORS = [
    RequestTimedOutError("no answer"),
    api_error(Status(code=500, message="broken")),
    api_error(Status(code=409, reason="Conflict", message="changed")),
    api_error(Status(code=404, message="404 page not found")),
]


class SlicesMachine(RuleBasedStateMachine):
    """A cluster with two services."""

    @initialize(
        limit=st.integers(1, 4),
        at_once=st.sampled_from([1, 8]),
        metadata_only=st.booleans(),
        admission=st.sampled_from([None, _with_hints, _with_weights]),
    )
    def start(
        self,
        limit: int,
        at_once: int,
        metadata_only: bool,
        admission: Callable[[EndpointSlice], EndpointSlice] | None,
    ) -> None:
        self.limit = limit
        server = MemoryServer()
        server.metadata_only = metadata_only
        server.admission = admission
        self.loop = asyncio.new_event_loop()
        self.world = SliceWorld(
            settings=EndpointSliceSettings(max_endpoints_per_slice=limit, max_concurrent_writes=at_once),
            server=server,
        )
        self.uids = 0
        self.world.put(
            make_node("node-1"),
            make_service("web"),
            *(make_pod(name, f"10.1.0.{number + 1}") for number, name in enumerate(PODS[:3])),
        )
        self.world.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(work)

    # ------------------------------------------------------------------------------------ the cluster

    @rule(
        number=st.integers(0, len(PODS) - 1),
        addresses=st.sampled_from(["one", "one", "one", "both", "shared", "none"]),
        ready=st.booleans(),
        terminating=st.sampled_from([False, False, False, True]),
        phase=st.sampled_from(["Running", "Running", "Running", "Running", "Failed"]),
        node=st.sampled_from(["node-1", "node-1", "node-1", "node-2", "nowhere"]),
        http=st.sampled_from([None, 8080, 8081]),
        app=st.sampled_from(["web", "web", "web", "web", "api", "none"]),
        hostname=st.sampled_from(["", "", "host"]),
    )
    def put_pod(
        self,
        number: int,
        addresses: str,
        ready: bool,
        terminating: bool,
        phase: str,
        node: str,
        http: int | None,
        app: str,
        hostname: str,
    ) -> None:
        self.world.put(
            make_pod(
                PODS[number],
                *ADDRESSES[addresses](number),
                ready=ready,
                terminating=terminating,
                phase=phase,
                node_name=node,
                labels={"app": app},
                hostname=hostname,
                subdomain="web" if hostname else "",
                named_ports=(NamedPort("http", "TCP", http),) if http else (),
            )
        )

    @rule(numbers=st.sets(st.integers(0, len(PODS) - 1), max_size=5), ready=st.booleans())
    def flip_pods(self, numbers: set[int], ready: bool) -> None:
        pods = [self.world.pods.get(ObjectKey("default", PODS[number])) for number in sorted(numbers)]
        self.world.put(*(msgspec.structs.replace(pod, ready=ready) for pod in pods if pod is not None))

    @rule()
    def remove_all_pods(self) -> None:
        self.world.remove(*self.world.pods.values())

    @rule(number=st.integers(0, len(PODS) - 1), again=st.booleans())
    def remove_pod(self, number: int, again: bool) -> None:
        pod = self.world.pods.get(ObjectKey("default", PODS[number]))
        if pod is None:
            return
        self.world.remove(pod)
        if again:
            self.uids += 1
            uid = f"{PODS[number]}-{self.uids}"
            self.world.put(
                msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
            )

    @rule(
        name=st.sampled_from(SERVICES),
        app=st.sampled_from(["web", "web", "api", None]),
        ports=st.sampled_from(sorted(PORTS)),
        families=st.sampled_from([("IPv4",), ("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ()]),
        headless=st.booleans(),
        publish=st.booleans(),
        labelled=st.booleans(),
        alias=st.sampled_from([False, False, False, True]),
    )
    def put_service(
        self,
        name: str,
        app: str | None,
        ports: str,
        families: tuple[str, ...],
        headless: bool,
        publish: bool,
        labelled: bool,
        alias: bool,
    ) -> None:
        old = self.world.services.get(ObjectKey("default", name))
        self.world.put(
            make_service(
                name,
                uid=old.metadata.uid if old is not None else self.new_uid(name),
                selector={"app": app} if app else None,
                ports=PORTS[ports],
                ip_families=families,
                cluster_ip="None" if headless else "10.96.0.1",
                publish_not_ready_addresses=publish,
                labels={"tier": "front"} if labelled else {},
                service_type="ExternalName" if alias else "ClusterIP",
            )
        )

    @rule(name=st.sampled_from(SERVICES), again=st.booleans())
    def remove_service(self, name: str, again: bool) -> None:
        service = self.world.services.get(ObjectKey("default", name))
        if service is None:
            return
        self.world.remove(service)
        if again:
            uid = self.new_uid(name)
            self.world.put(
                msgspec.structs.replace(service, metadata=msgspec.structs.replace(service.metadata, uid=uid))
            )

    def new_uid(self, name: str) -> str:
        self.uids += 1
        return f"{name}-{self.uids}"

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from(["zone-a", "zone-b", "", None]))
    def change_node(self, name: str, zone: str | None) -> None:
        if zone is not None:
            self.world.put(make_node(name, zone=zone))
        elif (node := self.world.nodes.get(ObjectKey("", name))) is not None:
            self.world.remove(node)

    # ------------------------------------------------------------------------------------ external edits

    def pick(self, place: int) -> EndpointSlice | None:
        found = sorted(self.world.server.objects(ENDPOINT_SLICES).items())
        return found[place % len(found)][1] if found else None

    @rule(place=st.integers(0, 20), edit=st.sampled_from(EDITS), seen=st.booleans())
    def edit_externally(self, place: int, edit: Callable[[EndpointSlice], EndpointSlice], seen: bool) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None:
            self.world.server.update_foreign(ENDPOINT_SLICES, edit(endpoint_slice))
            if seen:
                self.world.watch()

    @rule(place=st.integers(0, 20))
    def delete_held_slice(self, place: int) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None:
            self.world.server.update_foreign(ENDPOINT_SLICES, _hold(endpoint_slice))
            self.world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)

    @rule(place=st.integers(0, 20), seen=st.booleans())
    def delete_slice(self, place: int, seen: bool) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None:
            self.world.server.delete_foreign(ENDPOINT_SLICES, endpoint_slice.metadata.key)
            if seen:
                self.world.watch()

    @rule(place=st.integers(0, 20))
    def copy_slice(self, place: int) -> None:
        endpoint_slice = self.pick(place)
        if endpoint_slice is not None and endpoint_slice.metadata.deletion_timestamp is None:
            self.world.server.create_foreign(
                ENDPOINT_SLICES, edited(endpoint_slice, name="", generate_name="copy-", finalizers=None)
            )

    @rule(
        name=st.sampled_from(SERVICES),
        address_type=st.sampled_from(["IPv4", "IPv6", "FQDN"]),
        owned=st.booleans(),
    )
    def make_foreign_slice(self, name: str, address_type: str, owned: bool) -> None:
        service = self.world.services.get(ObjectKey("default", name))
        if service is not None:
            endpoint_slice = make_slice(
                service,
                "",
                address_type=address_type,
                owner=make_owner(service) if owned else None,
                owned=owned,
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
    def sync(self) -> None:
        self.run(self.world.sync(limit=50))

    @rule(seconds=st.sampled_from([0.0, 2.0]))
    def catch_up(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.run(self.world.settle())

    @rule(number=st.integers(0, len(PODS) - 1))
    def put_good_pod(self, number: int) -> None:
        self.world.put(make_pod(PODS[number], f"10.1.0.{number + 1}"))
        self.run(self.world.sync())

    @rule(count=st.integers(1, 5))
    def watch_some(self, count: int) -> None:
        self.world.watch(count)

    @rule()
    def relist(self) -> None:
        server = self.world.server
        self.world.slices.replace(server.objects(ENDPOINT_SLICES).values(), server.resource_version)

    @rule(seconds=st.sampled_from([0.1, 1.0, 100.0]))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def come_to_rest(self) -> None:
        """End the faults and let everything catch up: then the slices are correct and no write follows."""
        world = self.world
        world.server.heal()
        for _ in range(4):
            self.run(world.settle())
            world.advance(10_000.0)
        self.run(world.settle())
        self.check_slices()  # including slices that are terminating but held by a finalizer
        for endpoint_slice in world.server.objects(ENDPOINT_SLICES).values():
            if endpoint_slice.metadata.finalizers:
                world.server.update_foreign(ENDPOINT_SLICES, edited(endpoint_slice, finalizers=None))
        self.run(world.settle())
        world.take_writes()
        world.advance(10_000.0)
        self.run(world.settle())
        assert world.take_writes() == [], "writes although settled"
        assert {
            key_of(endpoint_slice): endpoint_slice for endpoint_slice in world.slices.values()
        } == world.server.objects(ENDPOINT_SLICES)
        self.check_slices()

    def check_slices(self) -> None:
        world = self.world
        for service in world.services.values():
            wrong = slice_violations(
                service,
                world.pods.values(),
                self.zone_of,
                world.server.objects(ENDPOINT_SLICES).values(),
                max_endpoints=self.limit,
            )
            assert not wrong, wrong
            self.check_state(service, at_rest=True)

    def zone_of(self, node: str) -> str | None:
        found = self.world.nodes.get(ObjectKey("", node))
        return found.zone if found is not None else None

    # -------------------------------------------------------------------------------------- invariants

    @invariant()
    def state_equals_a_rebuild(self) -> None:
        for service in self.world.services.values():
            self.check_state(service, at_rest=False)

    @invariant()
    def foreign_slices_are_not_touched(self) -> None:
        for call in self.world.server.calls:
            if call.verb in ("update", "delete"):
                assert call.key.name.startswith(("web-", "api-", "copy-")), call

    def check_state(self, service: Service, *, at_rest: bool) -> None:
        controller = self.world.controller
        state = controller.states.by_key.get(key_of(service))
        if state is None or not state.is_complete:
            selects = bool(service.selector) and not service.is_external_name
            assert not selects or self.world.queue.is_pending(key_of(service))
            return
        rebuilt = controller.states.rebuilt(service)
        mine, theirs = state.snapshot(), rebuilt.snapshot()
        for part, value in theirs.items():
            if part.endswith("without a slice") and state.needs_plan:
                # The content of a dirty slice may wait to be claimed by the next plan.
                assert isinstance(value, frozenset)
                assert isinstance(mine[part], frozenset)
                assert value <= mine[part], part  # type: ignore[operator]
            else:
                assert mine[part] == value, part
        if not state.needs_plan or at_rest:
            plan = rebuilt.plan(self.limit, None)
            assert plan.is_empty, "a rebuild would write"
        if not state.needs_plan:
            assert controller.audit(key_of(service)) is None

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.come_to_rest()
            finally:
                self.loop.close()


TestSlices = SlicesMachine.TestCase
TestSlices.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
