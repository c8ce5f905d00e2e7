"""What one service should have, and has, over all its address types; kept as changes arrive, at the cost of the change.

After any history the state equals one rebuilt from the listers, and so does its plan.
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
    """The plans of a service, family by family, and the slices of types it does not want (S-22)."""

    __slots__ = ("families", "strays", "trigger_time")

    def __init__(
        self,
        families: list[tuple[AddressTypeState, AddressTypePlan]],
        strays: list[EndpointSlice],
        trigger_time: str | None,
    ) -> None:
        self.families = families
        self.strays = strays
        self.trigger_time = trigger_time

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not self.strays and all(plan.is_empty for _, plan in self.families)


class ServiceState:
    """One service whose endpoints are selected: all its address types.

    A new state is incomplete: :meth:`fill` takes in what there is, in steps. Changes may be given to it before and
    meanwhile, in any order with the steps; no plan may be made before it is complete.
    """

    def __init__(self, service: Service, zone_of: ZoneOf, ratios_of: RatiosOf = lambda: None) -> None:
        self.service = service
        self.is_complete = False
        self.selector_before: Labels | None = None
        """The selector under which trigger times were noted before, if the service had another one."""
        self.translator = PodTranslator(service, zone_of)
        self.trigger_times = TriggerTimes(service.creation_timestamp)
        self._wanted_ports: dict[str, int] = {}
        self._families = {
            family: AddressTypeState(service, family, self._wanted_ports, ratios_of)
            for family in self.translator.address_types
        }
        self._port_keys: dict[str, str] = {}
        self._missing_nodes: dict[str, str] = {}
        self.rejected: dict[tuple[str, str], tuple[DesiredEndpoint, str]] = {}
        """By pod and address type: endpoints that the API server has rejected, and why. They are left out."""
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
        """Return the state of a service from all its pods and slices: O(both).

        ``ratios_of`` is asked whenever hints are looked at, so it must be cheap; a service's state follows it.
        """
        state = cls(service, zone_of, ratios_of)
        state.rejected.update(rejected or {})
        run_at_once(state.fill(pods, sorted(slices, key=lambda endpoint_slice: endpoint_slice.metadata.name)))
        return state

    def fill(self, pods: Iterable[Pod], slices: Iterable[EndpointSlice]) -> Steps[None]:
        """Take in all pods and slices, which must be read from the caches as they are asked for: O(both)."""
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

    # ------------------------------------------------------------------------------------------ changing

    def take_over(self, before: "ServiceState") -> None:
        """Go on with what an earlier state of the same service has published: trigger times and hints."""
        self.hint_status = before.hint_status
        self.rejected.update(before.rejected)
        self.trigger_times = before.trigger_times
        self.trigger_times.service_changed(self.service.creation_timestamp)
        selector = before.selector_before if before.selector_before is not None else before.service.selector
        if selector != self.service.selector:
            self.selector_before = selector or {}

    def set_pod(self, name: str, pod: Pod | None) -> None:
        """Say how a member of the service is now: None when it is none any more."""
        if pod is None:
            ports: PortSet | None = None
            endpoints: tuple[DesiredEndpoint | None, ...] = (None,) * len(self._families)
            missing_node = None
        else:
            outcome = self.translator.outcome(pod)
            ports, endpoints, missing_node = outcome.ports, outcome.endpoints, outcome.missing_node
        self._count_ports(name, ports.key if ports is not None else None)
        if missing_node is not None:
            self._missing_nodes[name] = missing_node
        elif self._missing_nodes:
            self._missing_nodes.pop(name, None)
        for family, wanted in zip(self._families.values(), endpoints, strict=True):
            if self.rejected and self._is_rejected(name, family.address_type, wanted):
                family.set_desired(name, None)
            else:
                family.set_desired(name, wanted)

    def _is_rejected(self, pod: str, address_type: str, wanted: DesiredEndpoint | None) -> bool:
        """Return whether the server has rejected this very endpoint; one that has changed since is tried again."""
        found = self.rejected.get((pod, address_type))
        if found is None:
            return False
        if found[0] == wanted:
            return True
        del self.rejected[pod, address_type]
        return False

    def reject(self, endpoint: Endpoint, problem: str) -> str | None:
        """Leave out an endpoint that the API server rejects, until it changes; return its pod, None where there is none."""
        pod = endpoint.target_ref.name if endpoint.target_ref is not None else None
        if pod is None:
            return None
        for family in self._families.values():
            wanted = family.desired_of(pod)
            if wanted is not None and wanted.endpoint.addresses == endpoint.addresses:
                self.rejected[pod, family.address_type] = (wanted, problem)
                family.set_desired(pod, None)
                return pod
        return None

    def rejection_of(self, pod: Pod) -> str | None:
        """Return why an endpoint of a pod is left out, as the API server rejects it; None where it does not."""
        if not self.rejected:
            return rejection_of(pod, include_terminating=True)
        problems = (self.rejected.get((pod.metadata.name, family)) for family in self._families)
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
                for family in self._families.values():
                    family.drop_ports(old)
        if key is not None:
            self._port_keys[pod] = key
            # Slices of ports that become wanted are looked at already: nobody wanted them.
            self._wanted_ports[key] = self._wanted_ports.get(key, 0) + 1

    def observe(self, name: str, endpoint_slice: EndpointSlice | None) -> None:
        """Say how a slice of the service stands on the server: None when it is gone.

        One that is being deleted counts as gone (S-14), so that a finalizer of somebody's never holds the service up.
        """
        if endpoint_slice is not None and endpoint_slice.metadata.deletion_timestamp is not None:
            endpoint_slice = None
        self._strays.pop(name, None)
        for family in self._families.values():
            family.observe(
                name,
                endpoint_slice
                if endpoint_slice is not None and endpoint_slice.address_type == family.address_type
                else None,
            )
        if endpoint_slice is not None and endpoint_slice.address_type not in self._families:
            self._strays[name] = endpoint_slice

    # ------------------------------------------------------------------------------------------- reading

    @property
    def needs_plan(self) -> bool:
        """Tell whether a plan could find something to do; False is certain, True is not."""
        return (
            not self.is_complete
            or bool(self._strays)
            or any(family.needs_plan for family in self._families.values())
        )

    @property
    def missing_nodes(self) -> dict[str, str]:
        """Pods that are kept out because their node is not known, with its name (S-31.4)."""
        return self._missing_nodes

    @property
    def is_topology_aware(self) -> bool:
        """Tell whether the service asks for topology-aware hints."""
        return topology_aware(self.service)

    def hint_events(self, plan: "ServicePlan") -> list[HintEvent]:
        """Take note of the hints that a plan has given, and return what is to be told of them (S-75)."""
        events: list[HintEvent] = []
        for family, family_plan in plan.families:
            self.hint_status, event = self.hint_status.after(family.address_type, family_plan.hint_allocation)
            if event is not None:
                events.append(event)
        return events

    def plan(self, max_endpoints: int, trigger_time: str | None) -> ServicePlan:
        """Return what makes the slices right, and settle what turned out to be right: O(what is dirty)."""
        families: list[tuple[AddressTypeState, AddressTypePlan]] = []
        for family in self._families.values():
            if family.needs_plan:
                plan = plan_address_type(family.view(max_endpoints), trigger_time)
                family.settle(plan)
                families.append((family, plan))
        return ServicePlan(families, [self._strays[name] for name in sorted(self._strays)], trigger_time)

    def families(self) -> Iterator[AddressTypeState]:
        """Return the state of each address type."""
        return iter(self._families.values())

    def counts(self, max_endpoints: int) -> ServiceCounts:
        """Return how much the service publishes, all address types together: O(port sets)."""
        total: ServiceCounts | None = None
        for family in self._families.values():
            one = family.counts(max_endpoints)
            total = one if total is None else total.plus(one)
        return total or ServiceCounts()

    def snapshot(self, *, at_rest: bool = True) -> dict[str, object]:
        """Return a copy of every part that a state rebuilt from the listers must have too, by name.

        Which endpoints no slice holds is among them only for a service ``at_rest``: before a plan, it depends on the
        history.
        """
        parts: dict[str, object] = {
            "service": msgspec.structs.replace(  # a version that changes nothing else is not taken over
                self.service,
                metadata=msgspec.structs.replace(self.service.metadata, resource_version=""),
            ),
            "wanted ports": dict(self._wanted_ports),
            "missing nodes": dict(self._missing_nodes),
            "slices of other address types": dict(self._strays),
        }
        for family in self._families.values():
            parts[f"desired {family.address_type} endpoints"] = family.desired_endpoints()
            parts[f"observed {family.address_type} slices"] = family.slices()
            parts[f"{family.address_type} hint counts"] = family.hint_counts()
            if at_rest:
                parts[f"{family.address_type} endpoints without a slice"] = family.unplaced_pods()
        return parts
