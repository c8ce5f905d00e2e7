"""Why is this pod (not) in this service: for each pod near it, where it is published, and the chain of reasons. Pure."""

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
    is_meant_to_serve,
    is_of_the_api_servers,
    near_misses,
    node_of,
    traffic_problems,
)

Verdict = Literal[
    "ready", "not ready", "terminating", "out", "missing", "left over", "unreachable", "unknown"
]
"""Published, and how; rightly not published; not published although it should be; published although it should not be;
published and ready without any port, so that no traffic arrives; cannot be known from what was read."""

ServiceVerdict = Literal["works", "degraded", "no traffic", "alias", "unknown"]

_MOST_NEAR_MISSES = 10
_MOST_EVENTS = 3


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """Where an endpoint is published."""

    slice: str
    address_type: str
    addresses: tuple[str, ...]
    ports: str
    """``http 8080/TCP``, several with commas, ``none``."""
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
    """One container as it was asked for."""

    name: str
    image: str = ""
    readiness_probe: str = ""


class PodExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One pod and one service."""

    pod: str
    namespace: str
    verdict: Verdict
    is_selected: bool
    places: tuple[Place, ...]
    reasons: tuple[Reason, ...]
    in_endpoints: bool | None
    """Whether it is in the Endpoints, too; None where there is none or it could not be read."""
    expected: Verdict | None = None
    """How it should be published by what was read; only where the verdict is ``unknown``."""
    node: str = ""
    containers: tuple[ContainerLine, ...] = ()
    events: tuple[EventLine, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The pod's key."""
        return ObjectKey(self.namespace, self.pod)


class AddressExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """An address that does not come from a selected pod: written by hand, or by another controller."""

    address: str
    is_ready: bool
    place: str
    """``Endpoints web``, ``EndpointSlice web-1 (by somebody.example.com)``."""
    ports: str
    target: str
    """``Pod web-1``, ``""`` where it refers to nothing."""


class SliceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One slice that names the service."""

    name: str
    managed_by: str
    address_type: str
    ports: str
    endpoints: int
    ready: int


class ServiceExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """A service, whole."""

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
    """None where slices could not be read."""
    pods: tuple[PodExplanation, ...]
    near_misses: int
    """How many pods nearly match; the nearest are among the pods."""
    addresses: tuple[AddressExplanation, ...] = ()
    assumed: str = ""


class NotFoundError(LookupError):
    """There is no such object; the text names those with a similar name, and namespaces that have one of this name."""

    def __init__(self, kind: str, key: ObjectKey, elsewhere: Sequence[str], close: Sequence[str]) -> None:
        hint = ""
        if elsewhere:
            hint = f"; there is one in namespace {', '.join(elsewhere)}"
        elif close:
            hint = f"; did you mean {', '.join(close)}?"
        super().__init__(f"there is no {kind} {key.name} in namespace {key.namespace}{hint}")
        self.kind = kind
        self.key = key
        self.has_hint = bool(hint)


class NoSuchServiceError(NotFoundError):
    """There is no such service."""


def explain_service(
    world: ClusterIndex,
    key: ObjectKey,
    now: datetime,
    *,
    pod: ObjectKey | None = None,
    settings: Settings | None = None,
) -> ServiceExplanation:
    """Explain a service and the pods near it: those it selects, those it publishes, and those it nearly selects.

    ``pod`` explains that one pod alone, however far it is from the service. Raises :class:`NoSuchServiceError`, and
    :class:`NotFoundError` where there is no such pod.
    """
    service = world.services.get(key)
    if service is None:
        raise NoSuchServiceError("service", key, *similar(key, world.services.values()))
    explainer = _Explainer(world, service, now)
    if pod is not None and world.pods.get(pod) is None and pod not in explainer.held:
        raise NotFoundError("pod", pod, *similar(pod, world.pods.values()))
    selected = sorted(world.membership.pods_of(key), key=lambda one: one.metadata.name)
    near = near_misses(world, service) if pod is None else []
    wanted = dict.fromkeys(key_of(one) for one in (*selected, *near[:_MOST_NEAR_MISSES]))
    if service.selector:
        wanted.update(dict.fromkeys(explainer.held))
    pods = tuple(explainer.explain(one) for one in ([pod] if pod is not None else wanted))
    problems = traffic_problems(world, service)
    addresses = tuple(_addresses(world, service))
    verdict, summary = _summed_up(world, service, selected, problems, pods if pod is None else (), addresses)
    return ServiceExplanation(
        namespace=key.namespace,
        name=key.name,
        type="headless" if service.cluster_ip == "None" else service.type or "ClusterIP",
        verdict=verdict,
        summary=summary,
        selector=",".join(f"{name}={value}" for name, value in (service.selector or {}).items()),
        families=PodTranslator(service, world.zone_of).address_types,
        ports=", ".join(
            f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol} -> {port.target_port}"
            for port in service.ports
        ),
        reasons=tuple(_of_service(world, service, problems, settings or Settings())),
        slices=tuple(_describe(endpoint_slice) for endpoint_slice in world.slices_by_service.get(key, ()))
        if world.could_read("endpointslices")
        else None,
        pods=pods,
        near_misses=len(near),
        addresses=addresses,
        assumed=world.snapshot.assumed,
    )


def services_near(world: ClusterIndex, key: ObjectKey) -> list[ObjectKey]:
    """Return the services that select a pod, publish it, or nearly select it, in this order."""
    pod = world.pods.get(key)
    selecting: list[ObjectKey] = []
    near: list[ObjectKey] = []
    for service in world.services.values():
        if service.metadata.namespace != key.namespace or service.is_external_name:
            continue
        if (pod is not None and is_selected(service, pod)) or any(
            endpoint.target_ref is not None and endpoint.target_ref.name == key.name
            for endpoint_slice in world.slices_by_service.get(key_of(service), ())
            for endpoint in endpoint_slice.endpoints or ()
        ):
            selecting.append(key_of(service))
        elif pod is not None and pod in near_misses(world, service):
            near.append(key_of(service))
    return [*sorted(selecting), *sorted(near)]


class _Explainer:
    """What the pods of one service have in common, computed once."""

    def __init__(self, world: ClusterIndex, service: Service, now: datetime) -> None:
        self._world = world
        self._service = service
        self._now = now
        self._outcomes = world.outcomes_of(service)
        self._service_reasons = tuple(service_reasons(service))
        self._endpoints = world.endpoints.get(key_of(service))
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
        self.held: dict[ObjectKey, list[tuple[EndpointSlice, Endpoint]]] = {}
        for endpoint_slice in world.slices_by_service.get(key_of(service), ()):
            self._has_slices |= managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            for endpoint in endpoint_slice.endpoints or ():
                target = endpoint.target_ref
                if target is not None and target.kind in (None, "Pod") and target.name:
                    key = ObjectKey(target.namespace or endpoint_slice.metadata.namespace, target.name)
                    self.held.setdefault(key, []).append((endpoint_slice, endpoint))

    def explain(self, key: ObjectKey) -> PodExplanation:
        pod = self._world.pods.get(key)
        held = self.held.get(key, [])
        selected = pod is not None and is_selected(self._service, pod)
        outcome = self._outcomes.get(key) if selected else None
        reasons: list[Reason] = []
        details = self._world.details.get(key)
        if pod is None:
            reasons.append(self._absent())
        elif self._service_reasons:
            reasons += self._service_reasons
        elif selected:
            reasons += pod_reasons(
                self._service,
                pod,
                details,
                node_of(self._world, pod),
                self._now,
                node_counts_as_present=self._world.counts_as_present(pod.node_name),
            )
        else:
            reasons += selector_reasons(self._service, pod)
        verdict, expected = self._verdict(pod, outcome, held)
        reasons += self._publication(pod, verdict, outcome, held)
        if selected and held:
            reasons += hint_reasons(self._world, self._service, [endpoint for _, endpoint in held])
        return PodExplanation(
            pod=key.name,
            namespace=key.namespace,
            verdict=verdict,
            is_selected=selected,
            places=tuple(_place(endpoint_slice, endpoint) for endpoint_slice, endpoint in held),
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
            events=_events_of(self._world.snapshot.events, key),
        )

    def _absent(self) -> Reason:
        if not self._world.could_read("pods"):
            return Reason("PodUnread", "note", "the pod could not be read")
        return Reason("PodGone", "out", "there is no such pod", "the controller removes it; see that it runs")

    def _verdict(
        self,
        pod: Pod | None,
        outcome: PodOutcome | None,
        held: Sequence[tuple[EndpointSlice, Endpoint]],
    ) -> tuple[Verdict, Verdict | None]:
        """Return the verdict, and where it is ``unknown`` what is to be expected."""
        world, service = self._world, self._service
        is_wanted = outcome is not None and any(one is not None for one in outcome.endpoints)
        if not world.could_read("endpointslices"):
            expected: Verdict = "out"
            if pod is not None and outcome is not None and is_wanted:
                expected = expected_state(outcome)
                if expected == "ready" and not has_reachable_port(service, pod):
                    expected = "unreachable"
            return "unknown", expected
        if pod is None and not world.could_read("pods"):
            return _state(service, held), None
        if not is_wanted:
            ours = any(
                managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
                for endpoint_slice, _ in held
            )
            if ours and service.selector and not service.is_external_name:
                return "left over", None
            return ("out" if not held else _state(service, held)), None
        if held:
            return _state(service, held), None
        if pod is not None and outcome is not None and self._may_lack_its_node(pod):
            return "unknown", expected_state(outcome)
        return "missing", None

    def _may_lack_its_node(self, pod: Pod) -> bool:
        """Tell whether it is unknown if the pod's node exists, where an unpublished pod would be right if it does not."""
        return (
            not self._world.could_read("nodes")
            and self._has_slices
            and not self._service.publish_not_ready_addresses
            and not self._world.is_node_published(pod.node_name)
        )

    def _publication(
        self,
        pod: Pod | None,
        verdict: Verdict,
        outcome: PodOutcome | None,
        held: Sequence[tuple[EndpointSlice, Endpoint]],
    ) -> Iterator[Reason]:
        if verdict == "missing":
            yield Reason(
                "NotYetPublished",
                "out",
                "nothing keeps it out, and no slice has it: the EndpointSlice controller is behind or not running",
                _SEE_CONTROLLER,
            )
        elif verdict == "left over":
            yield Reason(
                "LeftOver",
                "note",
                "a slice still has it: the EndpointSlice controller is behind or not running",
                _SEE_CONTROLLER,
            )
        elif verdict == "unknown" and pod is not None and self._world.could_read("endpointslices"):
            yield Reason(
                "NodeUnread",
                "note",
                f"no slice has it: either its node {pod.node_name} does not exist, or the EndpointSlice controller is behind "
                "or not running; nodes could not be read",
                "ask with the permission to list nodes",
                cause="no slice has it, and nodes could not be read",
            )
        elif outcome is not None and held:
            wanted = {one.endpoint.addresses: one.endpoint for one in outcome.endpoints if one is not None}
            for endpoint_slice, endpoint in held:
                right = wanted.get(endpoint.addresses)
                if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER and (
                    right is None or right.conditions != endpoint.conditions
                ):
                    yield Reason(
                        "Stale",
                        "note",
                        f"slice {endpoint_slice.metadata.name} does not match the pod: the controller is behind or not running",
                        _SEE_CONTROLLER,
                        cause="a slice does not match the pod",
                    )
        if self._is_truncated(held):
            yield Reason(
                "Truncated",
                "note",
                "the Endpoints of the service hold 1,000 addresses, and not this one: consumers of Endpoints do not see it",
                "have consumers read EndpointSlices",
            )

    def _is_truncated(self, held: Sequence[tuple[EndpointSlice, Endpoint]]) -> bool:
        item = self._endpoints
        if item is None or not held or OVER_CAPACITY_ANNOTATION not in (item.metadata.annotations or {}):
            return False
        target = held[0][1].target_ref
        return target is not None and target.name not in (self._in_endpoints or ())


_SEE_CONTROLLER = "check that kube-controller-manager or endpointd runs, and what it logs about this service"


def _state(service: Service, held: Sequence[tuple[EndpointSlice, Endpoint]]) -> Verdict:
    conditions = [endpoint.conditions for _, endpoint in held]
    if any(one.ready is not False for one in conditions):
        has_port = not service.ports or any(endpoint_slice.ports for endpoint_slice, _ in held)
        return "ready" if has_port else "unreachable"
    return "terminating" if any(one.terminating for one in conditions) else "not ready"


def _events_of(events: Sequence[Event], key: ObjectKey) -> tuple[EventLine, ...]:
    mine = [
        event
        for event in events
        if event.involved_object.name == key.name
        and event.involved_object.kind in ("Pod", None)
        and (event.involved_object.namespace or event.metadata.namespace) == key.namespace
    ]
    mine.sort(key=lambda event: (event.type == "Warning", _last_seen(event)), reverse=True)
    return tuple(
        EventLine(
            event.type or "",
            event.reason or "",
            event.message or "",
            (event.series.count if event.series else None) or event.count or 1,
            _last_seen(event),
        )
        for event in mine[:_MOST_EVENTS]
    )


def _last_seen(event: Event) -> str:
    series = event.series.last_observed_time if event.series else None
    return series or event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""


def with_events(found: ServiceExplanation, events: Sequence[Event]) -> ServiceExplanation:
    """Return an explanation with the Events of its pods."""
    if not events:
        return found
    about = {event.involved_object.name for event in events}
    pods = tuple(
        msgspec.structs.replace(pod, events=_events_of(events, pod.key)) if pod.pod in about else pod
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
    """Return the ports of a slice in a line."""
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


def _addresses(world: ClusterIndex, service: Service) -> Iterator[AddressExplanation]:
    """Return the addresses of a service without a selector; mirrored ones once, as those of the Endpoints."""
    if service.selector:
        return
    key = key_of(service)
    item = world.endpoints.get(key)
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
    for endpoint_slice in world.slices_by_service.get(key, ()):
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
    world: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    problems: Sequence[TrafficProblem],
    pods: Sequence[PodExplanation],
    addresses: Sequence[AddressExplanation],
) -> tuple[ServiceVerdict, str]:
    """Return the verdict, in a word and in a line."""
    if service.is_external_name:
        return "alias", "is a DNS alias (ExternalName): it has no endpoints"
    worst = next(iter(sorted(problems, key=lambda one: (not one.stops_all, one.severity != "error"))), None)
    if worst is not None and worst.stops_all:
        return "no traffic", f"receives no traffic: {worst.cause}"
    if not service.selector:
        if not world.could_read("endpoints", "endpointslices") and not addresses:
            return "unknown", "has no selector, and its endpoints could not all be read"
        ready = sum(one.is_ready for one in addresses)
        if is_of_the_api_servers(service):
            published = (
                f"{ready:,} of {len(addresses):,} addresses are ready" if addresses else "they publish none"
            )
            return "works", f"belongs to the API servers: {published}"
        text = f"has no selector; {ready:,} of {len(addresses):,} addresses written for it are ready"
        if worst is not None and worst.severity == "error":
            return "degraded", f"{text}, but {worst.cause}"
        return "works", text
    if not world.could_read("pods"):
        return "unknown", "its pods could not be read"
    return _of_pods(world, service, selected, worst, pods)


def _of_pods(
    world: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    worst: TrafficProblem | None,
    pods: Sequence[PodExplanation],
) -> tuple[ServiceVerdict, str]:
    ready = sum(expected_state(outcome) == "ready" for outcome in world.outcomes_of(service).values())
    missing = sum(pod.verdict == "missing" for pod in pods)
    stale = sum(
        pod.verdict == "left over" or any(reason.code == "Stale" for reason in pod.reasons) for pod in pods
    )
    in_all = max(ready, sum(map(is_meant_to_serve, selected)))
    share = f"{ready:,} of {in_all:,} {'pod is' if in_all == 1 else 'pods are'} ready"
    behind = " and ".join(
        part
        for part in (f"{missing:,} missing" if missing else "", f"{stale:,} stale" if stale else "")
        if part
    )
    if missing and not any(pod.verdict == "ready" for pod in pods):
        return "no traffic", (
            f"receives no traffic: {share}, and no slice has them: the EndpointSlice controller is behind or not running"
        )
    if behind:
        return (
            "degraded",
            f"{share}, but its slices are out of date ({behind}): a controller is behind or not running",
        )
    if not world.could_read("endpointslices"):
        text = f"should receive traffic: {share} (slices were not read)"
        return "unknown", f"{text}; {worst.cause}" if worst is not None else text
    if worst is not None and worst.severity != "note":
        return "degraded", f"{share}, but {worst.cause}"
    if worst is not None:
        return "degraded", worst.cause
    return "works", f"works: {share}"


def _of_service(
    world: ClusterIndex, service: Service, problems: Sequence[TrafficProblem], settings: Settings
) -> Iterator[Reason]:
    key = key_of(service)
    if is_of_the_api_servers(service):
        yield Reason(
            "ApiServer",
            "note",
            "the API servers write their own addresses for this service: it needs no selector",
        )
    else:
        for reason in service_reasons(service):
            yield msgspec.structs.replace(reason, weight="note")
    yield from map(as_reason, sorted(problems, key=lambda one: _SEVERITIES.index(one.severity)))
    item = world.endpoints.get(key)
    if item is not None and OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}):
        yield Reason(
            "Truncated",
            "note",
            "the Endpoints hold 1,000 addresses, and the service has more: consumers of Endpoints do not see all",
            "have consumers read EndpointSlices",
        )
    strangers = {
        managed_by(endpoint_slice) or "nobody" for endpoint_slice in world.slices_by_service.get(key, ())
    }
    strangers -= {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    if service.selector and not service.is_external_name:
        for stranger in sorted(strangers):
            yield Reason(
                "OthersClaim",
                "note",
                f"slices managed by {stranger} name this service, too: consumers use them beside ours",
                "make sure that this is intended",
            )
    changes = list(changes_of(world, key, settings, ratios=zone_ratios(world)))
    if changes:
        objects = "1 object is" if len(changes) == 1 else f"{len(changes):,} objects are"
        yield Reason(
            "Behind",
            "note",
            f"{objects} not as the controllers would write them: see endpointd diff -n {key.namespace}",
            "check that the controllers run",
        )
    if world.snapshot.unread:
        names = ", ".join(f"{unread.resource} ({unread.why})" for unread in world.snapshot.unread)
        yield Reason("Unread", "note", f"could not be read: {names}; nothing is said of what depends on them")


_SEVERITIES = ("error", "warning", "note")


def similar(key: ObjectKey, items: Iterable[KubernetesObject]) -> tuple[list[str], list[str]]:
    """Return the namespaces that have an object of this name, and similar names in its own namespace."""
    keys = [key_of(item) for item in items]
    names = [one.name for one in keys if one.namespace == key.namespace]
    close = difflib.get_close_matches(key.name, names, n=3, cutoff=0.5)
    return sorted({one.namespace for one in keys if one.name == key.name}), close
