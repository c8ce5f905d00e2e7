"""The cost of one pod's change grows neither with its service nor with the number of services: counted, not timed.

``cost_of`` counts a change from the bytes of the watch to the bytes of the writes and their effects: the
store records the response, and the watch reports the write. All counts except calls and memory are exact.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tests.guard.changes import Change, Cost, address, cost_of, edit, flip, gone, irrelevant, new, zone
from tests.guard.counting import Operations, without_collector
from tests.guard.world import SPECIAL_PODS, ChainWorld, ControllerName, PodFacts

from aiokube.api.core import Pod, Service
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.selectors import matches
from aiokube.runtime.store import Store
from endpointd.controllers.endpointslice.address_type_state import AddressTypeState
from endpointd.controllers.endpointslice.controller import EndpointSliceController
from endpointd.controllers.endpointslice.plan import AddressTypePlan
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.membership import Membership

PODS = (100, 1_000, 5_000, 20_000)
SERVICES = (10, 100, 1_000, 10_000)
OVER_CAPACITY = (1_050, 5_000, 20_000)
"""Pods of a service whose Endpoints is not truncated at 1,000 addresses."""
FEW = 100

FLIP_CALLS = 920
"""Four calls for each of the hundred endpoints of the written slice."""
CALLS_BOUND = 1.05
"""Calls do not grow; dictionaries and sets have other sizes, so some loops end earlier or later."""
CALLS_BOUND_OF_ENDPOINTS = 1.10
"""An Endpoints keeps its addresses sorted: a change is a binary search over all pods of the service."""
MEMORY_BOUND = 1.10
MEMORY_SLACK_BYTES = 8_192  # a shared dict may happen to grow; a copy of a large object is more
BYTES_BOUND = 1.02
"""Addresses, node names and versions may have one digit more or less."""

OF_SLICES: dict[str, Change] = {
    "irrelevant": irrelevant,
    "flip": flip,
    "gone": gone,
    "new": new,
    "address": address,
    "zone": zone,
    "edit": edit,
}
OF_ENDPOINTS = {name: OF_SLICES[name] for name in ("irrelevant", "new", "flip", "gone", "address")}

WITH_ROOM = ("flip", "gone", "address", "new")

Costs = Mapping[int, Mapping[str, Cost]]
"""By size, then by change."""


def measured(
    grow: Callable[[int], ChainWorld],
    sizes: Sequence[int],
    changes: Mapping[str, Change],
    fray: Callable[[ChainWorld], bytes] = lambda world: b"",
) -> Costs:
    """Return the cost of each change in a world of each size, made in the same order in each.

    ``fray`` returns watch events to deliver first.
    """

    async def measure() -> Costs:
        found: dict[int, dict[str, Cost]] = {}
        for size in sizes:
            world = await grow(size).start()
            await world.tell(fray(world))
            found[size] = {name: await cost_of(change, world) for name, change in changes.items()}
        return found

    with without_collector():
        return asyncio.run(measure())


def one_service(pods: int, controllers: Sequence[ControllerName] = ("slices",)) -> ChainWorld:
    return ChainWorld(1, pods, controllers=controllers)


def many_services(services: int) -> ChainWorld:
    return ChainWorld(services, 1, pods_of_first=FEW, controllers=("slices", "endpoints"))


@pytest.fixture(scope="module")
def by_pods() -> Costs:
    return measured(one_service, PODS, OF_SLICES)


@pytest.fixture(scope="module")
def with_capacity_everywhere() -> Costs:
    def one_of_each_slice_gone(world: ChainWorld) -> bytes:
        return world.changed(
            *(PodFacts(number) for number in range(50, len(world.pods), 100)), verb="DELETED"
        )

    # New pods come last: they go to an arbitrary slice, but not into the other changes' slice, which is
    # smaller by then.
    changes = {name: OF_SLICES[name] for name in WITH_ROOM}
    return measured(one_service, (1_000, 10_000), changes, one_of_each_slice_gone)


@pytest.fixture(scope="module")
def by_services() -> Costs:
    return measured(many_services, SERVICES, OF_SLICES)


@pytest.fixture(scope="module")
def of_endpoints() -> Costs:
    return measured(lambda pods: one_service(pods, ("endpoints",)), OVER_CAPACITY, OF_ENDPOINTS)


def grown(costs: Costs, change: str, calls_bound: float = CALLS_BOUND) -> list[str]:
    """Return the costs of a change that grow from the smallest size to any other; must be empty."""
    smallest, *others = (costs[size][change] for size in sorted(costs))
    found: list[str] = []
    for size, other in zip(sorted(costs)[1:], others, strict=True):
        if other.operations != smallest.operations:
            found.append(f"operations at {size}: {other.operations} instead of {smallest.operations}")
        if other.writes != smallest.writes:
            found.append(f"writes at {size}: {other.writes} instead of {smallest.writes}")
        for what, bound, slack in (
            ("calls", calls_bound, 0),
            ("planning_bytes", MEMORY_BOUND, MEMORY_SLACK_BYTES),
            ("memory_bytes", MEMORY_BOUND, MEMORY_SLACK_BYTES),
            ("body_bytes", BYTES_BOUND, 0),
        ):
            was, now = getattr(smallest, what), getattr(other, what)
            if now > was * bound + slack:
                found.append(f"{what} at {size}: {now} instead of {was}")
    return found


# ------------------------------------------------------------------------------------------ guarantees


@pytest.mark.parametrize("change", OF_SLICES)
def test_a_change_costs_the_same_in_a_service_of_100_and_of_20000_pods(by_pods: Costs, change: str) -> None:
    assert grown(by_pods, change) == []


@pytest.mark.parametrize("change", WITH_ROOM)
def test_a_change_costs_the_same_if_every_slice_has_capacity(
    with_capacity_everywhere: Costs, change: str
) -> None:
    assert grown(with_capacity_everywhere, change) == []


@pytest.mark.parametrize("change", OF_SLICES)
def test_a_change_costs_the_same_among_10_and_10000_services(by_services: Costs, change: str) -> None:
    assert grown(by_services, change) == []


@pytest.mark.parametrize("change", OF_ENDPOINTS)
def test_an_endpoints_write_costs_the_same_beyond_1000_addresses(of_endpoints: Costs, change: str) -> None:
    assert grown(of_endpoints, change, CALLS_BOUND_OF_ENDPOINTS) == []


def test_an_irrelevant_change_ends_in_the_store(by_pods: Costs, by_services: Costs) -> None:
    for costs in (*by_pods.values(), *by_services.values()):
        cost = costs["irrelevant"]
        assert cost.operations == Operations(
            pods_examined=0, endpoints_compared=0, slices_looked_at=0, plans=0
        )
        assert cost.writes == ()
        assert cost.calls < 100


def test_a_readiness_flip_stays_within_its_call_budget(by_pods: Costs) -> None:
    """Python and C calls from the watch event to the write and its echo, including the in-memory server. Raise it only knowingly."""
    assert {
        size: cost["flip"].calls for size, cost in by_pods.items() if cost["flip"].calls > FLIP_CALLS
    } == {}


@pytest.mark.parametrize("change", sorted(OF_SLICES.keys() - {"irrelevant"}))
def test_a_change_of_one_pod_writes_one_slice(by_pods: Costs, change: str) -> None:
    for costs in by_pods.values():
        assert costs[change].writes == (("update", "endpointslices"),)


@pytest.mark.parametrize("change", sorted(OF_ENDPOINTS.keys() - {"irrelevant"}))
def test_a_change_of_one_pod_writes_one_slice_and_one_endpoints(by_services: Costs, change: str) -> None:
    for costs in by_services.values():
        assert sorted(costs[change].writes) == [("update", "endpoints"), ("update", "endpointslices")]


def test_only_changed_endpoints_are_compared(by_pods: Costs) -> None:
    for costs in by_pods.values():
        examined = {name: cost.operations.pods_examined for name, cost in costs.items()}
        assert examined == {
            "irrelevant": 0,
            "flip": 1,
            "gone": 0,
            "new": 1,
            "address": 1,
            "zone": SPECIAL_PODS,
            "edit": 0,
        }
        assert all(cost.operations.plans == 1 for name, cost in costs.items() if name != "irrelevant")
        assert all(cost.operations.slices_looked_at <= 2 for cost in costs.values())
        # The endpoints of one slice are compared when it is planned and again when it is recorded; changed
        # ones a third time.
        assert all(
            cost.operations.endpoints_compared <= 2 * FEW + 2 * SPECIAL_PODS for cost in costs.values()
        )


def test_only_the_written_slice_is_encoded_and_only_once(by_pods: Costs) -> None:
    of_one_slice = by_pods[FEW]["flip"].body_bytes
    assert of_one_slice < 26_000  # 100 endpoints
    for costs in by_pods.values():
        assert max(cost.body_bytes for cost in costs.values()) <= of_one_slice * 1.05


# ------------------------------------------------------------------------- these tests detect violations


def touch_everything(patch: pytest.MonkeyPatch) -> None:
    set_desired = AddressTypeState.set_desired

    def careless(self: AddressTypeState, *args: Any) -> None:
        set_desired(self, *args)
        self._dirty.update(self._slices)

    patch.setattr(AddressTypeState, "set_desired", careless)


def examine_the_whole_service(patch: pytest.MonkeyPatch) -> None:
    pod_changed = EndpointSliceController.pod_changed

    def as_upstream(self: EndpointSliceController, service: ObjectKey, *args: Any) -> None:
        pod_changed(self, service, *args)
        state = self.states.by_key[service]
        for pod in self._membership.pods_of(service):
            state.set_pod(pod.metadata.name, pod)

    patch.setattr(EndpointSliceController, "pod_changed", as_upstream)


def write_unchanged_slices(patch: pytest.MonkeyPatch) -> None:
    plan = ServiceState.plan

    def generous(self: ServiceState, *args: Any) -> Any:
        found = plan(self, *args)
        for number, (family, one) in enumerate(found.address_type_plans):
            if one.update:
                every = tuple(observed.slice for observed in family._slices.values())
                found.address_type_plans[number] = (
                    family,
                    AddressTypePlan(update=(*one.update, *every[len(one.update) :])),
                )
        return found

    patch.setattr(ServiceState, "plan", generous)


def copy_the_store(patch: pytest.MonkeyPatch) -> None:
    apply = Store.apply

    def copying(self: Store[Any], batch: Any) -> None:
        before = self.values()
        apply(self, batch)
        del before

    patch.setattr(Store, "apply", copying)


def try_all_selectors(patch: pytest.MonkeyPatch) -> None:
    def services_of(self: Membership, pod: Pod) -> list[ObjectKey]:
        def selects(service: Service) -> bool:
            return matches(service.selector or {}, pod.labels)

        return [key_of(service) for service in self._services.values() if selects(service)]

    patch.setattr(Membership, "services_of", services_of)


Mistake = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("mistake", "seen"),
    [
        (touch_everything, "slices_looked_at"),
        (examine_the_whole_service, "pods_examined"),
        (write_unchanged_slices, "writes"),
        (copy_the_store, "planning_bytes"),
    ],
)
def test_a_cost_that_grows_with_the_service_is_detected(
    mistake: Mistake, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    costs = measured(one_service, (100, 4_000), {"flip": flip})
    assert any(seen in line for line in grown(costs, "flip"))


def test_a_cost_that_grows_with_the_number_of_services_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    try_all_selectors(monkeypatch)
    costs = measured(many_services, (10, 300), {"flip": flip})
    assert any("calls" in line for line in grown(costs, "flip"))
