"""The desired and observed slices of one service and address type, with the dirty ones, kept up to date.

Every method costs O(its change): a pod event touches one endpoint, a slice event that slice's endpoints.
"""

from collections.abc import Iterator

from aiokube.api.core import Service
from aiokube.api.discovery import EndpointSlice
from endpointd.controllers.endpointslice.desired import (
    DesiredEndpoint,
    ObservedSlice,
    is_owned_by,
    make_port_set,
    same_content,
    same_identity,
    slice_labels,
)
from endpointd.controllers.endpointslice.distribution import topology_aware
from endpointd.controllers.endpointslice.hint_counts import HintCounts
from endpointd.controllers.endpointslice.hints import TopologyView
from endpointd.controllers.endpointslice.plan import AddressTypePlan, AddressTypeView
from endpointd.controllers.endpointslice.service_counts import ServiceCounts
from endpointd.controllers.endpointslice.topology import RatiosOf, Refusal


class AddressTypeState:
    """The state of one service and address type."""

    def __init__(
        self, service: Service, address_type: str, wanted_ports: dict[str, int], ratios_of: RatiosOf
    ) -> None:
        self.service = service
        self.address_type = address_type
        self._namespace = service.metadata.namespace
        self._labels = slice_labels(service)
        self._wanted_ports = wanted_ports  # shared by the address types of a service
        self._desired: dict[str, DesiredEndpoint] = {}
        self._desired_of_ports: dict[str, int] = {}  # port key to the number of entries in _desired
        self._slices: dict[str, ObservedSlice] = {}
        self._not_owned: dict[str, ObservedSlice] = {}
        # Every pod in _desired is either in _unplaced or has its slice in _holders, never both.
        self._holders: dict[str, str] = {}
        self._unplaced: dict[str, DesiredEndpoint] = {}
        self._dirty: set[str] = set()
        # Placeholder slices that a plan accepted because no other slice existed: rechecked when one does.
        self._accepted: set[str] = set()
        # Port key to size to the names of slices with that size.
        self._by_size: dict[str, dict[int, set[str]]] = {}
        # Only for services that request topology-aware hints.
        self._hints: HintCounts | None = HintCounts() if topology_aware(service) else None
        self._ratios_of = ratios_of
        # The first plan reports whether the service has hints, even if none has to change (S-97).
        self._hints_unreported = self._hints is not None
        self._reported_refusal: Refusal | None = None

    # ------------------------------------------------------------------------------------------ updates

    def set_desired(self, pod: str, wanted: DesiredEndpoint | None) -> None:
        """Set the desired endpoint of a pod; None removes it."""
        old = self._desired.get(pod)
        if old == wanted:
            return
        self._recheck_accepted()
        if self._hints is not None:
            self._hints.count_endpoint(old.endpoint if old is not None else None, -1)
            self._hints.count_endpoint(wanted.endpoint if wanted is not None else None, 1)
        holder = self._holders.get(pod)
        if holder is not None:
            self._dirty.add(holder)
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

    def observe(self, name: str, endpoint_slice: EndpointSlice | None) -> None:
        """Set the observed slice of this type; None if it is deleted or being deleted."""
        self._forget(name)
        if endpoint_slice is not None:
            self._recheck_accepted()
            self._add_slice(name, endpoint_slice)
        self._accept_lone_placeholder()

    def _add_slice(self, name: str, endpoint_slice: EndpointSlice) -> None:
        observed = ObservedSlice(endpoint_slice, make_port_set(endpoint_slice.ports or ()))
        if not is_owned_by(endpoint_slice, self.service):
            self._not_owned[name] = observed
            return
        self._slices[name] = observed
        self._by_size.setdefault(observed.ports.key, {}).setdefault(observed.size, set()).add(name)
        if self._hints is not None:
            self._hints.add(observed)
        if not self._claim(observed):
            self._dirty.add(name)

    def drop_ports(self, key: str) -> None:
        """Mark the slices of ports that no pod has any longer as dirty."""
        self._recheck_accepted()
        for names in self._by_size.get(key, {}).values():
            self._dirty.update(names)

    def settle(self, plan: AddressTypePlan) -> None:
        """Mark the dirty slices that a plan found correct as clean.

        Planned writes stay pending until they are observed, because a write may fail.
        """
        self._hints_unreported = False
        self._reported_refusal = plan.hint_allocation.refusal if plan.hint_allocation is not None else None
        for name in plan.unchanged:
            # A slice that was wrong when observed may have become correct: claim its endpoints again.
            endpoint_slice = self._slices[name].slice
            self._forget(name)
            self._add_slice(name, endpoint_slice)
            if name in self._dirty:
                self._dirty.discard(name)
                self._accepted.add(name)

    def _accept_lone_placeholder(self) -> None:
        """Accept an empty slice that is the only existing and desired one (S-50), as a plan would."""
        if len(self._slices) != 1 or self._unplaced or self._not_owned:
            return
        (observed,) = self._slices.values()
        endpoint_slice = observed.slice
        if (
            observed.name in self._dirty
            and not endpoint_slice.endpoints
            and not endpoint_slice.ports
            and (endpoint_slice.metadata.labels or {}) == self._labels
        ):
            self._dirty.discard(observed.name)
            self._accepted.add(observed.name)

    def _recheck_accepted(self) -> None:
        if self._accepted:
            self._dirty |= self._accepted
            self._accepted.clear()

    def _forget(self, name: str) -> None:
        self._not_owned.pop(name, None)
        self._dirty.discard(name)
        self._accepted.discard(name)
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
        holders, unplaced, desired = self._holders, self._unplaced, self._desired
        for endpoint in observed.slice.endpoints or ():
            pod = endpoint.target_ref.name if endpoint.target_ref is not None else None
            if pod in holders and holders[pod] == name:
                del holders[pod]
                unplaced[pod] = desired[pod]

    def _claim(self, observed: ObservedSlice) -> bool:
        """Make a slice the holder of its endpoints; return whether it is fully correct."""
        is_correct = (observed.slice.metadata.labels or {}) == self._labels
        key, name = observed.ports.key, observed.name
        if not observed.slice.endpoints and key not in self._wanted_ports:
            is_correct = False
        # Local variables, because this loop is the hot path.
        namespace, desired, holders, unplaced = self._namespace, self._desired, self._holders, self._unplaced
        for endpoint in observed.slice.endpoints or ():
            target = endpoint.target_ref
            pod = target.name if target is not None and target.namespace == namespace else None
            wanted = desired.get(pod) if pod is not None else None
            if (
                pod is None
                or wanted is None
                or pod in holders
                or wanted.ports.key != key
                or not (endpoint is wanted.endpoint or same_identity(endpoint, wanted.endpoint))
            ):
                is_correct = False
                continue
            holders[pod] = name
            if pod in unplaced:
                del unplaced[pod]
            if (
                is_correct
                and endpoint is not wanted.endpoint
                and not same_content(endpoint, wanted.endpoint, ignore_hints=self._hints is not None)
            ):
                is_correct = False
        return is_correct

    # ------------------------------------------------------------------------------------------- queries

    @property
    def needs_plan(self) -> bool:
        """Return whether a plan may have something to do; False is certain, True is not."""
        return bool(
            self._dirty or self._unplaced or self._not_owned or not self._slices or not self._hints_can_stay
        )

    @property
    def _hints_can_stay(self) -> bool:
        # Computed, not stored: a needed hint change cannot get lost with a failed write.
        return self._hints is None or (
            not self._hints_unreported and self._hints.can_stay(self._ratios_of(), self._reported_refusal)
        )

    def view(self, max_endpoints: int) -> AddressTypeView:
        """Return the input of a plan. O(dirty)."""
        unplaced = tuple(self._unplaced[pod] for pod in sorted(self._unplaced))
        return AddressTypeView(
            service=self.service,
            address_type=self.address_type,
            max_endpoints=max_endpoints,
            total_slices=len(self._slices) + len(self._not_owned),
            dirty=tuple(self._slices[name] for name in sorted(self._dirty)),
            not_owned=tuple(self._not_owned[name] for name in sorted(self._not_owned)),
            unplaced=unplaced,
            with_capacity={
                key: tuple(self._slices_with_capacity(key, max_endpoints))
                for key in {wanted.ports.key for wanted in unplaced}
            },
            wanted_ports=self._wanted_ports,
            desired=self._desired,
            holders=self._holders,
            topology=None if self._hints is None else self._topology_view(self._hints),
        )

    def _topology_view(self, hints: HintCounts) -> TopologyView:
        dirty = frozenset(self._dirty)

        def clean() -> Iterator[ObservedSlice]:
            return (self._slices[name] for name in sorted(self._slices) if name not in dirty)

        return TopologyView(
            ratios=self._ratios_of(),
            ready=hints.ready,
            without_zone=hints.without_zone,
            hinted=hints.sums_without(dirty),
            unsound=hints.unsound_without(dirty),
            any_hinted=hints.any_hinted_without(dirty),
            dirty=dirty,
            clean=clean,
        )

    def _slices_with_capacity(self, key: str, max_endpoints: int) -> Iterator[ObservedSlice]:
        for size, names in self._by_size.get(key, {}).items():
            if size < max_endpoints:
                free = names - self._dirty if self._dirty else names
                if free:
                    yield self._slices[min(free)]

    def desired_of(self, pod: str) -> DesiredEndpoint | None:
        """Return the desired endpoint of a pod."""
        return self._desired.get(pod)

    def desired_endpoints(self) -> dict[str, DesiredEndpoint]:
        """Return a copy of the desired endpoints by pod."""
        return dict(self._desired)

    def slices(self) -> dict[str, EndpointSlice]:
        """Return a copy of the observed slices by name."""
        return {name: observed.slice for name, observed in (self._slices | self._not_owned).items()}

    def counts(self, max_endpoints: int) -> ServiceCounts:
        """Return the number of endpoints and slices to publish. O(port sets)."""
        full = 0
        for count in self._desired_of_ports.values():
            full -= -count // max_endpoints
        return ServiceCounts(len(self._desired), len(self._slices) + len(self._not_owned), max(full, 1))

    def hint_counts(self) -> tuple[object, ...]:
        """Return the hint counts; empty unless the service requests topology-aware hints."""
        return self._hints.snapshot() if self._hints is not None else ()

    def unplaced_pods(self) -> frozenset[str]:
        """Return the pods whose endpoint is in no slice."""
        return frozenset(self._unplaced)
