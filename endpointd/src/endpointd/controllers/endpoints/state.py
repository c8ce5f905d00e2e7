"""What one service should have, kept as its pods change.

After any history the state equals one built from the listers, and so does its plan.
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
    """One service that is published: its desired endpoints, and the trigger times not yet told.

    A state made without pods is incomplete until :meth:`fill` has taken them in, in steps; so is one whose service has
    changed what its pods contribute. Changes of pods may be given to it before and meanwhile. No plan may be made before
    it is complete. :meth:`pod_changed` costs a binary search.
    """

    def __init__(
        self,
        service: Service,
        pods: Iterable[Pod] | None = None,
        rejected: Mapping[str, tuple[Entry, str]] | None = None,
    ) -> None:
        self.rejected: dict[str, tuple[Entry, str]] = dict(rejected or {})
        """By pod: entries that the API server has rejected, and why. They are left out."""
        self.trigger_times = TriggerTimes(service.creation_timestamp)
        self.written_version = ""
        """The resource version of the Endpoints as last written, if it was stored as it was sent."""
        self.written_at: float | None = None
        """When the last write was begun, by the controller's clock."""
        self.needs_plan = True
        """Whether something may be different since the last plan that was carried out."""
        self._selector_before: Labels | None = None
        self._begin(service, pods)

    def _begin(self, service: Service, pods: Iterable[Pod] | None) -> None:
        self.service = service
        self._translator = PodTranslator(service)
        self.desired = DesiredEndpoints()
        self.is_complete = False
        if pods is not None:
            run_at_once(self.fill(pods))

    def fill(self, pods: Iterable[Pod]) -> Steps[None]:
        """Take in all members, which must be read from the cache as they are asked for: O(pods)."""
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
                    return  # the service has changed meanwhile, and everything begins again
        if steps:
            yield steps
        if self.desired is desired:
            self.is_complete = True
            self._selector_before = None

    def _entry_of(self, pod: Pod) -> Entry | None:
        """Return what a pod contributes: nothing while the server rejects it; once it has changed it is tried again."""
        entry = self._translator.entry_of(pod)
        if self.rejected and pod.metadata.name in self.rejected:
            if self.rejected[pod.metadata.name][0] == entry:
                return None
            del self.rejected[pod.metadata.name]
        return entry

    def reject(self, address: EndpointAddress, problem: str) -> str | None:
        """Leave out an address that the API server rejects, until it changes; return its pod, None where there is none."""
        pod = address.target_ref.name if address.target_ref is not None else None
        entry = self.desired.entry_of(pod) if pod is not None else None
        if pod is None or entry is None or entry.address != address:
            return None
        self.rejected[pod] = (entry, problem)
        self.desired.set(pod, None)
        self.needs_plan = True
        return pod

    def rejection_of(self, pod: Pod) -> str | None:
        """Return why a pod is left out, as the API server rejects its address; None where it does not."""
        found = self.rejected.get(pod.metadata.name) if self.rejected else None
        if found is not None:
            return found[1]
        return rejection_of(pod, include_terminating=self.service.publish_not_ready_addresses)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> bool:
        """Take in that a pod joined (no old), left (no new) or changed; tell whether what is published may change."""
        self.trigger_times.pod_changed(
            old.ready_since if old is not None else None, new.ready_since if new is not None else None
        )
        pod = new if new is not None else old
        if pod is None:
            return False
        touched = self.desired.set(pod.metadata.name, self._entry_of(new) if new is not None else None)
        if new is None:
            self.rejected.pop(pod.metadata.name, None)
        self.needs_plan |= touched
        return touched

    def service_changed(self, service: Service, pods: Iterable[Pod] | None = None) -> None:
        """Take in a new version of the service. Where its pods may contribute something else, the state is incomplete.

        With ``pods``, its members now, it is filled with those at once.
        """
        before = self.service
        self.needs_plan = True
        self.trigger_times.service_changed(service.creation_timestamp)
        if contributions_may_differ(before, service):
            if before.selector != service.selector and self._selector_before is None:
                self._selector_before = before.selector or {}
            self._begin(service, pods)
        else:
            self.service = self._translator.service = service

    def take_over(self, other: "ServiceState") -> None:
        """Take from the state that this one replaces what no lister knows: times not yet told, and what was written."""
        self.trigger_times = other.trigger_times
        self.written_version = other.written_version
        self.written_at = other.written_at
        self.rejected = dict(other.rejected)

    def snapshot(self) -> dict[str, object]:
        """Return what is wanted of which service, part by part, to compare with another snapshot."""
        metadata = msgspec.structs.replace(self.service.metadata, resource_version="")
        service = msgspec.structs.replace(self.service, metadata=metadata)
        return {"the service": service, **self.desired.snapshot()}

    def plan(self, observed: Endpoints | None, trigger_time: str | None) -> Plan:
        """Return the write that is due: O(addresses published)."""
        version = observed.metadata.resource_version if observed is not None else ""
        return plan_for_service(
            self.service,
            self.desired.wanted(),
            observed,
            trigger_time,
            is_canonical=bool(version) and version == self.written_version,
        )


def contributions_may_differ(before: Service, after: Service) -> bool:
    """Tell whether a pod may contribute something else, or other pods may, than before."""
    return (
        before.selector != after.selector
        or before.ports != after.ports
        or before.publish_not_ready_addresses is not after.publish_not_ready_addresses
        or before.ip_families != after.ip_families
        or before.cluster_ip != after.cluster_ip
        or before.metadata.key != after.metadata.key
    )
