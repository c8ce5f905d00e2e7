"""Why is this pod (not) in this service: for each pod near it, where it stands, and the chain of reasons. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from endpointd.api.core import Pod, Service
from endpointd.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from endpointd.api.endpoints import OVER_CAPACITY_ANNOTATION
from endpointd.api.meta import ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodOutcome, PodTranslator
from endpointd.diagnose.changes import Settings, changes_of, managed_by, zone_ratios
from endpointd.diagnose.hints import hint_reasons
from endpointd.diagnose.reasons import (
    Reason,
    distance,
    is_selected,
    pod_reasons,
    selector_reasons,
    service_reasons,
)
from endpointd.diagnose.snapshot import World

Verdict = Literal["ready", "not ready", "terminating", "out", "missing", "left over"]
"""In, and how; out, and rightly so; not in although it should be; in although it should not be."""

_MOST_NEAR_MISSES = 10
_NEAR_MISS = 0.7


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """Where an endpoint stands."""

    slice: str
    address_type: str
    addresses: tuple[str, ...]
    ports: str
    """``http 8080/TCP``, several with commas, ``none``."""
    zone: str
    for_zones: tuple[str, ...]


class PodExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One pod and one service."""

    pod: str
    namespace: str
    verdict: Verdict
    is_selected: bool
    places: tuple[Place, ...]
    reasons: tuple[Reason, ...]
    in_endpoints: bool | None
    """Whether it stands in the Endpoints, too; None where there is none."""


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
    selector: str
    families: tuple[str, ...]
    ports: str
    reasons: tuple[Reason, ...]
    slices: tuple[SliceExplanation, ...]
    pods: tuple[PodExplanation, ...]
    near_misses: int
    """How many pods nearly match; the nearest stand among the pods."""


class NoSuchServiceError(LookupError):
    """There is no such service; the text names those with a similar name."""


def explain_service(
    world: World,
    key: ObjectKey,
    now: datetime,
    *,
    pod: ObjectKey | None = None,
    settings: Settings | None = None,
) -> ServiceExplanation:
    """Explain a service and the pods near it: those it selects, those it holds, and those it nearly selects.

    ``pod`` explains that one pod alone, however far it is from the service. Raises :class:`NoSuchServiceError`, and
    ``LookupError`` where there is no such pod.
    """
    service = world.services.get(key)
    if service is None:
        raise NoSuchServiceError(_no_such("service", key, world.services.values(), world))
    if pod is not None and world.pods.get(pod) is None and not _places_of(world, key, pod):
        raise LookupError(_no_such("pod", pod, world.pods.values(), world))
    explainer = _Explainer(world, service, now)
    selected = sorted(world.membership.pods_of(key), key=lambda one: one.metadata.name)
    near = () if pod is not None else _near_misses(world, service)
    wanted = [key_of(one) for one in (*selected, *near[:_MOST_NEAR_MISSES])]
    wanted += [held for held in explainer.held if held not in wanted]
    return ServiceExplanation(
        namespace=key.namespace,
        name=key.name,
        type="headless" if service.cluster_ip == "None" else service.type or "ClusterIP",
        selector=",".join(f"{name}={value}" for name, value in (service.selector or {}).items()),
        families=PodTranslator(service, world.zone_of).address_types,
        ports=", ".join(
            f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol} -> {port.target_port}"
            for port in service.ports
        ),
        reasons=tuple(_of_service(world, service, settings or Settings())),
        slices=tuple(_describe(piece) for piece in world.slices_by_service.get(key, ())),
        pods=tuple(explainer.explain(one) for one in ([pod] if pod is not None else wanted)),
        near_misses=len(near),
    )


class _Explainer:
    """What the pods of one service have in common, worked out once."""

    def __init__(self, world: World, service: Service, now: datetime) -> None:
        self._world = world
        self._service = service
        self._now = now
        self._translator = PodTranslator(service, world.zone_of)
        self._endpoints = world.endpoints.get(key_of(service))
        self.held: dict[ObjectKey, list[tuple[EndpointSlice, Endpoint]]] = {}
        for piece in world.slices_by_service.get(key_of(service), ()):
            for endpoint in piece.endpoints or ():
                target = endpoint.target_ref
                if target is not None and target.kind in (None, "Pod") and target.name:
                    key = ObjectKey(target.namespace or piece.metadata.namespace, target.name)
                    self.held.setdefault(key, []).append((piece, endpoint))

    def explain(self, key: ObjectKey) -> PodExplanation:
        pod = self._world.pods.get(key)
        held = self.held.get(key, [])
        selected = pod is not None and is_selected(self._service, pod)
        outcome = self._translator.outcome(pod) if pod is not None and selected else None
        reasons = list(service_reasons(self._service)) if pod is not None else []
        if pod is None:
            reasons.append(
                Reason(
                    "PodGone", "out", "there is no such pod", "the controller takes it out; is it running?"
                )
            )
        elif not reasons:
            if selected:
                zone = self._world.zone_of(pod.node_name)
                reasons += pod_reasons(self._service, pod, self._world.details.get(key), zone, self._now)
            else:
                reasons += selector_reasons(self._service, pod)
        verdict = self._verdict(outcome, held)
        reasons += self._publication(verdict, outcome, held)
        if selected and held:
            reasons += hint_reasons(self._world, self._service, [endpoint for _, endpoint in held])
        return PodExplanation(
            pod=key.name,
            namespace=key.namespace,
            verdict=verdict,
            is_selected=selected,
            places=tuple(_place(piece, endpoint) for piece, endpoint in held),
            reasons=tuple(reasons),
            in_endpoints=self._in_endpoints(key),
        )

    def _verdict(self, outcome: PodOutcome | None, held: Sequence[tuple[EndpointSlice, Endpoint]]) -> Verdict:
        wanted = [one for one in outcome.endpoints if one is not None] if outcome is not None else []
        ours = [
            endpoint for piece, endpoint in held if managed_by(piece) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        ]
        if not wanted:
            return "left over" if ours and self._is_looked_after() else ("out" if not held else _state(held))
        if not held:
            return "missing"
        return _state(held)

    def _is_looked_after(self) -> bool:
        return bool(self._service.selector) and not self._service.is_external_name

    def _publication(
        self,
        verdict: Verdict,
        outcome: PodOutcome | None,
        held: Sequence[tuple[EndpointSlice, Endpoint]],
    ) -> Iterator[Reason]:
        if verdict == "missing":
            yield Reason(
                "NotYetPublished",
                "out",
                "nothing keeps it out, and no slice holds it: the EndpointSlice controller has not come to it, or does "
                "not run",
                "see that kube-controller-manager or endpointd runs, and what it logs about this service",
            )
        elif verdict == "left over":
            yield Reason(
                "LeftOver",
                "note",
                "a slice holds it all the same: the EndpointSlice controller has not come to it, or does not run",
                "see that kube-controller-manager or endpointd runs, and what it logs about this service",
            )
        elif outcome is not None and held:
            wanted = {one.endpoint.addresses: one.endpoint for one in outcome.endpoints if one is not None}
            for piece, endpoint in held:
                right = wanted.get(endpoint.addresses)
                if managed_by(piece) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER and (
                    right is None or right.conditions != endpoint.conditions
                ):
                    yield Reason(
                        "Stale",
                        "note",
                        f"slice {piece.metadata.name} does not say what the pod says: the controller is behind, or does "
                        "not run",
                    )
        if self._in_endpoints_is_cut(held):
            yield Reason(
                "Truncated",
                "note",
                "the Endpoints of the service hold 1,000 addresses, and this one is not among them: old consumers do not "
                "see it",
                "have consumers read EndpointSlices",
            )

    def _in_endpoints(self, key: ObjectKey) -> bool | None:
        if self._endpoints is None:
            return None
        return any(
            address.target_ref is not None and address.target_ref.name == key.name
            for subset in self._endpoints.subsets or ()
            for address in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
        )

    def _in_endpoints_is_cut(self, held: Sequence[tuple[EndpointSlice, Endpoint]]) -> bool:
        item = self._endpoints
        if item is None or not held or OVER_CAPACITY_ANNOTATION not in (item.metadata.annotations or {}):
            return False
        target = held[0][1].target_ref
        return target is not None and not self._in_endpoints(ObjectKey("", target.name or ""))


def _state(held: Sequence[tuple[EndpointSlice, Endpoint]]) -> Verdict:
    conditions = [endpoint.conditions for _, endpoint in held]
    if any(one.ready is not False for one in conditions):
        return "ready"
    return "terminating" if any(one.terminating for one in conditions) else "not ready"


def _near_misses(world: World, service: Service) -> list[Pod]:
    if not service.selector or service.is_external_name:
        return []
    scored = [
        (distance(service, pod), pod.metadata.name, pod)
        for pod in world.pods.in_namespace(service.metadata.namespace)
    ]
    return [pod for score, _, pod in sorted(scored, key=lambda one: one[:2]) if 0 < score < _NEAR_MISS]


def _places_of(world: World, key: ObjectKey, pod: ObjectKey) -> bool:
    return any(
        endpoint.target_ref is not None and endpoint.target_ref.name == pod.name
        for piece in world.slices_by_service.get(key, ())
        for endpoint in piece.endpoints or ()
    )


def _place(piece: EndpointSlice, endpoint: Endpoint) -> Place:
    hints = endpoint.hints.for_zones if endpoint.hints is not None else None
    return Place(
        slice=piece.metadata.name,
        address_type=piece.address_type,
        addresses=endpoint.addresses,
        ports=ports_text(piece.ports),
        zone=endpoint.zone or "",
        for_zones=tuple(zone.name for zone in hints or ()),
    )


def ports_text(ports: Iterable[EndpointPort] | None) -> str:
    """Return the ports of a slice in a line."""
    texts = [
        f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol or 'TCP'}" for port in ports or ()
    ]
    return ", ".join(texts) or "none"


def _describe(piece: EndpointSlice) -> SliceExplanation:
    endpoints = piece.endpoints or ()
    return SliceExplanation(
        name=piece.metadata.name,
        managed_by=managed_by(piece),
        address_type=piece.address_type,
        ports=ports_text(piece.ports),
        endpoints=len(endpoints),
        ready=sum(endpoint.conditions.ready is not False for endpoint in endpoints),
    )


def _of_service(world: World, service: Service, settings: Settings) -> Iterator[Reason]:
    key = key_of(service)
    yield from service_reasons(service)
    if service.selector and not service.is_external_name and not any(world.membership.pods_of(key)):
        yield Reason(
            "NothingSelected",
            "note",
            "the selector takes no pod in this namespace",
            "compare it with the labels of the pods' template",
        )
    strangers = {managed_by(piece) or "nobody" for piece in world.slices_by_service.get(key, ())}
    strangers -= {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for stranger in sorted(strangers):
        yield Reason(
            "OthersClaim",
            "note",
            f"slices managed by {stranger} name this service, too: consumers use them beside ours",
            "make sure that this is meant",
        )
    changes = list(changes_of(world, key, settings, ratios=zone_ratios(world)))
    if changes:
        yield Reason(
            "Behind",
            "note",
            f"{len(changes)} objects are not what they should be: see endpointd diff",
            "see that the controllers run",
        )
    for unread in world.snapshot.unread:
        yield Reason(
            "Unread",
            "note",
            f"{unread.resource} could not be read: {unread.why}",
            "grant the right to list them",
        )


def _no_such(what: str, key: ObjectKey, items: Iterable[Pod | Service], world: World) -> str:
    import difflib

    names = [item.metadata.name for item in items if item.metadata.namespace == key.namespace]
    close = difflib.get_close_matches(key.name, names, n=3, cutoff=0.5)
    elsewhere = sorted({item.metadata.namespace for item in items if item.metadata.name == key.name})
    hint = ""
    if elsewhere:
        hint = f"; there is one in namespace {', '.join(elsewhere)}"
    elif close:
        hint = f"; did you mean {', '.join(close)}?"
    return f"there is no {what} {key.name} in namespace {key.namespace}{hint}"
