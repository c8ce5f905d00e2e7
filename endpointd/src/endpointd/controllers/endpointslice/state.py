"""The desired and observed state of one service over all its address types, updated at the cost of each change.

The state always equals one rebuilt from the listers, and so does its plan.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from aiokube.api.core import Labels, Pod, Service
from aiokube.api.discovery import Endpoint, EndpointSlice
from aiokube.api.selectors import matches
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps, run_at_once
from endpointd.controllers.endpointslice.address_type_state import AddressTypeState
from endpointd.controllers.endpointslice.desired import (
    DesiredEndpoint,
    PodTranslator,
    PortSet,
    ZoneOf,
)
from endpointd.controllers.endpointslice.distribution import topology_aware
from endpointd.controllers.endpointslice.hints import HintEvent, HintStatus
from endpointd.controllers.endpointslice.plan import AddressTypePlan, plan_address_type
from endpointd.controllers.endpointslice.service_counts import ServiceCounts
from endpointd.controllers.endpointslice.topology import RatiosOf
from endpointd.controllers.pods import rejection_of
from endpointd.controllers.trigger_time import TriggerTimes


class ServicePlan:
    """The plans of a service by address type, and the slices of unwanted types (S-22)."""

    __slots__ = ("address_type_plans", "strays", "trigger_time")

    def __init__(
        self,
        address_type_plans: list[tuple[AddressTypeState, AddressTypePlan]],
        strays: list[EndpointSlice],
        trigger_time: str | None,
    ) -> None:
        self.address_type_plans = address_type_plans
        self.strays = strays
        self.trigger_time = trigger_time

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not self.strays and all(plan.is_empty for _, plan in self.address_type_plans)


class ServiceState:
    """The state of one service with a selector, over all its address types.

    A new state is incomplete: :meth:`fill` loads pods and slices in steps. Changes may be applied at any
    time, in any order with the steps; a plan requires a complete state.
    """

    def __init__(self, service: Service, zone_of: ZoneOf, ratios_of: RatiosOf = lambda: None) -> None:
        self.service = service
        self.is_complete = False
        self.selector_before: Labels | None = None
        """The selector under which trigger times were recorded, if it has changed since."""
        self.translator = PodTranslator(service, zone_of)
        self.trigger_times = TriggerTimes(service.creation_timestamp)
        self._wanted_ports: dict[str, int] = {}
        self._address_type_states = {
            address_type_state: AddressTypeState(service, address_type_state, self._wanted_ports, ratios_of)
            for address_type_state in self.translator.address_types
        }
        self._port_keys: dict[str, str] = {}
        self._missing_nodes: dict[str, str] = {}
        self.rejected: dict[tuple[str, str], tuple[DesiredEndpoint, str]] = {}
        """By pod and address type: endpoints that the API server has rejected, and why. They are omitted."""
        self._strays: dict[str, EndpointSlice] = {}
        self.hint_status = HintStatus()

    @classmethod
    def build(
        cls,
        service: Service,
        zone_of: ZoneOf,
        pods: Iterable[Pod],
        slices: Iterable[EndpointSlice],
        ratios_of: RatiosOf = lambda: None,
        rejected: Mapping[tuple[str, str], tuple[DesiredEndpoint, str]] | None = None,
    ) -> "ServiceState":
        """Return the state of a service from all its pods and slices. O(pods + slices).

        ``ratios_of`` is called whenever hints are checked, so it must be cheap; the state follows its
        results.
        """
        state = cls(service, zone_of, ratios_of)
        state.rejected.update(rejected or {})
        run_at_once(state.fill(pods, sorted(slices, key=lambda endpoint_slice: endpoint_slice.metadata.name)))
        return state

    def fill(self, pods: Iterable[Pod], slices: Iterable[EndpointSlice]) -> Steps[None]:
        """Load all pods and slices, which must be read from the caches on demand. O(pods + slices)."""
        steps = 0
        for pod in pods:
            self.set_pod(pod.metadata.name, pod)
            if self.selector_before is not None and not matches(self.selector_before, pod.labels):
                self.trigger_times.pod_changed(None, pod.ready_since)
            steps += 1
            if steps >= STEPS_A_YIELD:
                yield steps
                steps = 0
        for endpoint_slice in slices:
            self.observe(endpoint_slice.metadata.name, endpoint_slice)
            steps += 1 + len(endpoint_slice.endpoints or ())
            if steps >= STEPS_A_YIELD:
                yield steps
                steps = 0
        if steps:
            yield steps
        self.is_complete = True
        self.selector_before = None

    # ------------------------------------------------------------------------------------------ updates

    def inherit(self, before: "ServiceState") -> None:
        """Inherit the published data of an earlier state of the same service: trigger times, hints and rejections."""
        self.hint_status = before.hint_status
        self.rejected.update(before.rejected)
        self.trigger_times = before.trigger_times
        self.trigger_times.service_changed(self.service.creation_timestamp)
        selector = before.selector_before if before.selector_before is not None else before.service.selector
        if selector != self.service.selector:
            self.selector_before = selector or {}

    def set_pod(self, name: str, pod: Pod | None) -> None:
        """Set the current version of a member of the service; None if it is no longer a member."""
        if pod is None:
            ports: PortSet | None = None
            endpoints: tuple[DesiredEndpoint | None, ...] = (None,) * len(self._address_type_states)
            missing_node = None
        else:
            outcome = self.translator.outcome(pod)
            ports, endpoints, missing_node = outcome.ports, outcome.endpoints, outcome.missing_node
        self._count_ports(name, ports.key if ports is not None else None)
        if missing_node is not None:
            self._missing_nodes[name] = missing_node
        elif self._missing_nodes:
            self._missing_nodes.pop(name, None)
        for address_type_state, wanted in zip(self._address_type_states.values(), endpoints, strict=True):
            if self.rejected and self._is_rejected(name, address_type_state.address_type, wanted):
                address_type_state.set_desired(name, None)
            else:
                address_type_state.set_desired(name, wanted)

    def _is_rejected(self, pod: str, address_type: str, wanted: DesiredEndpoint | None) -> bool:
        """Return whether the server has rejected exactly this endpoint; a changed one is tried again."""
        found = self.rejected.get((pod, address_type))
        if found is None:
            return False
        if found[0] == wanted:
            return True
        del self.rejected[pod, address_type]
        return False

    def reject(self, endpoint: Endpoint, problem: str) -> str | None:
        """Omit an endpoint that the API server rejects until it changes; return its pod, or None."""
        pod = endpoint.target_ref.name if endpoint.target_ref is not None else None
        if pod is None:
            return None
        for address_type_state in self._address_type_states.values():
            wanted = address_type_state.desired_of(pod)
            if wanted is not None and wanted.endpoint.addresses == endpoint.addresses:
                self.rejected[pod, address_type_state.address_type] = (wanted, problem)
                address_type_state.set_desired(pod, None)
                return pod
        return None

    def rejection_of(self, pod: Pod) -> str | None:
        """Return why an endpoint of a pod is omitted because the API server rejects it, or None."""
        if not self.rejected:
            return rejection_of(pod, include_terminating=True)
        problems = (
            self.rejected.get((pod.metadata.name, address_type_state))
            for address_type_state in self._address_type_states
        )
        return next(
            (found[1] for found in problems if found is not None), rejection_of(pod, include_terminating=True)
        )

    def _count_ports(self, pod: str, key: str | None) -> None:
        old = self._port_keys.get(pod)
        if old == key:
            return
        if old is not None:
            del self._port_keys[pod]
            self._wanted_ports[old] -= 1
            if not self._wanted_ports[old]:
                del self._wanted_ports[old]
                for address_type_state in self._address_type_states.values():
                    address_type_state.drop_ports(old)
        if key is not None:
            self._port_keys[pod] = key
            # Slices of ports that become wanted are already dirty, because the ports were unwanted.
            self._wanted_ports[key] = self._wanted_ports.get(key, 0) + 1

    def observe(self, name: str, endpoint_slice: EndpointSlice | None) -> None:
        """Set the observed version of a slice of the service; None if it is deleted.

        A slice being deleted counts as deleted (S-14), so that a finalizer never blocks the service.
        """
        if endpoint_slice is not None and endpoint_slice.metadata.deletion_timestamp is not None:
            endpoint_slice = None
        self._strays.pop(name, None)
        for address_type_state in self._address_type_states.values():
            address_type_state.observe(
                name,
                endpoint_slice
                if endpoint_slice is not None
                and endpoint_slice.address_type == address_type_state.address_type
                else None,
            )
        if endpoint_slice is not None and endpoint_slice.address_type not in self._address_type_states:
            self._strays[name] = endpoint_slice

    # ------------------------------------------------------------------------------------------- queries

    @property
    def needs_plan(self) -> bool:
        """Return whether a plan may have something to do; False is certain, True is not."""
        return (
            not self.is_complete
            or bool(self._strays)
            or any(address_type_state.needs_plan for address_type_state in self._address_type_states.values())
        )

    @property
    def missing_nodes(self) -> dict[str, str]:
        """Pods kept out because their node does not exist, with its name (S-31.4)."""
        return self._missing_nodes

    @property
    def is_topology_aware(self) -> bool:
        """Return whether the service requests topology-aware hints."""
        return topology_aware(self.service)

    def hint_events(self, plan: "ServicePlan") -> list[HintEvent]:
        """Record the hints of a plan, and return the Events to emit (S-75)."""
        events: list[HintEvent] = []
        for address_type_state, address_type_plan in plan.address_type_plans:
            self.hint_status, event = self.hint_status.after(
                address_type_state.address_type, address_type_plan.hint_allocation
            )
            if event is not None:
                events.append(event)
        return events

    def plan(self, max_endpoints: int, trigger_time: str | None) -> ServicePlan:
        """Plan the writes, and mark slices that turned out to be correct as clean. O(dirty)."""
        address_type_plans: list[tuple[AddressTypeState, AddressTypePlan]] = []
        for address_type_state in self._address_type_states.values():
            if address_type_state.needs_plan:
                plan = plan_address_type(address_type_state.view(max_endpoints), trigger_time)
                address_type_state.settle(plan)
                address_type_plans.append((address_type_state, plan))
        return ServicePlan(
            address_type_plans, [self._strays[name] for name in sorted(self._strays)], trigger_time
        )

    def address_type_states(self) -> Iterator[AddressTypeState]:
        """Return the state of each address type."""
        return iter(self._address_type_states.values())

    def counts(self, max_endpoints: int) -> ServiceCounts:
        """Return the counts of the service over all address types. O(port sets)."""
        total: ServiceCounts | None = None
        for address_type_state in self._address_type_states.values():
            one = address_type_state.counts(max_endpoints)
            total = one if total is None else total.plus(one)
        return total or ServiceCounts()

    def snapshot(self, *, at_rest: bool = True) -> dict[str, object]:
        """Return a copy of every part that a state rebuilt from the listers must equal, by name.

        Endpoints without a slice are included only for a service ``at_rest``: before a plan they depend on
        the history.
        """
        parts: dict[str, object] = {
            "service": msgspec.structs.replace(  # a version that changes nothing else is ignored
                self.service,
                metadata=msgspec.structs.replace(self.service.metadata, resource_version=""),
            ),
            "wanted ports": dict(self._wanted_ports),
            "missing nodes": dict(self._missing_nodes),
            "slices of other address types": dict(self._strays),
        }
        for address_type_state in self._address_type_states.values():
            parts[f"desired {address_type_state.address_type} endpoints"] = (
                address_type_state.desired_endpoints()
            )
            parts[f"observed {address_type_state.address_type} slices"] = address_type_state.slices()
            parts[f"{address_type_state.address_type} hint counts"] = address_type_state.hint_counts()
            if at_rest:
                parts[f"{address_type_state.address_type} endpoints without a slice"] = (
                    address_type_state.unplaced_pods()
                )
        return parts
