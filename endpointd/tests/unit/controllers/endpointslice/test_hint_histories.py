"""Hints after any history match an independent reading of the rules (S-93 to S-96), and every slice is written once."""

import random
from collections import Counter

import msgspec
import pytest

from aiokube.api.core import Node, Pod
from aiokube.api.discovery import EndpointSlice
from aiokube.testing.builders import address_number, make_node, make_pod, make_service
from endpointd.controllers.endpointslice.state import ServicePlan, ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable
from tests.differential.hint_rules import broken_hint_rules
from tests.differential.normalise import Snapshot


class HintedService:
    """A service with topology-aware hints; plans are executed immediately."""

    def __init__(self, nodes: list[Node], max_endpoints: int = 100) -> None:
        self.service = make_service(topology_mode="Auto")
        self.nodes = {node.metadata.name: node for node in nodes}
        self.max_endpoints = max_endpoints
        self.pods: dict[str, Pod] = {}
        self.slices: dict[str, EndpointSlice] = {}
        self.numbers = 0
        self.table = ZoneTable()
        for name, node in self.nodes.items():
            self.table.set_node(name, node)
        self.state = ServiceState.build(
            self.service, lambda name: self.nodes[name].zone, (), (), lambda: self.table.ratios
        )

    def add(self, node: str, count: int = 1, *, ready: bool = True) -> None:
        for _ in range(count):
            self.numbers += 1
            name = f"pod-{self.numbers:04}"
            self.set(name, make_pod(name, address_number(self.numbers), node_name=node, ready=ready))

    def set(self, name: str, pod: Pod | None) -> None:
        self.pods.pop(name, None)
        if pod is not None:
            self.pods[name] = pod
        self.state.set_pod(name, pod)

    def give_cpu(self, name: str, milli: int) -> None:
        node = self.nodes[name] = msgspec.structs.replace(self.nodes[name], allocatable_cpu_milli=milli)
        self.table.set_node(name, node)

    def sync(self) -> ServicePlan:
        plan = self.state.plan(self.max_endpoints, None)
        for _, family in plan.address_type_plans:
            written = [endpoint_slice.metadata.name for endpoint_slice in family.update]
            assert len({*written}) == len(written), "a slice is written twice"
            for endpoint_slice in (*family.create, *family.update):
                self.numbers += 1
                name = endpoint_slice.metadata.name or f"web-{self.numbers:04}"
                metadata = msgspec.structs.replace(endpoint_slice.metadata, name=name)
                self.slices[name] = msgspec.structs.replace(endpoint_slice, metadata=metadata)
                self.state.observe(name, self.slices[name])
            for endpoint_slice in family.delete:
                del self.slices[endpoint_slice.metadata.name]
                self.state.observe(endpoint_slice.metadata.name, None)
            if family.hint_allocation is not None:
                told = {zone: count for zone, count in family.hint_allocation.hinted.items() if count}
                assert told == self.hints, "the reported hints differ from the published ones"
        return plan

    @property
    def hints(self) -> Counter[str]:
        return Counter(
            zone.name
            for endpoint_slice in self.slices.values()
            for endpoint in endpoint_slice.endpoints or ()
            for zone in (endpoint.hints.for_zones if endpoint.hints else None) or ()
        )

    def broken_rules(self, *, rewritten: bool) -> list[str]:
        snapshot = Snapshot.of(slices=self.slices.values(), services=(self.service,))
        return broken_hint_rules(snapshot, [*self.nodes.values()], rewritten=rewritten)


def test_hints_in_a_slice_filled_during_planning_are_counted_once() -> None:
    shares = {"a": 10_000, "b": 4_000, "c": 4_000}
    life = HintedService(
        [make_node(f"node-{z}", zone=f"zone-{z}", allocatable_cpu_milli=cpu) for z, cpu in shares.items()]
    )
    for zone in "abbc":
        life.add(f"node-{zone}")
    life.sync()
    assert life.hints == {"zone-a": 2, "zone-b": 1, "zone-c": 1}
    life.add("node-b")
    life.sync()
    assert life.hints == {"zone-a": 3, "zone-b": 1, "zone-c": 1}


@pytest.mark.parametrize("max_endpoints", [3, 6, 100])
@pytest.mark.parametrize("seed", range(12))
def test_hints_after_any_history_are_within_the_rules(seed: int, max_endpoints: int) -> None:
    chance = random.Random(seed)
    zones = "abcd"[: chance.choice((2, 3, 4))]
    cpu = [chance.choice((1_000, 2_000, 8_000)) for _ in zones]
    nodes = [
        make_node(f"node-{zone}", zone=f"zone-{zone}", allocatable_cpu_milli=milli)
        for zone, milli in zip(zones, cpu, strict=True)
    ]
    life = HintedService(nodes, max_endpoints)
    for _ in range(40):
        if chance.random() < 0.1:
            life.give_cpu(chance.choice(nodes).metadata.name, chance.choice((1_000, 4_000, 16_000)))
        for _ in range(chance.choice((1, 1, 2))):
            what = chance.random()
            if what < 0.5 or not life.pods:
                node = chance.choice(nodes).metadata.name
                life.add(node, chance.choice((1, 1, 2, 5)), ready=chance.random() < 0.85)
                continue
            name = chance.choice(sorted(life.pods))
            pod = life.pods[name]
            life.set(name, msgspec.structs.replace(pod, ready=not pod.ready) if what < 0.8 else None)
        plan = life.sync()
        # If one slice was written, all were, which determines the counts.
        rewritten = max_endpoints == 100 and not plan.is_empty
        assert not life.broken_rules(rewritten=rewritten)
        assert life.sync().is_empty
