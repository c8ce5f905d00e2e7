"""The desired state of one service, kept up to date as its pods change.

The state always equals one built from the listers, and so does its plan.
"""

from collections.abc import Iterable, Mapping

import msgspec

from aiokube.api.core import Labels, Pod, Service
from aiokube.api.endpoints import EndpointAddress, Endpoints
from aiokube.api.selectors import matches
from aiokube.runtime.pacing import STEPS_A_YIELD, Steps, run_at_once
from endpointd.controllers.endpoints.desired import DesiredEndpoints
from endpointd.controllers.endpoints.entries import Entry, PodTranslator
from endpointd.controllers.endpoints.plan import Plan, plan_for_service
from endpointd.controllers.pods import rejection_of
from endpointd.controllers.trigger_time import TriggerTimes


class ServiceState:
    """One published service: its desired endpoints and unpublished trigger times.

    A state made without pods is incomplete until :meth:`fill` has loaded them in steps, and so is one whose
    service changed its pods' contributions. Pod changes may be applied at any time. A plan requires a
    complete state. :meth:`pod_changed` costs a binary search.
    """

    def __init__(
        self,
        service: Service,
        pods: Iterable[Pod] | None = None,
        rejected: Mapping[str, tuple[Entry, str]] | None = None,
    ) -> None:
        self.rejected: dict[str, tuple[Entry, str]] = dict(rejected or {})
        """By pod: entries that the API server has rejected, and why. They are omitted."""
        self.trigger_times = TriggerTimes(service.creation_timestamp)
        self.written_version = ""
        """The resource version of the last write, if it was stored as sent."""
        self.written_at: float | None = None
        """The start of the last write, by the controller's clock."""
        self.needs_plan = True
        """Whether anything may have changed since the last executed plan."""
        self._selector_before: Labels | None = None
        self._reset(service, pods)

    def _reset(self, service: Service, pods: Iterable[Pod] | None) -> None:
        self.service = service
        self._translator = PodTranslator(service)
        self.desired = DesiredEndpoints()
        self.is_complete = False
        if pods is not None:
            run_at_once(self.fill(pods))

    def fill(self, pods: Iterable[Pod]) -> Steps[None]:
        """Load all members, which must be read from the cache on demand. O(pods)."""
        desired = self.desired
        steps = 0
        for pod in pods:
            desired.set(pod.metadata.name, self._entry_of(pod))
            if self._selector_before is not None and not matches(self._selector_before, pod.labels):
                self.trigger_times.pod_changed(None, pod.ready_since)
            steps += 1
            if steps >= STEPS_A_YIELD:
                yield steps
                steps = 0
                if self.desired is not desired:
                    return  # the service has changed, and filling restarts
        if steps:
            yield steps
        if self.desired is desired:
            self.is_complete = True
            self._selector_before = None

    def _entry_of(self, pod: Pod) -> Entry | None:
        """Return a pod's entry; None while the server rejects it. A changed entry is tried again."""
        entry = self._translator.entry_of(pod)
        if self.rejected and pod.metadata.name in self.rejected:
            if self.rejected[pod.metadata.name][0] == entry:
                return None
            del self.rejected[pod.metadata.name]
        return entry

    def reject(self, address: EndpointAddress, problem: str) -> str | None:
        """Omit an address that the API server rejects until it changes; return its pod, or None."""
        pod = address.target_ref.name if address.target_ref is not None else None
        entry = self.desired.entry_of(pod) if pod is not None else None
        if pod is None or entry is None or entry.address != address:
            return None
        self.rejected[pod] = (entry, problem)
        self.desired.set(pod, None)
        self.needs_plan = True
        return pod

    def rejection_of(self, pod: Pod) -> str | None:
        """Return why a pod is omitted because the API server rejects its address, or None."""
        found = self.rejected.get(pod.metadata.name) if self.rejected else None
        if found is not None:
            return found[1]
        return rejection_of(pod, include_terminating=self.service.publish_not_ready_addresses)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> bool:
        """Apply a pod that joined (no old), left (no new) or changed; return whether published data may change."""
        self.trigger_times.pod_changed(
            old.ready_since if old is not None else None, new.ready_since if new is not None else None
        )
        pod = new if new is not None else old
        if pod is None:
            return False
        changed = self.desired.set(pod.metadata.name, self._entry_of(new) if new is not None else None)
        if new is None:
            self.rejected.pop(pod.metadata.name, None)
        self.needs_plan |= changed
        return changed

    def service_changed(self, service: Service, pods: Iterable[Pod] | None = None) -> None:
        """Apply a new version of the service.

        If its pods' contributions may change, the state becomes incomplete.

        ``pods``, the current members, are loaded immediately if given.
        """
        before = self.service
        self.needs_plan = True
        self.trigger_times.service_changed(service.creation_timestamp)
        if contributions_may_differ(before, service):
            if before.selector != service.selector and self._selector_before is None:
                self._selector_before = before.selector or {}
            self._reset(service, pods)
        else:
            self.service = self._translator.service = service

    def inherit(self, other: "ServiceState") -> None:
        """Inherit the data that no lister has: unpublished trigger times and the last write."""
        self.trigger_times = other.trigger_times
        self.written_version = other.written_version
        self.written_at = other.written_at
        self.rejected = dict(other.rejected)

    def snapshot(self) -> dict[str, object]:
        """Return a copy of the desired state, part by part, for comparison."""
        metadata = msgspec.structs.replace(self.service.metadata, resource_version="")
        service = msgspec.structs.replace(self.service, metadata=metadata)
        return {"the service": service, **self.desired.snapshot()}

    def plan(self, observed: Endpoints | None, trigger_time: str | None) -> Plan:
        """Return the pending write. O(published addresses)."""
        version = observed.metadata.resource_version if observed is not None else ""
        return plan_for_service(
            self.service,
            self.desired.wanted(),
            observed,
            trigger_time,
            is_canonical=bool(version) and version == self.written_version,
        )


def contributions_may_differ(before: Service, after: Service) -> bool:
    """Return whether pods may contribute differently, or other pods may contribute."""
    return (
        before.selector != after.selector
        or before.ports != after.ports
        or before.publish_not_ready_addresses is not after.publish_not_ready_addresses
        or before.ip_families != after.ip_families
        or before.cluster_ip != after.cluster_ip
        or before.metadata.key != after.metadata.key
    )
