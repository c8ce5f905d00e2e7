"""What one service should have, what it has, and what a change has touched: kept as changes arrive.

Every method costs O(what changed): a pod's change looks at one endpoint, a slice's change at its own endpoints.
After any history the state equals one rebuilt from the listers, and so does its plan.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from endpointd.api.core import Pod, Service
from endpointd.api.discovery import EndpointSlice
from endpointd.controllers.endpointslice.desired import (
    DesiredEndpoint,
    ObservedSlice,
    PodTranslator,
    PortSet,
    ZoneOf,
    is_owned_by,
    make_port_set,
    same_content,
    same_identity,
    slice_labels,
)
from endpointd.controllers.endpointslice.distribution import topology_aware
from endpointd.controllers.endpointslice.hint_counts import HintCounts
from endpointd.controllers.endpointslice.hints import HintEvent, HintStatus, TopologyView
from endpointd.controllers.endpointslice.metrics import Figures
from endpointd.controllers.endpointslice.plan import FamilyPlan, FamilyView, plan_family
from endpointd.controllers.trigger_time import TriggerTimes


class FamilyState:
    """One service and address type."""

    def __init__(self, service: Service, address_type: str, wanted_ports: dict[str, int]) -> None:
        self.service = service
        self.address_type = address_type
        self._namespace = service.metadata.namespace
        self._labels = slice_labels(service)
        self._wanted_ports = wanted_ports  # shared by the families of a service
        self._desired: dict[str, DesiredEndpoint] = {}
        self._desired_of_ports: dict[str, int] = {}  # port key to how many of _desired have it
        self._slices: dict[str, ObservedSlice] = {}
        self._not_owned: dict[str, ObservedSlice] = {}
        # Every pod in _desired is either in _unplaced or has its slice in _holders, never both.
        self._holders: dict[str, str] = {}
        self._unplaced: dict[str, DesiredEndpoint] = {}
        self._touched: set[str] = set()
        # Slices that a plan let be because nothing else was there (placeholders): it looks again when something is.
        self._resting: set[str] = set()
        # Port key to size to the names of the slices of that size.
        self._by_size: dict[str, dict[int, set[str]]] = {}
        # Only where the service asks for topology-aware hints.
        self._hints: HintCounts | None = HintCounts() if topology_aware(service) else None
        self._reconsider_hints = self._hints is not None
        self._hints_given = False

    # ------------------------------------------------------------------------------------------ changing

    def set_desired(self, pod: str, wanted: DesiredEndpoint | None) -> None:
        """Say what a pod should have: None for nothing."""
        old = self._desired.get(pod)
        if old == wanted:
            return
        self._disturb()
        if self._hints is not None:
            self._hints.count_ready(
                was=old is not None and old.endpoint.conditions.ready is True,
                now=wanted is not None and wanted.endpoint.conditions.ready is True,
            )
        holder = self._holders.get(pod)
        if holder is not None:
            self._touched.add(holder)
        if wanted is None:
            del self._desired[pod]
            self._count(old, wanted)
            self._unplaced.pop(pod, None)
            self._holders.pop(pod, None)
            return
        self._desired[pod] = wanted
        if (
            holder is not None
            and old is not None
            and old.ports.key == wanted.ports.key
            and same_identity(old.endpoint, wanted.endpoint)
        ):
            return
        self._count(old, wanted)
        self._holders.pop(pod, None)
        self._unplaced[pod] = wanted

    def _count(self, old: DesiredEndpoint | None, new: DesiredEndpoint | None) -> None:
        counts = self._desired_of_ports
        if new is not None:
            counts[new.ports.key] = counts.get(new.ports.key, 0) + 1
        if old is not None:
            counts[old.ports.key] -= 1
            if not counts[old.ports.key]:
                del counts[old.ports.key]

    def observe(self, name: str, piece: EndpointSlice | None) -> None:
        """Say how a slice of this type stands on the server: None when it is gone (or about to be)."""
        self._forget(name)
        if piece is None:
            return
        self._disturb()
        self._take_in(name, piece)

    def _take_in(self, name: str, piece: EndpointSlice) -> None:
        observed = ObservedSlice(piece, make_port_set(piece.ports or ()))
        if not is_owned_by(piece, self.service):
            self._not_owned[name] = observed
            return
        self._slices[name] = observed
        self._by_size.setdefault(observed.ports.key, {}).setdefault(observed.size, set()).add(name)
        if self._hints is not None:
            self._hints.add(observed)
            if self._hints.contradicts(name, given=self._hints_given):
                self._touched.add(name)
        if not self._claim(observed):
            self._touched.add(name)

    def forsake_ports(self, key: str) -> None:
        """Look again at the slices of ports that no pod has any more."""
        self._disturb()
        for names in self._by_size.get(key, {}).values():
            self._touched.update(names)

    def reconsider_hints(self) -> None:
        """Have the next plan share out hints again, although no slice is touched: the zones have changed."""
        self._reconsider_hints = self._hints is not None

    def settle(self, plan: FamilyPlan) -> None:
        """Take note of what a plan found: which touched slices are right, and whether there are hints."""
        self._reconsider_hints = False
        self._hints_given = plan.shared_out is not None and plan.shared_out.refusal is None
        for name in plan.right:
            # What was wrong when it was observed may have become right since: claim its endpoints again.
            piece = self._slices[name].slice
            self._forget(name)
            self._take_in(name, piece)
            if name in self._touched:
                self._touched.discard(name)
                self._resting.add(name)

    def _disturb(self) -> None:
        if self._resting:
            self._touched |= self._resting
            self._resting.clear()

    def _forget(self, name: str) -> None:
        self._not_owned.pop(name, None)
        self._touched.discard(name)
        self._resting.discard(name)
        observed = self._slices.pop(name, None)
        if observed is None:
            return
        if self._hints is not None:
            self._hints.remove(name)
        sizes = self._by_size[observed.ports.key]
        sizes[observed.size].discard(name)
        if not sizes[observed.size]:
            del sizes[observed.size]
            if not sizes:
                del self._by_size[observed.ports.key]
        for endpoint in observed.slice.endpoints or ():
            pod = endpoint.target_ref.name if endpoint.target_ref is not None else None
            if pod is not None and self._holders.get(pod) == name:
                del self._holders[pod]
                self._unplaced[pod] = self._desired[pod]

    def _claim(self, observed: ObservedSlice) -> bool:
        """Enter a slice as the holder of its endpoints; tell whether it is just as it should be."""
        right = (observed.slice.metadata.labels or {}) == self._labels
        key = observed.ports.key
        if not observed.slice.endpoints and key not in self._wanted_ports:
            right = False
        for endpoint in observed.slice.endpoints or ():
            target = endpoint.target_ref
            pod = target.name if target is not None and target.namespace == self._namespace else None
            wanted = self._desired.get(pod) if pod is not None else None
            if (
                pod is None
                or wanted is None
                or pod in self._holders
                or wanted.ports.key != key
                or not same_identity(endpoint, wanted.endpoint)
            ):
                right = False
                continue
            self._holders[pod] = observed.name
            self._unplaced.pop(pod, None)
            if right and not same_content(endpoint, wanted.endpoint, whatever_hints=self._hints is not None):
                right = False
        return right

    # ------------------------------------------------------------------------------------------- reading

    @property
    def needs_plan(self) -> bool:
        """Tell whether a plan could find something to do; False is certain, True is not."""
        return bool(
            self._touched or self._unplaced or self._not_owned or not self._slices or self._reconsider_hints
        )

    def view(self, max_endpoints: int, ratios: Mapping[str, float] | None) -> FamilyView:
        """Return what a plan is made from: O(what is touched). ``ratios`` are the zones' parts of the CPU."""
        unplaced = tuple(self._unplaced[pod] for pod in sorted(self._unplaced))
        return FamilyView(
            service=self.service,
            address_type=self.address_type,
            max_endpoints=max_endpoints,
            total_slices=len(self._slices) + len(self._not_owned),
            touched=tuple(self._slices[name] for name in sorted(self._touched)),
            not_owned=tuple(self._not_owned[name] for name in sorted(self._not_owned)),
            unplaced=unplaced,
            rooms={
                key: tuple(self._rooms(key, max_endpoints))
                for key in {wanted.ports.key for wanted in unplaced}
            },
            wanted_ports=self._wanted_ports,
            desired=self._desired,
            holders=self._holders,
            topology=None if self._hints is None else self._topology_view(self._hints, ratios),
        )

    def _topology_view(self, hints: HintCounts, ratios: Mapping[str, float] | None) -> TopologyView:
        touched = frozenset(self._touched)

        def untouched() -> Iterator[ObservedSlice]:
            return (self._slices[name] for name in sorted(self._slices) if name not in touched)

        return TopologyView(
            ratios=ratios,
            ready=hints.ready,
            hinted=hints.totals_without(touched),
            all_hinted=hints.all_hinted_without(touched),
            any_hinted=hints.any_hinted_without(touched),
            untouched=untouched,
        )

    def _rooms(self, key: str, max_endpoints: int) -> Iterator[ObservedSlice]:
        for size, names in self._by_size.get(key, {}).items():
            if size < max_endpoints:
                free = names - self._touched if self._touched else names
                if free:
                    yield self._slices[min(free)]

    def desired_endpoints(self) -> dict[str, DesiredEndpoint]:
        """Return a copy of what should be published, by pod."""
        return dict(self._desired)

    def slices(self) -> dict[str, EndpointSlice]:
        """Return a copy of the slices taken note of, by name."""
        return {name: observed.slice for name, observed in (self._slices | self._not_owned).items()}

    def figures(self, max_endpoints: int) -> Figures:
        """Return how much there is to publish, and in how many slices: O(port sets)."""
        full = sum(-(-count // max_endpoints) for count in self._desired_of_ports.values())
        return Figures(len(self._desired), len(self._slices) + len(self._not_owned), max(full, 1))

    def unplaced_pods(self) -> frozenset[str]:
        """Return the pods whose endpoint no slice holds."""
        return frozenset(self._unplaced)


class ServicePlan:
    """The plans of a service, family by family, and the slices of types it does not want (S-22)."""

    __slots__ = ("families", "strays", "trigger_time")

    def __init__(
        self,
        families: list[tuple[FamilyState, FamilyPlan]],
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
    """One service whose endpoints are selected: all its address types."""

    def __init__(self, service: Service, zone_of: ZoneOf) -> None:
        self.service = service
        self.translator = PodTranslator(service, zone_of)
        self.trigger_times = TriggerTimes(service.creation_timestamp)
        self._wanted_ports: dict[str, int] = {}
        self._families = {
            family: FamilyState(service, family, self._wanted_ports)
            for family in self.translator.address_types
        }
        self._port_keys: dict[str, str] = {}
        self._missing_nodes: dict[str, str] = {}
        self._strays: dict[str, EndpointSlice] = {}
        self.hint_status = HintStatus()

    @classmethod
    def build(
        cls, service: Service, zone_of: ZoneOf, pods: Iterable[Pod], slices: Iterable[EndpointSlice]
    ) -> "ServiceState":
        """Return the state of a service from all its pods and slices: O(both)."""
        state = cls(service, zone_of)
        for pod in pods:
            state.set_pod(pod.metadata.name, pod)
        for piece in sorted(slices, key=lambda piece: piece.metadata.name):
            state.observe(piece.metadata.name, piece)
        return state

    # ------------------------------------------------------------------------------------------ changing

    def take_over(self, before: "ServiceState") -> None:
        """Go on with what an earlier state of the same service has published: trigger times and hints."""
        self.hint_status = before.hint_status
        self.trigger_times = before.trigger_times
        self.trigger_times.service_changed(self.service.creation_timestamp)

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
            family.set_desired(name, wanted)

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
                    family.forsake_ports(old)
        if key is not None:
            self._port_keys[pod] = key
            # Slices of ports that become wanted are looked at already: nobody wanted them.
            self._wanted_ports[key] = self._wanted_ports.get(key, 0) + 1

    def observe(self, name: str, piece: EndpointSlice | None) -> None:
        """Say how a slice of the service stands on the server: None when it is gone.

        One that is being deleted counts as gone (S-14), so that a finalizer of somebody's never holds the service up.
        """
        if piece is not None and piece.metadata.deletion_timestamp is not None:
            piece = None
        self._strays.pop(name, None)
        for family in self._families.values():
            family.observe(
                name, piece if piece is not None and piece.address_type == family.address_type else None
            )
        if piece is not None and piece.address_type not in self._families:
            self._strays[name] = piece

    # ------------------------------------------------------------------------------------------- reading

    @property
    def needs_plan(self) -> bool:
        """Tell whether a plan could find something to do; False is certain, True is not."""
        return bool(self._strays) or any(family.needs_plan for family in self._families.values())

    @property
    def missing_nodes(self) -> dict[str, str]:
        """Pods that are kept out because their node is not known, with its name (S-31.4)."""
        return self._missing_nodes

    @property
    def is_topology_aware(self) -> bool:
        """Tell whether the service asks for topology-aware hints."""
        return topology_aware(self.service)

    def reconsider_hints(self) -> None:
        """Have the next plan share out hints again: the zones have changed."""
        for family in self._families.values():
            family.reconsider_hints()

    def hint_events(self, plan: "ServicePlan") -> list[HintEvent]:
        """Take note of the hints that a plan has given, and return what is to be told of them (S-75)."""
        events: list[HintEvent] = []
        for family, family_plan in plan.families:
            self.hint_status, event = self.hint_status.after(family.address_type, family_plan.shared_out)
            if event is not None:
                events.append(event)
        return events

    def plan(
        self, max_endpoints: int, trigger_time: str | None, ratios: Mapping[str, float] | None = None
    ) -> ServicePlan:
        """Return what makes the slices right, and settle what turned out to be right: O(what is touched)."""
        families: list[tuple[FamilyState, FamilyPlan]] = []
        for family in self._families.values():
            if family.needs_plan:
                plan = plan_family(family.view(max_endpoints, ratios), trigger_time)
                family.settle(plan)
                families.append((family, plan))
        return ServicePlan(families, [self._strays[name] for name in sorted(self._strays)], trigger_time)

    def families(self) -> Iterator[FamilyState]:
        """Return the state of each address type."""
        return iter(self._families.values())

    def figures(self, max_endpoints: int) -> Figures:
        """Return how much the service publishes, all address types together: O(port sets)."""
        each = [family.figures(max_endpoints) for family in self._families.values()]
        return Figures(
            sum(one.endpoints for one in each),
            sum(one.slices for one in each),
            sum(one.slices_desired for one in each),
        )

    def snapshot(self) -> dict[str, object]:
        """Return every part that a state rebuilt from the listers must have too, by name."""
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
            parts[f"{family.address_type} endpoints without a slice"] = family.unplaced_pods()
        return parts
