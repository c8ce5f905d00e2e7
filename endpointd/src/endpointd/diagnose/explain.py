"""Explain why a pod is, or is not, in a service: its published endpoints and the chain of reasons. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from aiokube.api.endpoints import OVER_CAPACITY_ANNOTATION
from aiokube.api.events import Event
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodOutcome, PodTranslator
from endpointd.diagnose.changes import Settings, changes_of, managed_by, zone_ratios
from endpointd.diagnose.hints import hint_reasons
from endpointd.diagnose.ports import has_reachable_port, probe_text
from endpointd.diagnose.reasons import (
    Reason,
    is_selected,
    pod_reasons,
    selector_reasons,
    service_reasons,
)
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import (
    TrafficProblem,
    as_reason,
    expected_state,
    is_api_server_service,
    is_meant_to_serve,
    near_misses,
    node_of,
    traffic_problems,
)

Verdict = Literal[
    "ready", "not ready", "terminating", "out", "missing", "left over", "unreachable", "unknown"
]
"""How the pod is published; correctly unpublished (``out``); not published but should be (``missing``); published but should not be (``left over``); published and ready without any port, so that no traffic arrives (``unreachable``); or unknown from the collections that could be read."""

ServiceVerdict = Literal["works", "degraded", "no traffic", "alias", "unknown"]

_MAX_NEAR_MISSES = 10
_MAX_EVENTS = 3


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """A published endpoint of a pod."""

    slice: str
    address_type: str
    addresses: tuple[str, ...]
    ports: str
    """``http 8080/TCP``, several separated by commas, or ``none``."""
    zone: str
    for_zones: tuple[str, ...]


class EventLine(msgspec.Struct, frozen=True, rename="camel"):
    """One Event of a pod."""

    type: str
    reason: str
    message: str
    count: int
    last_seen: str


class ContainerLine(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The spec of one container."""

    name: str
    image: str = ""
    readiness_probe: str = ""


class PodExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of one pod for one service."""

    pod: str
    namespace: str
    verdict: Verdict
    is_selected: bool
    places: tuple[Place, ...]
    reasons: tuple[Reason, ...]
    in_endpoints: bool | None
    """Whether Endpoints also contain it; None if they do not exist or could not be read."""
    expected: Verdict | None = None
    """How the pod should be published according to the readable collections; set only if the verdict is ``unknown``."""
    node: str = ""
    containers: tuple[ContainerLine, ...] = ()
    events: tuple[EventLine, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The pod's key."""
        return ObjectKey(self.namespace, self.pod)


class AddressExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """An address that does not belong to a selected pod: hand-written, or written by another controller."""

    address: str
    is_ready: bool
    place: str
    """``Endpoints web``, ``EndpointSlice web-1 (by controller.example.com)``."""
    ports: str
    target: str
    """``Pod web-1``, or ``""`` without a target reference."""


class SliceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One slice that names the service."""

    name: str
    managed_by: str
    address_type: str
    ports: str
    endpoints: int
    ready: int


class ServiceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The explanation of a service and its pods."""

    namespace: str
    name: str
    type: str
    verdict: ServiceVerdict
    summary: str
    """The verdict in one line."""
    selector: str
    families: tuple[str, ...]
    ports: str
    reasons: tuple[Reason, ...]
    slices: tuple[SliceExplanation, ...] | None
    """None if slices could not be read."""
    pods: tuple[PodExplanation, ...]
    near_misses: int
    """The number of nearly matching pods; the nearest are in ``pods``."""
    addresses: tuple[AddressExplanation, ...] = ()
    assumed: str = ""


class NotFoundError(LookupError):
    """An object does not exist. The text suggests similar names, or namespaces that have an object of this name."""

    def __init__(self, kind: str, key: ObjectKey, elsewhere: Sequence[str], close: Sequence[str]) -> None:
        hint = ""
        if elsewhere:
            hint = f"; found in namespace {', '.join(elsewhere)}"
        elif close:
            hint = f"; did you mean {', '.join(close)}?"
        super().__init__(f"{kind} {key.name} not found in namespace {key.namespace}{hint}")
        self.kind = kind
        self.key = key
        self.has_hint = bool(hint)


class NoSuchServiceError(NotFoundError):
    """The service does not exist."""


def explain_service(
    index: ClusterIndex,
    key: ObjectKey,
    now: datetime,
    *,
    pod: ObjectKey | None = None,
    settings: Settings | None = None,
) -> ServiceExplanation:
    """Explain a service and the pods near it: those it selects, publishes or nearly selects.

    ``pod`` limits the explanation to one pod, even an unrelated one. Raises :class:`NoSuchServiceError`, and
    :class:`NotFoundError` if ``pod`` does not exist.
    """
    service = index.services.get(key)
    if service is None:
        raise NoSuchServiceError("service", key, *similar(key, index.services.values()))
    explainer = _Explainer(index, service, now)
    if pod is not None and index.pods.get(pod) is None and pod not in explainer.published:
        raise NotFoundError("pod", pod, *similar(pod, index.pods.values()))
    selected = sorted(index.membership.pods_of(key), key=lambda one: one.metadata.name)
    near = near_misses(index, service) if pod is None else []
    pod_keys = dict.fromkeys(key_of(one) for one in (*selected, *near[:_MAX_NEAR_MISSES]))
    if service.selector:
        pod_keys.update(dict.fromkeys(explainer.published))
    pods = tuple(explainer.explain(one) for one in ([pod] if pod is not None else pod_keys))
    problems = traffic_problems(index, service)
    addresses = tuple(_addresses(index, service))
    verdict, summary = _summed_up(index, service, selected, problems, pods if pod is None else (), addresses)
    return ServiceExplanation(
        namespace=key.namespace,
        name=key.name,
        type="headless" if service.cluster_ip == "None" else service.type or "ClusterIP",
        verdict=verdict,
        summary=summary,
        selector=",".join(f"{name}={value}" for name, value in (service.selector or {}).items()),
        families=PodTranslator(service, index.zone_of).address_types,
        ports=", ".join(
            f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol} -> {port.target_port}"
            for port in service.ports
        ),
        reasons=tuple(_of_service(index, service, problems, settings or Settings())),
        slices=tuple(_describe(endpoint_slice) for endpoint_slice in index.slices_by_service.get(key, ()))
        if index.could_read("endpointslices")
        else None,
        pods=pods,
        near_misses=len(near),
        addresses=addresses,
        assumed=index.snapshot.assumed,
    )


def services_near(index: ClusterIndex, key: ObjectKey) -> list[ObjectKey]:
    """Return the services that select a pod, publish it, or nearly select it, in this order."""
    pod = index.pods.get(key)
    selecting: list[ObjectKey] = []
    near: list[ObjectKey] = []
    for service in index.services.values():
        if service.metadata.namespace != key.namespace or service.is_external_name:
            continue
        if (pod is not None and is_selected(service, pod)) or any(
            endpoint.target_ref is not None and endpoint.target_ref.name == key.name
            for endpoint_slice in index.slices_by_service.get(key_of(service), ())
            for endpoint in endpoint_slice.endpoints or ()
        ):
            selecting.append(key_of(service))
        elif pod is not None and pod in near_misses(index, service):
            near.append(key_of(service))
    return [*sorted(selecting), *sorted(near)]


class _Explainer:
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
            events=_events_of(self._index.snapshot.events, key),
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


_SEE_CONTROLLER = "check that kube-controller-manager or endpointd is running, and its log for this service"


def _published_verdict(service: Service, published: Sequence[tuple[EndpointSlice, Endpoint]]) -> Verdict:
    conditions = [endpoint.conditions for _, endpoint in published]
    if any(one.ready is not False for one in conditions):
        has_port = not service.ports or any(endpoint_slice.ports for endpoint_slice, _ in published)
        return "ready" if has_port else "unreachable"
    return "terminating" if any(one.terminating for one in conditions) else "not ready"


def _events_of(events: Sequence[Event], key: ObjectKey) -> tuple[EventLine, ...]:
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


def with_events(found: ServiceExplanation, events: Sequence[Event]) -> ServiceExplanation:
    """Return an explanation with the Events of its pods."""
    if not events:
        return found
    names = {event.involved_object.name for event in events}
    pods = tuple(
        msgspec.structs.replace(pod, events=_events_of(events, pod.key)) if pod.pod in names else pod
        for pod in found.pods
    )
    return msgspec.structs.replace(found, pods=pods)


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


def ports_text(ports: Iterable[EndpointPort] | None) -> str:
    """Return the ports of a slice as one line."""
    texts = [
        f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol or 'TCP'}" for port in ports or ()
    ]
    return ", ".join(texts) or "none"


def _describe(endpoint_slice: EndpointSlice) -> SliceExplanation:
    endpoints = endpoint_slice.endpoints or ()
    return SliceExplanation(
        name=endpoint_slice.metadata.name,
        managed_by=managed_by(endpoint_slice),
        address_type=endpoint_slice.address_type,
        ports=ports_text(endpoint_slice.ports),
        endpoints=len(endpoints),
        ready=sum(endpoint.conditions.ready is not False for endpoint in endpoints),
    )


def _addresses(index: ClusterIndex, service: Service) -> Iterator[AddressExplanation]:
    """Yield the addresses of a service without a selector; mirrored addresses once, as those of the Endpoints."""
    if service.selector:
        return
    key = key_of(service)
    item = index.endpoints.get(key)
    seen: set[str] = set()
    if item is not None:
        for subset in item.subsets or ():
            ports = ports_text(
                EndpointPort(port.name, port.protocol, port.port) for port in subset.ports or ()
            )
            for addresses, is_ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
                for one in addresses or ():
                    target = one.target_ref
                    text = f"{target.kind} {target.name}" if target is not None else ""
                    seen.add(one.ip)
                    yield AddressExplanation(one.ip, is_ready, f"Endpoints {item.metadata.name}", ports, text)
    for endpoint_slice in index.slices_by_service.get(key, ()):
        for endpoint in endpoint_slice.endpoints or ():
            address = ", ".join(endpoint.addresses)
            if address in seen:
                continue
            target = endpoint.target_ref
            yield AddressExplanation(
                address,
                endpoint.conditions.ready is not False,
                f"EndpointSlice {endpoint_slice.metadata.name} (by {managed_by(endpoint_slice) or 'hand'})",
                ports_text(endpoint_slice.ports),
                f"{target.kind} {target.name}" if target is not None else "",
            )


def _summed_up(
    index: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    problems: Sequence[TrafficProblem],
    pods: Sequence[PodExplanation],
    addresses: Sequence[AddressExplanation],
) -> tuple[ServiceVerdict, str]:
    """Return the verdict and a one-line summary."""
    if service.is_external_name:
        return "alias", "is a DNS alias (ExternalName): it has no endpoints"
    worst = next(iter(sorted(problems, key=lambda one: (not one.stops_all, one.severity != "error"))), None)
    if worst is not None and worst.stops_all:
        return "no traffic", f"receives no traffic: {worst.cause}"
    if not service.selector:
        if not index.could_read("endpoints", "endpointslices") and not addresses:
            return "unknown", "has no selector, and not all of its endpoints could be read"
        ready = sum(one.is_ready for one in addresses)
        if is_api_server_service(service):
            published = (
                f"{ready:,} of {len(addresses):,} addresses are ready" if addresses else "none published"
            )
            return "works", f"belongs to the API servers: {published}"
        text = f"has no selector; {ready:,} of {len(addresses):,} published addresses are ready"
        if worst is not None and worst.severity == "error":
            return "degraded", f"{text}, but {worst.cause}"
        return "works", text
    if not index.could_read("pods"):
        return "unknown", "its pods could not be read"
    return _of_pods(index, service, selected, worst, pods)


def _of_pods(
    index: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    worst: TrafficProblem | None,
    pods: Sequence[PodExplanation],
) -> tuple[ServiceVerdict, str]:
    ready = sum(expected_state(outcome) == "ready" for outcome in index.outcomes_of(service).values())
    missing = sum(pod.verdict == "missing" for pod in pods)
    stale = sum(
        pod.verdict == "left over" or any(reason.code == "Stale" for reason in pod.reasons) for pod in pods
    )
    total = max(ready, sum(map(is_meant_to_serve, selected)))
    share = f"{ready:,} of {total:,} {'pod is' if total == 1 else 'pods are'} ready"
    behind = " and ".join(
        part
        for part in (f"{missing:,} missing" if missing else "", f"{stale:,} stale" if stale else "")
        if part
    )
    if missing and not any(pod.verdict == "ready" for pod in pods):
        return "no traffic", (
            f"receives no traffic: {share}, but no slice has them: the EndpointSlice controller is behind or not running"
        )
    if behind:
        return (
            "degraded",
            f"{share}, but its slices are out of date ({behind}): a controller is behind or not running",
        )
    if not index.could_read("endpointslices"):
        text = f"should receive traffic: {share} (slices could not be read)"
        return "unknown", f"{text}; {worst.cause}" if worst is not None else text
    if worst is not None and worst.severity != "note":
        return "degraded", f"{share}, but {worst.cause}"
    if worst is not None:
        return "degraded", worst.cause
    return "works", f"works: {share}"


def _of_service(
    index: ClusterIndex, service: Service, problems: Sequence[TrafficProblem], settings: Settings
) -> Iterator[Reason]:
    key = key_of(service)
    if is_api_server_service(service):
        yield Reason(
            "ApiServer",
            "note",
            "the API servers publish their own addresses for this service, so it needs no selector",
        )
    else:
        for reason in service_reasons(service):
            yield msgspec.structs.replace(reason, weight="note")
    yield from map(as_reason, sorted(problems, key=lambda one: _SEVERITIES.index(one.severity)))
    item = index.endpoints.get(key)
    if item is not None and OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}):
        yield Reason(
            "Truncated",
            "note",
            "the Endpoints object is limited to 1,000 addresses, and the service has more: consumers of Endpoints do not see all",
            "let consumers read EndpointSlices",
        )
    other_managers = {
        managed_by(endpoint_slice) or "no controller"
        for endpoint_slice in index.slices_by_service.get(key, ())
    }
    other_managers -= {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    if service.selector and not service.is_external_name:
        for other_manager in sorted(other_managers):
            yield Reason(
                "OthersClaim",
                "note",
                f"slices managed by {other_manager} also name this service: consumers use them in addition to ours",
                "check that this is intended",
            )
    changes = list(changes_of(index, key, settings, ratios=zone_ratios(index)))
    if changes:
        objects = "1 object differs" if len(changes) == 1 else f"{len(changes):,} objects differ"
        yield Reason(
            "Behind",
            "note",
            f"{objects} from the controllers' plan: see endpointd diff -n {key.namespace}",
            "check that the controllers are running",
        )
    if index.snapshot.unread:
        names = ", ".join(f"{unread.resource} ({unread.why})" for unread in index.snapshot.unread)
        yield Reason("Unread", "note", f"could not be read: {names}; results that depend on them are unknown")


_SEVERITIES = ("error", "warning", "note")


def similar(key: ObjectKey, items: Iterable[KubernetesObject]) -> tuple[list[str], list[str]]:
    """Return the namespaces that have an object of this name, and similar names in the same namespace."""
    keys = [key_of(item) for item in items]
    names = [one.name for one in keys if one.namespace == key.namespace]
    close = difflib.get_close_matches(key.name, names, n=3, cutoff=0.5)
    return sorted({one.namespace for one in keys if one.name == key.name}), close
