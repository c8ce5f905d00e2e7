"""Explain one pod of a service: its verdict, published endpoints, reasons and Events. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    Endpoint,
    EndpointSlice,
)
from aiokube.api.endpoints import OVER_CAPACITY_ANNOTATION
from aiokube.api.events import Event
from aiokube.api.meta import ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodOutcome
from endpointd.diagnose.changes import managed_by
from endpointd.diagnose.explanation import ContainerLine, EventLine, Place, PodExplanation, Verdict
from endpointd.diagnose.hints import hint_reasons
from endpointd.diagnose.ports import has_reachable_port, ports_text, probe_text
from endpointd.diagnose.reasons import (
    Reason,
    is_selected,
    pod_reasons,
    selector_reasons,
    service_reasons,
)
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import (
    expected_state,
    node_of,
)

_MAX_EVENTS = 3
_SEE_CONTROLLER = "check that kube-controller-manager or endpointd is running, and its log for this service"


class PodExplainer:
    """The data that all pods of one service share, computed once."""

    def __init__(self, index: ClusterIndex, service: Service, now: datetime) -> None:
        self._index = index
        self._service = service
        self._now = now
        self._outcomes = index.outcomes_of(service)
        self._service_reasons = tuple(service_reasons(service))
        self._endpoints = index.endpoints.get(key_of(service))
        self._in_endpoints = (
            frozenset(
                address.target_ref.name
                for subset in self._endpoints.subsets or ()
                for address in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
                if address.target_ref is not None
            )
            if self._endpoints is not None
            else None
        )
        self._has_slices = False
        self.published: dict[ObjectKey, list[tuple[EndpointSlice, Endpoint]]] = {}
        for endpoint_slice in index.slices_by_service.get(key_of(service), ()):
            self._has_slices |= managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            for endpoint in endpoint_slice.endpoints or ():
                target = endpoint.target_ref
                if target is not None and target.kind in (None, "Pod") and target.name:
                    key = ObjectKey(target.namespace or endpoint_slice.metadata.namespace, target.name)
                    self.published.setdefault(key, []).append((endpoint_slice, endpoint))

    def explain(self, key: ObjectKey) -> PodExplanation:
        """Explain one pod, which may no longer exist."""
        pod = self._index.pods.get(key)
        published = self.published.get(key, [])
        selected = pod is not None and is_selected(self._service, pod)
        outcome = self._outcomes.get(key) if selected else None
        reasons: list[Reason] = []
        details = self._index.details.get(key)
        if pod is None:
            reasons.append(self._absent())
        elif self._service_reasons:
            reasons += self._service_reasons
        elif selected:
            reasons += pod_reasons(
                self._service,
                pod,
                details,
                node_of(self._index, pod),
                self._now,
                node_counts_as_present=self._index.counts_as_present(pod.node_name),
            )
        else:
            reasons += selector_reasons(self._service, pod)
        verdict, expected = self._verdict(pod, outcome, published)
        reasons += self._publication(pod, verdict, outcome, published)
        if selected and published:
            reasons += hint_reasons(self._index, self._service, [endpoint for _, endpoint in published])
        return PodExplanation(
            pod=key.name,
            namespace=key.namespace,
            verdict=verdict,
            is_selected=selected,
            places=tuple(_place(endpoint_slice, endpoint) for endpoint_slice, endpoint in published),
            reasons=tuple(reasons),
            in_endpoints=None if self._in_endpoints is None else key.name in self._in_endpoints,
            expected=expected,
            node=pod.node_name if pod is not None else "",
            containers=tuple(
                ContainerLine(one.name or "", one.image or "", probe_text(one.readiness_probe))
                for one in details.containers
            )
            if details is not None
            else (),
            events=events_of(self._index.snapshot.events, key),
        )

    def _absent(self) -> Reason:
        if not self._index.could_read("pods"):
            return Reason("PodUnread", "note", "the pod could not be read")
        return Reason(
            "PodGone",
            "out",
            "the pod does not exist",
            "the controller removes the endpoint; check that it is running",
        )

    def _verdict(
        self,
        pod: Pod | None,
        outcome: PodOutcome | None,
        published: Sequence[tuple[EndpointSlice, Endpoint]],
    ) -> tuple[Verdict, Verdict | None]:
        """Return the verdict, and the expected one if it is ``unknown``."""
        index, service = self._index, self._service
        is_wanted = outcome is not None and any(one is not None for one in outcome.endpoints)
        if not index.could_read("endpointslices"):
            expected: Verdict = "out"
            if pod is not None and outcome is not None and is_wanted:
                expected = expected_state(outcome)
                if expected == "ready" and not has_reachable_port(service, pod):
                    expected = "unreachable"
            return "unknown", expected
        if pod is None and not index.could_read("pods"):
            return _published_verdict(service, published), None
        if not is_wanted:
            ours = any(
                managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
                for endpoint_slice, _ in published
            )
            if ours and service.selector and not service.is_external_name:
                return "left over", None
            return ("out" if not published else _published_verdict(service, published)), None
        if published:
            return _published_verdict(service, published), None
        if pod is not None and outcome is not None and self._may_lack_its_node(pod):
            return "unknown", expected_state(outcome)
        return "missing", None

    def _may_lack_its_node(self, pod: Pod) -> bool:
        """Return whether an unpublished pod may be correct because its node may not exist."""
        return (
            not self._index.could_read("nodes")
            and self._has_slices
            and not self._service.publish_not_ready_addresses
            and not self._index.is_node_published(pod.node_name)
        )

    def _publication(
        self,
        pod: Pod | None,
        verdict: Verdict,
        outcome: PodOutcome | None,
        published: Sequence[tuple[EndpointSlice, Endpoint]],
    ) -> Iterator[Reason]:
        if verdict == "missing":
            yield Reason(
                "NotYetPublished",
                "out",
                "it should be published, but no slice has it: the EndpointSlice controller is behind or not running",
                _SEE_CONTROLLER,
            )
        elif verdict == "left over":
            yield Reason(
                "LeftOver",
                "note",
                "a slice still has it: the EndpointSlice controller is behind or not running",
                _SEE_CONTROLLER,
            )
        elif verdict == "unknown" and pod is not None and self._index.could_read("endpointslices"):
            yield Reason(
                "NodeUnread",
                "note",
                f"no slice has it: either its node {pod.node_name} does not exist, or the EndpointSlice controller is behind "
                "or not running; nodes could not be read",
                "repeat with permission to list nodes",
                cause="no slice has it, and nodes could not be read",
            )
        elif outcome is not None and published:
            pod_keys = {one.endpoint.addresses: one.endpoint for one in outcome.endpoints if one is not None}
            for endpoint_slice, endpoint in published:
                wanted_endpoint = pod_keys.get(endpoint.addresses)
                if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER and (
                    wanted_endpoint is None or wanted_endpoint.conditions != endpoint.conditions
                ):
                    yield Reason(
                        "Stale",
                        "note",
                        f"slice {endpoint_slice.metadata.name} does not match the pod: the controller is behind or not running",
                        _SEE_CONTROLLER,
                        cause="a slice does not match the pod",
                    )
        if self._is_truncated(published):
            yield Reason(
                "Truncated",
                "note",
                "the Endpoints object is limited to 1,000 addresses and omits this one: consumers of Endpoints do not see it",
                "let consumers read EndpointSlices",
            )

    def _is_truncated(self, published: Sequence[tuple[EndpointSlice, Endpoint]]) -> bool:
        item = self._endpoints
        if item is None or not published or OVER_CAPACITY_ANNOTATION not in (item.metadata.annotations or {}):
            return False
        target = published[0][1].target_ref
        return target is not None and target.name not in (self._in_endpoints or ())


def _published_verdict(service: Service, published: Sequence[tuple[EndpointSlice, Endpoint]]) -> Verdict:
    conditions = [endpoint.conditions for _, endpoint in published]
    if any(one.ready is not False for one in conditions):
        has_port = not service.ports or any(endpoint_slice.ports for endpoint_slice, _ in published)
        return "ready" if has_port else "unreachable"
    return "terminating" if any(one.terminating for one in conditions) else "not ready"


def events_of(events: Sequence[Event], key: ObjectKey) -> tuple[EventLine, ...]:
    """Return the most important Events of a pod: warnings first, then the newest."""
    pod_events = [
        event
        for event in events
        if event.involved_object.name == key.name
        and event.involved_object.kind in ("Pod", None)
        and (event.involved_object.namespace or event.metadata.namespace) == key.namespace
    ]
    pod_events.sort(key=lambda event: (event.type == "Warning", _last_seen(event)), reverse=True)
    return tuple(
        EventLine(
            event.type or "",
            event.reason or "",
            event.message or "",
            (event.series.count if event.series else None) or event.count or 1,
            _last_seen(event),
        )
        for event in pod_events[:_MAX_EVENTS]
    )


def _last_seen(event: Event) -> str:
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def _place(endpoint_slice: EndpointSlice, endpoint: Endpoint) -> Place:
    hints = endpoint.hints.for_zones if endpoint.hints is not None else None
    return Place(
        slice=endpoint_slice.metadata.name,
        address_type=endpoint_slice.address_type,
        addresses=endpoint.addresses,
        ports=ports_text(endpoint_slice.ports),
        zone=endpoint.zone or "",
        for_zones=tuple(zone.name for zone in hints or ()),
    )
