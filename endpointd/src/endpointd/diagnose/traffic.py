"""Check whether a service can receive traffic: its selector, pods, ports and hand-written endpoints. Pure.

This checks services and pods, not the controllers' output: a broken service is published correctly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from aiokube.api.core import Node, Pod, Service
from aiokube.api.discovery import SKIP_MIRROR_LABEL
from aiokube.api.meta import ObjectKey, key_of
from endpointd.controllers.endpointslice.desired import PodOutcome
from endpointd.controllers.pods import TERMINAL_PHASES
from endpointd.diagnose.changes import managed_by
from endpointd.diagnose.ports import PortProblem, port_name, port_problems
from endpointd.diagnose.reasons import (
    UNKNOWN,
    Reason,
    Unknown,
    distance,
    pod_reasons,
    selector_reasons,
)
from endpointd.diagnose.snapshot import ClusterIndex

Severity = Literal["error", "warning", "note"]
PodState = Literal["ready", "not ready", "terminating", "out"]

NEAR_MISS = 0.7
"""Labels closer to a selector than this nearly match."""

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_CAUSES = 3
_MAX_PODS_COMPARED = 200
"""Ports are compared on this many pods: pods of one workload have the same ports."""


class TrafficProblem(msgspec.Struct, frozen=True):
    """A reason why a service or one of its ports receives no traffic (``error``), perhaps none (``warning``), or less (``note``)."""

    code: str
    severity: Severity
    cause: str
    fix: str
    stops_all: bool = False
    """Whether no port of the service receives traffic."""


def node_of(index: ClusterIndex, pod: Pod) -> Node | Unknown | None:
    """Return the node of a pod, None if it does not exist, or UNKNOWN if nodes could not be read."""
    if not index.could_read("nodes"):
        return UNKNOWN
    return index.nodes.get(ObjectKey("", pod.node_name))


def expected_state(outcome: PodOutcome) -> PodState:
    """Return how a selected pod should be published."""
    for wanted in outcome.endpoints:
        if wanted is not None:
            conditions = wanted.endpoint.conditions
            if conditions.ready:
                return "ready"
            return "terminating" if conditions.terminating else "not ready"
    return "out"


def is_api_server_service(service: Service) -> bool:
    """Return whether it is ``default/kubernetes``, whose endpoints the API servers write (none if they listen on loopback)."""
    return key_of(service) == ObjectKey("default", "kubernetes") and not service.selector


def is_meant_to_serve(pod: Pod) -> bool:
    """Return whether a pod should become ready: it is neither terminating nor finished."""
    return not pod.terminating and pod.phase not in TERMINAL_PHASES


def near_misses(index: ClusterIndex, service: Service) -> list[Pod]:
    """Return the pods whose labels nearly match the selector, nearest first.

    O(distinct labels in the namespace).
    """
    if not service.selector or service.is_external_name:
        return []
    known: dict[int, float] = {}  # pods of one workload share their labels
    found = []
    for pod in index.pods.in_namespace(service.metadata.namespace):
        score = known.get(id(pod.labels))
        if score is None:
            score = known[id(pod.labels)] = distance(service, pod)
        if 0 < score < NEAR_MISS:
            found.append((score, pod.metadata.name, pod))
    return [pod for _, _, pod in sorted(found, key=lambda one: one[:2])]


def traffic_problems(index: ClusterIndex, service: Service) -> list[TrafficProblem]:
    """Return what keeps traffic from a service, except problems that depend on an unknown collection."""
    if service.is_external_name or service.terminating or is_api_server_service(service):
        return []
    if not service.selector:
        return list(_of_written_endpoints(index, service))
    if not index.could_read("pods"):
        return []
    pods = sorted(index.membership.pods_of(key_of(service)), key=lambda pod: pod.metadata.name)
    if not pods:
        return [_nothing_selected(index, service)]
    outcomes = index.outcomes_of(service)
    states = [expected_state(outcomes[key_of(pod)]) for pod in pods]
    ready = [pod for pod, state in zip(pods, states, strict=True) if state == "ready"]
    found: list[TrafficProblem] = []
    others = [pod for pod, state in zip(pods, states, strict=True) if state != "ready"]
    if ready:  # terminating and finished pods do no harm while others are ready
        others = [pod for pod in others if is_meant_to_serve(pod)]
    if others:
        draining = [pod for pod in others if pod.terminating and pod.ready]
        found += _not_ready(index, service, pods, ready, draining, others)
    found += _of_ports(index, service, ready or pods)
    return found


# ------------------------------------------------------------------------------------- selected pods


def _nothing_selected(index: ClusterIndex, service: Service) -> TrafficProblem:
    selector = ",".join(f"{name}={value}" for name, value in (service.selector or {}).items())
    near = near_misses(index, service)
    if near:
        first = next(iter(selector_reasons(service, near[0])))
        alike = sum(pod.labels == near[0].labels for pod in near)
        more = f" (and {alike - 1:,} more)" if alike > 1 else ""
        hint = f"; pod {near[0].metadata.name}{more} nearly {'match' if more else 'matches'}: {first.text}"
        fix = first.fix
    else:
        elsewhere = sorted(
            {
                pod.metadata.namespace
                for pod in index.pods.values()
                if all(pod.labels.get(name) == value for name, value in (service.selector or {}).items())
            }
        )
        hint = f"; pods in namespace {', '.join(elsewhere[:3])} have these labels" if elsewhere else ""
        fix = (
            "a service selects only pods in its namespace"
            if elsewhere
            else "compare the selector with the labels of the pod template; expected only if the workload is scaled to zero"
        )
    return TrafficProblem(
        "NothingSelected", "error", f"the selector {selector} matches no pod{hint}", fix, stops_all=True
    )


def _not_ready(
    index: ClusterIndex,
    service: Service,
    pods: Sequence[Pod],
    ready: Sequence[Pod],
    draining: Sequence[Pod],
    others: Sequence[Pod],
) -> Iterator[TrafficProblem]:
    causes: Counter[str] = Counter()
    fixes: dict[str, str] = {}
    for pod in others:
        reasons = pod_reasons(service, pod, index.details.get(key_of(pod)), node_of(index, pod), _ANY_TIME)
        first = next((one for one in reasons if one.weight in ("out", "not ready")), None)
        cause = (first.cause or first.text) if first is not None else "not ready"
        causes[cause] += 1
        fixes.setdefault(cause, first.fix if first is not None else "")
    shown_causes = [
        f"{cause}" if len(causes) == 1 else f"{count:,} {'pod' if count == 1 else 'pods'}: {cause}"
        for cause, count in causes.most_common(_MAX_CAUSES)
    ]
    if len(causes) > _MAX_CAUSES:
        shown_causes.append(f"{len(causes) - _MAX_CAUSES} other causes")
    why = "; ".join(shown_causes)
    fix = (
        fixes[causes.most_common(1)[0][0]]
        or f"endpointd explain service {service.metadata.namespace}/{service.metadata.name}"
    )
    if ready:
        yield TrafficProblem(
            "SomeNotReady",
            "note",
            f"{len(ready):,} of {len(ready) + len(others):,} pods are ready; of the others: {why}",
            fix,
        )
    elif draining:
        yield TrafficProblem(
            "OnlyTerminating",
            "warning",
            f"none of {_count(pods)} is ready; traffic goes to {len(draining):,} terminating pods that still serve: {why}",
            fix,
        )
    else:
        yield TrafficProblem(
            "NoneReady",
            "error",
            f"{'the only pod' if len(pods) == 1 else f'none of {_count(pods)}'} is "
            f"{'not ' if len(pods) == 1 else ''}ready: {why}",
            fix,
            stops_all=True,
        )


def _count(pods: Sequence[Pod]) -> str:
    return f"{len(pods):,} pods"


def _of_ports(index: ClusterIndex, service: Service, pods: Sequence[Pod]) -> Iterator[TrafficProblem]:
    compared = [pod for pod in pods if pod.pod_ips][:_MAX_PODS_COMPARED] or list(pods[:_MAX_PODS_COMPARED])
    by_port: dict[tuple[str, str], list[PortProblem]] = {}
    for pod in compared:
        for problem in port_problems(service, pod, index.details.get(key_of(pod))):
            by_port.setdefault((problem.code, problem.port), []).append(problem)
    names = {port_name(port) for port in service.ports}
    unreachable = {
        port
        for (code, port), problems in by_port.items()
        if code == "PortNotFound" and len(problems) == len(compared)
    }
    for (code, port), problems in by_port.items():
        first = problems[0]
        if port in unreachable and code == "PortNotFound":
            cause = f"{first.text}: no traffic arrives on this port"
            yield TrafficProblem(code, "error", cause, first.fix, stops_all=unreachable >= names)
        elif code == "PortNotFound":
            fraction = f"on {len(problems):,} of {len(compared):,} pods"
            yield TrafficProblem(
                code, "warning", f"{first.text} ({fraction}: they get no traffic on it)", first.fix
            )
        elif len(problems) == len(compared):
            yield TrafficProblem(code, "warning", first.text, first.fix)


# ------------------------------------------------------------------------------- hand-written endpoints


class _Written(msgspec.Struct, frozen=True):
    """Hand-written addresses and their ports."""

    place: str
    ready: int
    not_ready: int
    ports: frozenset[tuple[str, str]]
    """Name and protocol."""


def _of_written_endpoints(index: ClusterIndex, service: Service) -> Iterator[TrafficProblem]:
    key = key_of(service)
    written = list(_written(index, key))
    addresses = sum(one.ready + one.not_ready for one in written)
    if not addresses:
        if index.could_read("endpoints", "endpointslices"):
            yield TrafficProblem(
                "NoEndpoints",
                "warning",
                "the service has no selector, and no Endpoints or EndpointSlice has an address for it",
                "add spec.selector, or write Endpoints or EndpointSlices",
                stops_all=True,
            )
        return
    if not any(one.ready for one in written):
        if index.could_read("endpoints", "endpointslices"):
            yield TrafficProblem(
                "NoneReady",
                "error",
                f"the service has no selector, and none of the {addresses:,} published addresses is ready",
                "check the client that writes them",
                stops_all=True,
            )
        return
    offered = {port for one in written if one.ready for port in one.ports}
    missing = [port for port in service.ports if (port.name, port.protocol) not in offered]
    for port in missing:
        names = (
            ", ".join(sorted({f"{name or '(no name)'}/{protocol}" for name, protocol in offered})) or "none"
        )
        places = ", ".join(sorted({one.place for one in written if one.ready})[:3])
        yield TrafficProblem(
            "PortNameMismatch",
            "error",
            f"service port {port.name or '(no name)'}/{port.protocol} is matched by name and protocol, but the ports of "
            f"{places} are {names}: these addresses get no traffic on it",
            f"name the port {port.name!r} in {places}"
            if port.name
            else f"remove the port's name in {places}",
            stops_all=len(missing) == len(service.ports),
        )


def _written(index: ClusterIndex, key: ObjectKey) -> Iterator[_Written]:
    item = index.endpoints.get(key)
    mirrored = item is not None and (item.metadata.labels or {}).get(SKIP_MIRROR_LABEL) != "true"
    if item is not None and mirrored:
        for subset in item.subsets or ():
            yield _Written(
                f"Endpoints {item.metadata.name}",
                len(subset.addresses or ()),
                len(subset.not_ready_addresses or ()),
                frozenset((port.name or "", port.protocol or "TCP") for port in subset.ports or ()),
            )
    for endpoint_slice in index.slices_by_service.get(key, ()):
        if mirrored and managed_by(endpoint_slice).startswith("endpointslicemirroring-controller"):
            continue
        endpoints = endpoint_slice.endpoints or ()
        ready = sum(endpoint.conditions.ready is not False for endpoint in endpoints)
        yield _Written(
            f"EndpointSlice {endpoint_slice.metadata.name}",
            ready,
            len(endpoints) - ready,
            frozenset((port.name or "", port.protocol or "TCP") for port in endpoint_slice.ports or ()),
        )


def as_reason(problem: TrafficProblem) -> Reason:
    """Return a problem as a reason of an explanation."""
    weight = {"error": "no traffic", "warning": "warning", "note": "note"}[problem.severity]
    return Reason(problem.code, weight, problem.cause, problem.fix)  # type: ignore[arg-type]
