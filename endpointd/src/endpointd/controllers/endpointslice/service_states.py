"""The states of all services of the EndpointSlice controller, created, filled and updated from the caches."""

from collections.abc import Iterator, Mapping

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey, key_of
from aiokube.runtime.pacing import Steps, run_at_once
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue
from endpointd.controllers.endpointslice.desired import service_of
from endpointd.controllers.endpointslice.node_zones import NodeZones
from endpointd.controllers.endpointslice.observer import SliceObserver
from endpointd.controllers.endpointslice.state import ServiceState
from endpointd.controllers.endpointslice.topology import ZoneTable
from endpointd.controllers.indexes import SLICES_BY_SERVICE
from endpointd.controllers.membership import Membership
from endpointd.controllers.recording import WriteRecorder
from endpointd.controllers.rejections import Rejections


def has_selector(service: Service) -> bool:
    """Return whether the controller manages the slices of a service (S-11, S-12)."""
    return bool(service.selector) and not service.is_external_name


class ServiceStates:
    """The state of every service with a selector, by key.

    A state is created incomplete and filled from the caches by the worker that syncs the service. An update that
    raises may have been applied partially: call :meth:`schedule_rebuild`.
    """

    def __init__(
        self,
        *,
        services: Store[Service],
        slices: Store[EndpointSlice],
        membership: Membership,
        node_zones: NodeZones,
        writes: WriteRecorder[EndpointSlice],
        queue: WorkQueue[ObjectKey],
        rejections: Rejections,
        observer: SliceObserver,
    ) -> None:
        self._services = services
        self._slices = slices
        self._membership = membership
        self._node_zones = node_zones
        self._writes = writes
        self._queue = queue
        self._rejections = rejections
        self._observer = observer
        self.by_key: dict[ObjectKey, ServiceState] = {}
        self.zones = ZoneTable()
        self.topology_aware: set[ObjectKey] = set()
        self.audited: tuple[ObjectKey, ServiceState] | None = None
        """The state that the audit is rebuilding: it receives concurrent changes, too."""

    def new(self, service: Service) -> ServiceState:
        """Return a new, incomplete state that is not registered."""
        return ServiceState(service, self._node_zones.zone_of, self._ratios)

    def create(self, key: ObjectKey) -> ServiceState | None:
        """Return a new, incomplete state of a service, or None if it selects nothing (S-11, S-12: existing slices stay)."""
        service = self._services.get(key)
        if service is None or not has_selector(service):
            return None
        state = self.by_key[key] = self.new(service)
        if state.is_topology_aware:
            self.topology_aware.add(key)
        else:
            self.topology_aware.discard(key)
        return state

    def reset(self, service: Service) -> None:
        """Rebuild a service's state from the caches in its next sync."""
        key = key_of(service)
        before = self.by_key.get(key)
        self.topology_aware.discard(key)
        if not has_selector(service):  # S-11, S-12: existing slices stay
            self.by_key.pop(key, None)
            self._rejections.forget(key)
            return
        self._queue.add(key)
        state = self.create(key)
        if state is not None and before is not None and before.service.metadata.uid == service.metadata.uid:
            state.inherit(before)

    def schedule_rebuild(self, key: ObjectKey) -> None:
        """Rebuild the state of a service after a change was applied partially."""
        service = self._services.get(key)
        if service is not None:
            self.reset(service)

    def forget(self, service: ObjectKey) -> None:
        """Drop everything known of a service that is no longer managed."""
        self._observer.forgot(service)
        self.topology_aware.discard(service)
        self.by_key.pop(service, None)
        self._rejections.forget(service)

    def set_pod(self, service: ObjectKey, state: ServiceState, name: str, pod: Pod | None) -> None:
        """Apply a pod to the state of a service, and to the state being rebuilt for its audit."""
        state.set_pod(name, pod)
        if self.audited is not None and self.audited[0] == service:
            self.audited[1].set_pod(name, pod)
        self._record_rejection(service, state, name, pod)

    def apply_slice(
        self, service: ObjectKey, state: ServiceState, name: str, as_sent: EndpointSlice | None
    ) -> None:
        """Apply a slice to the state of a service, and to the state being rebuilt for its audit."""
        state.observe(name, as_sent)
        if self.audited is not None and self.audited[0] == service:
            self.audited[1].observe(name, as_sent)

    def fill_steps(self, key: ObjectKey, state: ServiceState) -> Steps[None]:
        """Load the cached pods and slices of a service into an incomplete state."""
        names = sorted(
            key_of(endpoint_slice) for endpoint_slice in self._slices.by_index(SLICES_BY_SERVICE, key)
        )
        found = (self._slices.get(name) for name in names)  # looked up on demand, so always current
        return state.fill(
            self._members(key, state),
            (
                as_sent
                for endpoint_slice in found
                if endpoint_slice and service_of(as_sent := self.as_sent(endpoint_slice)) == key
            ),
        )

    def _members(self, key: ObjectKey, state: ServiceState) -> Iterator[Pod]:
        """Yield the members of a service, and record for each whether its endpoint is rejected."""
        for pod in self._membership.pods_of(key):
            yield pod
            self._record_rejection(key, state, pod.metadata.name, pod)

    def _record_rejection(self, key: ObjectKey, state: ServiceState, name: str, pod: Pod | None) -> None:
        if self.by_key.get(key) is state:
            problem = state.rejection_of(pod) if pod is not None else None
            self._rejections.record(state.service, name, problem)

    def as_sent(self, endpoint_slice: EndpointSlice) -> EndpointSlice:
        """Return a slice with the content that we sent, if the server stored that with modifications.

        Annotations added by other clients are kept, as in any update.
        """
        sent = self._writes.sent_for(endpoint_slice)
        if sent is None:
            return endpoint_slice
        metadata = msgspec.structs.replace(
            endpoint_slice.metadata,
            labels=sent.metadata.labels,
            owner_references=sent.metadata.owner_references,
        )
        return msgspec.structs.replace(
            endpoint_slice, metadata=metadata, endpoints=sent.endpoints or None, ports=sent.ports or None
        )

    def rebuilt(self, service: Service) -> ServiceState:
        """Return the expected state of a service, built from the caches in one step; for tests."""
        state = self.new(service)
        current = self.by_key.get(key_of(service))
        if current is not None:
            state.rejected.update(current.rejected)
        run_at_once(self.fill_steps(key_of(service), state))
        return state

    def _ratios(self) -> Mapping[str, float] | None:
        return self.zones.ratios
