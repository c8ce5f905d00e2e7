"""Explain each step that decides whether a pod is behind a service, from the selector to the slice. Pure.

The decisions come from the controllers themselves (:mod:`endpointd.controllers.pods`). This module describes
them and finds the underlying cause: the container, readiness gate or label.
"""

import difflib
import functools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from aiokube.api.addresses import ip_family
from aiokube.api.core import Node, Pod, Service
from aiokube.api.selectors import matches
from endpointd.controllers.endpointslice.desired import address_types
from endpointd.controllers.pods import TERMINAL_PHASES, addresses_of_family, rejected_addresses
from endpointd.diagnose.details import ContainerStatus, PodDetails
from endpointd.diagnose.ports import has_reachable_port, port_problems, probe_text

Weight = Literal["out", "no traffic", "not ready", "warning", "note"]
"""The effect of a reason: keeps the pod out, stops all traffic, keeps the pod from being ready, probably
stops traffic, or is only informative."""


class Reason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One reason. ``code`` is for programs and stable; ``fix`` is the remedy, if known."""

    code: str
    weight: Weight
    text: str
    fix: str = ""
    cause: str = ""
    """The part of the text that pods with the same problem share, without times, counts and pod names; ``""``
    for the whole text."""

    @property
    def group(self) -> tuple[str, Weight, str]:
        """Pods whose reasons have equal groups have the same problem."""
        return self.code, self.weight, self.cause or self.text


# ------------------------------------------------------------------------------------------- service


def service_reasons(service: Service) -> Iterator[Reason]:
    """Yield why a service selects no pods at all, if so."""
    if service.is_external_name:
        yield Reason(
            "ExternalName",
            "out",
            f"the service is of type ExternalName: a DNS alias, which has no endpoints{_ignored_selector(service)}",
            "use another type for a service that sends traffic to pods",
        )
    elif not service.selector:
        yield Reason(
            "NoSelector",
            "out",
            "the service has no selector, so it selects no pod: its endpoints are those written by hand or by another "
            "controller",
            "add spec.selector, or write Endpoints or EndpointSlices",
        )


def _ignored_selector(service: Service) -> str:
    return "; its selector has no effect" if service.selector else ""


# --------------------------------------------------------------------------------------------- selection


def selector_reasons(service: Service, pod: Pod) -> Iterator[Reason]:
    """Yield why a selector does not match a pod: each differing pair, with similar labels."""
    if pod.metadata.namespace != service.metadata.namespace:
        yield Reason(
            "OtherNamespace",
            "out",
            f"the pod is in namespace {pod.metadata.namespace}: a service selects only pods in its namespace "
            f"({service.metadata.namespace})",
            "create a service in the pod's namespace, and, if clients need this name, an ExternalName service here that "
            "points to it",
        )
        return
    for key, wanted in (service.selector or {}).items():
        found = pod.labels.get(key)
        if found == wanted:
            continue
        if found is not None:
            near = " (differs only in case)" if found.lower() == wanted.lower() else ""
            yield Reason(
                "LabelDiffers",
                "out",
                f"the selector requires {key}={wanted}, the pod has {key}={found}{near}",
                f"set the label to {wanted} in the pod's template, or change the selector",
            )
            continue
        similar = _similar_label(key, wanted, pod.labels)
        yield Reason(
            "LabelMissing",
            "out",
            f"the selector requires {key}={wanted}, the pod has no label {key}"
            + (f", but {similar}={pod.labels[similar]}" if similar else ""),
            f"add the label {key}={wanted} to the pod's template",
        )


def _similar_label(key: str, value: str, labels: Mapping[str, str]) -> str | None:
    for name, found in labels.items():
        if found == value and name.rpartition("/")[2] == key.rpartition("/")[2]:
            return name
    close = difflib.get_close_matches(key, labels, n=1, cutoff=0.75)
    if close:
        return close[0]
    return next((name for name, found in labels.items() if found == value), None)


def distance(service: Service, pod: Pod) -> float:
    """Return the distance of a pod's labels from a selector: 0 matches, 1 or more has nothing in common."""
    pairs = service.selector or {}
    if not pairs:
        return 1.0
    missing = 0.0
    for key, wanted in pairs.items():
        found = pod.labels.get(key)
        if found == wanted:
            continue
        if found is not None:
            likeness = _likeness(found, wanted)
            missing += 0.4 * (2 - likeness) if likeness >= _NEAR else 1.0
        elif _similar_label(key, wanted, pod.labels) is not None:
            missing += 0.5
        else:
            missing += 1.0
    return missing / len(pairs)


@functools.lru_cache(maxsize=4096)
def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


_NEAR = 0.6


# ------------------------------------------------------------------------------------------- publication


class Unknown(msgspec.Struct, frozen=True):
    """Placeholder for an object that could not be read and may or may not exist."""


UNKNOWN = Unknown()


def pod_reasons(
    service: Service,
    pod: Pod,
    details: PodDetails | None,
    node: Node | Unknown | None,
    now: datetime,
    *,
    node_counts_as_present: bool = False,
) -> Iterator[Reason]:
    """Yield what keeps a selected pod out or not ready, in the controllers' order.

    ``node_counts_as_present`` means that the pod's node is missing but was deleted only recently.
    """
    yield from _lifecycle_reasons(pod, details, now)
    if pod.phase in TERMINAL_PHASES:
        return
    if not pod.pod_ips and pod.pod_ip is None:
        yield from _no_address_reasons(pod, details, now)
        return
    yield from _family_reasons(service, pod)
    if node is None and pod.node_name:
        yield _node_disappeared(pod) if node_counts_as_present else _node_missing(service, pod)
    yield from _port_reasons(service, pod, details)
    if not pod.ready:
        yield from _readiness_reasons(service, pod, details, now)


def _lifecycle_reasons(pod: Pod, details: PodDetails | None, now: datetime) -> Iterator[Reason]:
    if pod.phase in TERMINAL_PHASES:
        why = _because(details)
        yield Reason(
            "Finished",
            "out",
            f"the pod has finished: phase {pod.phase}{why}",
            f"its controller ({details.owner}) replaces it"
            if details and details.owner
            else "no controller replaces it: create another pod",
            cause=f"{pod.phase} {details.reason if details else ''}",
        )
    elif pod.terminating:
        state = (
            f"has been terminating for {_age(details.deleted_at, now)}"
            if details and details.deleted_at
            else "is terminating"
        )
        serves = (
            "it still serves, so it gets traffic if no other endpoint is ready"
            if pod.ready
            else "it does not serve"
        )
        yield Reason(
            "Terminating",
            "not ready",
            f"the pod {state}: it stays in the slices as terminating and is never ready; {serves}",
            cause=serves,
        )


def _no_address_reasons(pod: Pod, details: PodDetails | None, now: datetime) -> Iterator[Reason]:
    if not pod.node_name:
        condition = details.conditions.get("PodScheduled") if details else None
        why = f": {condition.message}" if condition is not None and condition.message else ""
        yield Reason(
            "NotScheduled",
            "out",
            f"the pod is not scheduled yet{why}",
            "check the scheduler's events for the pod",
        )
        return
    waiting = next(iter(_waiting(details)), None)
    yield Reason(
        "NoAddress",
        "out",
        f"the pod has no IP address yet, on node {pod.node_name}"
        + (f": {waiting[1]}" if waiting else ": its sandbox is not ready"),
        "check the kubelet's events for the pod",
        cause=f"no IP address: {waiting[0]}" if waiting else "no IP address: its sandbox is not ready",
    )


def _family_reasons(service: Service, pod: Pod) -> Iterator[Reason]:
    families = address_types(service)
    without = [family for family in families if not addresses_of_family(pod, family)]
    rejected = rejected_addresses(pod)
    if rejected:
        addresses = ", ".join(f"{address} ({in_range})" for address, in_range in rejected)
        yield Reason(
            "AddressRejected",
            "out" if len(without) == len(families) else "note",
            f"the API server rejects endpoints with the pod's address {addresses}: it is omitted",
            "give the pod an address from the pod network: check the CNI plugin, or the writer of status.podIPs",
        )
        kept_out = {ip_family(address) for address, _ in rejected}
        without = [family for family in without if family not in kept_out]
    if not without:
        return
    has = ", ".join(pod.pod_ips) or "none"
    everything = len(without) == len(families)
    rest = "" if everything else ": it is only in the slices of the other family"
    yield Reason(
        "NoAddressOfFamily",
        "out" if everything else "note",
        f"the service requires {' and '.join(without)}, but none of the pod's addresses ({has}) is of that family{rest}",
        "set spec.ipFamilies of the service to the pods' families, or run the pods on dual-stack nodes",
        cause=f"no {' or '.join(without)} address{rest}",
    )


def _node_disappeared(pod: Pod) -> Reason:
    return Reason(
        "NodeMissing",
        "note",
        f"Node {pod.node_name} does not exist: the pod stays published for a minute after its Node is deleted "
        "(--missing-node-grace-period)",
        "if the machine no longer exists, the pod garbage collector removes the pod; otherwise restart its kubelet, which "
        "registers the Node again",
    )


def _node_missing(service: Service, pod: Pod) -> Reason:
    kept_out = not service.publish_not_ready_addresses
    return Reason(
        "NodeMissing",
        "out" if kept_out else "note",
        f"Node {pod.node_name} does not exist" + ("" if kept_out else ": it is published without a zone"),
        "if the node was removed permanently, the pod garbage collector of kube-controller-manager removes the pod; otherwise "
        "check why its kubelet has not registered it",
    )


def _port_reasons(service: Service, pod: Pod, details: PodDetails | None) -> Iterator[Reason]:
    reachable = has_reachable_port(service, pod)
    for problem in port_problems(service, pod, details):
        if not problem.is_certain:
            weight: Weight = "warning"
            effect = ": traffic arrives only if a container listens there anyway"
        elif reachable:
            weight, effect = "warning", ": this port is not published for the pod"
        else:
            weight, effect = "no traffic", ": the pod is published without any port, so no traffic reaches it"
        yield Reason(problem.code, weight, problem.text + effect, problem.fix)


# ------------------------------------------------------------------------------------------- readiness


def _readiness_reasons(
    service: Service, pod: Pod, details: PodDetails | None, now: datetime
) -> Iterator[Reason]:
    weight: Weight = "note" if service.publish_not_ready_addresses else "not ready"
    state = f"has not been ready for {_age(pod.ready_since, now)}" if pod.ready_since else "is not ready"
    if details is None:
        yield Reason("NotReady", weight, f"the pod {state}", cause="the pod is not ready")
        return
    causes = list(_causes(details, now))
    condition = details.conditions.get("Ready")
    if not causes:
        message = condition.message or condition.reason if condition is not None else None
        text = message or "its Ready condition is not True and has no reason"
        causes = [_Cause("NotReady", text, "", "")]
    for one in causes:
        yield Reason(one.code, weight, f"the pod {state}: {one.text}", one.fix, one.cause or one.text)
    if service.publish_not_ready_addresses:
        yield Reason(
            "PublishedAnyway",
            "note",
            "the service sets publishNotReadyAddresses: the pod counts as ready",
        )


class _Cause(msgspec.Struct, frozen=True):
    """A cause of unreadiness; ``cause`` is the text without details that differ between pods."""

    code: str
    text: str
    fix: str
    cause: str


def _causes(details: PodDetails, now: datetime) -> Iterator[_Cause]:
    for status in details.init_statuses:
        if not _has_succeeded(status) and not status.ready:
            container = f"init container {status.name}"
            yield _Cause(
                "InitContainer",
                f"{container} {_container_state(status)}",
                _logs(details, status),
                f"{container} {_container_state_without_details(status)}",
            )
            return
    containers = {one.name: one for one in (*details.containers, *details.sidecars)}
    for status in details.statuses:
        if status.ready:
            continue
        state = status.state
        name = f"container {status.name}"
        container_spec = containers.get(status.name)
        if state is not None and state.running is None:
            yield _Cause(
                "ContainerNotRunning",
                f"{name} {_container_state(status)}",
                _logs(details, status),
                f"{name} {_container_state_without_details(status)}",
            )
        elif status.started is False:
            probe = _probe(container_spec.startup_probe if container_spec else None)
            text = f"{name} is running, but its startup probe{probe} has not succeeded yet"
            yield _Cause("StartupProbe", text, _logs(details, status), text)
        else:
            found = container_spec.readiness_probe if container_spec else None
            text = f"its readiness probe{_probe(found)} fails" if found else "it is not ready yet"
            text = f"{name} is running, but {text}"
            yield _Cause("ReadinessProbe", text, _logs(details, status), text)
    for gate in details.gates:
        condition = details.conditions.get(gate)
        if condition is None:
            yield _Cause(
                "ReadinessGate",
                f"no controller has set the condition of readiness gate {gate}",
                f"check the controller that sets the condition {gate}",
                "",
            )
        elif condition.status != "True":
            why = condition.message or condition.reason
            since = (
                f" for {_age(condition.last_transition_time, now)}" if condition.last_transition_time else ""
            )
            message = f": {why}" if why else ""
            yield _Cause(
                "ReadinessGate",
                f"readiness gate {gate} is {condition.status}{since}{message}",
                "",
                f"readiness gate {gate} is {condition.status}{message}",
            )


def _probe(probe: dict[str, Any] | None) -> str:
    text = probe_text(probe)
    return f" ({text})" if text else ""


def _waiting(details: PodDetails | None) -> Iterator[tuple[str, str]]:
    """Yield the cause and the full text for each waiting container."""
    if details is None:
        return
    for status in (*details.init_statuses, *details.statuses):
        if status.state is not None and status.state.waiting is not None:
            name = f"container {status.name}"
            yield f"{name} {_container_state_without_details(status)}", f"{name} {_container_state(status)}"


def _has_succeeded(status: ContainerStatus) -> bool:
    state = status.state
    return state is not None and state.terminated is not None and not state.terminated.exit_code


def _container_state(status: ContainerStatus) -> str:
    state = status.state
    restarts = f", {status.restart_count} restarts" if status.restart_count > 1 else ""
    if state is None:
        return f"has no state yet{restarts}"
    if state.waiting is not None:
        message = f" ({state.waiting.message})" if state.waiting.message else ""
        last = status.last_state.terminated if status.last_state is not None else None
        ended = f", last exit code {last.exit_code or 0} ({last.reason})" if last is not None else ""
        return f"is waiting: {state.waiting.reason or 'no reason given'}{message}{ended}{restarts}"
    if state.terminated is not None:
        end = state.terminated
        return f"exited with code {end.exit_code or 0} ({end.reason or 'no reason given'}){restarts}"
    return f"is still running{restarts}"


def _container_state_without_details(status: ContainerStatus) -> str:
    """Return the same without details that differ between pods, such as messages and restart counts."""
    state = status.state
    if state is None:
        return "has no state yet"
    if state.waiting is not None:
        last = status.last_state.terminated if status.last_state is not None else None
        ended = f", last exit code {last.exit_code or 0} ({last.reason})" if last is not None else ""
        return f"is waiting: {state.waiting.reason or 'no reason given'}{ended}"
    if state.terminated is not None:
        return f"exited with code {state.terminated.exit_code or 0} ({state.terminated.reason or 'no reason given'})"
    return "is still running"


def _logs(details: PodDetails, status: ContainerStatus) -> str:
    previous = " --previous" if status.restart_count and not _is_running(status) else ""
    return f"kubectl -n {details.metadata.namespace} logs {details.metadata.name} -c {status.name}{previous}"


def _is_running(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.running is not None


def _because(details: PodDetails | None) -> str:
    if details is None or not (details.reason or details.message):
        return ""
    return f" ({': '.join(part for part in (details.reason, details.message) if part)})"


def _age(timestamp: str | None, now: datetime) -> str:
    """Return the age of a timestamp in kubectl's format."""
    if not timestamp:
        return "an unknown time"
    try:
        seconds = int((now - datetime.fromisoformat(timestamp)).total_seconds())
    except ValueError:
        return timestamp
    return human_duration(seconds)


def human_duration(seconds: int) -> str:
    """Return a duration in its two largest units: ``45s``, ``3m20s``, ``5h10m``, ``12d``."""
    seconds = max(seconds, 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def is_selected(service: Service, pod: Pod) -> bool:
    """Return whether a service selects a pod; an ExternalName service selects none."""
    return (
        bool(service.selector)
        and not service.is_external_name
        and pod.metadata.namespace == service.metadata.namespace
        and matches(service.selector or {}, pod.labels)
    )
