"""Why a pod is, or is not, behind a service: each fact of the chain by itself, from the selector to the slice. Pure.

The decisions are not made here again: they are the controllers' own (:mod:`endpointd.controllers.pods`). What is here
finds the words, and the cause behind a cause (which container, which gate, which label).
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
"""What a reason does: keeps the pod out, keeps all traffic away, keeps it from being ready, probably keeps traffic away, or
is only good to know."""


class Reason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One fact. ``code`` is for programs and does not change; ``fix`` is what to do, where that can be said."""

    code: str
    weight: Weight
    text: str
    fix: str = ""
    cause: str = ""
    """The part of the text that all pods with the same problem share: without times, counts and names of pods. ``""`` where
    that is all of the text."""

    @property
    def group(self) -> tuple[str, Weight, str]:
        """Pods whose reasons have equal groups have the same problem."""
        return self.code, self.weight, self.cause or self.text


# ------------------------------------------------------------------------------------------- the service


def service_reasons(service: Service) -> Iterator[Reason]:
    """Return why a service selects no pods at all, where it is so."""
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
    """Return why a selector does not take a pod: every pair that differs, with what is near."""
    if pod.metadata.namespace != service.metadata.namespace:
        yield Reason(
            "OtherNamespace",
            "out",
            f"the pod is in namespace {pod.metadata.namespace}: a service selects only pods of its own namespace "
            f"({service.metadata.namespace})",
            "create a service in the pod's namespace, and an ExternalName service here that points to it, if it has to be "
            "reached by this name",
        )
        return
    for key, wanted in (service.selector or {}).items():
        found = pod.labels.get(key)
        if found == wanted:
            continue
        if found is not None:
            near = " (only upper and lower case differ)" if found.lower() == wanted.lower() else ""
            yield Reason(
                "LabelDiffers",
                "out",
                f"the selector asks for {key}={wanted}, the pod has {key}={found}{near}",
                f"set the label to {wanted} in the pod's template, or change the selector",
            )
            continue
        similar = _similar_label(key, wanted, pod.labels)
        yield Reason(
            "LabelMissing",
            "out",
            f"the selector asks for {key}={wanted}, the pod has no label {key}"
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
    """Return how far a pod's labels are from a selector: 0 is selected, 1 and more have nothing in common with it."""
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
    """In place of an object that may or may not exist: it could not be read."""


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
    """Return what keeps a selected pod out, or not ready, in the order in which the controllers look.

    ``node_counts_as_present`` says of a missing node that it disappeared a short time ago.
    """
    yield from _life_reasons(pod, details, now)
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


def _life_reasons(pod: Pod, details: PodDetails | None, now: datetime) -> Iterator[Reason]:
    if pod.phase in TERMINAL_PHASES:
        why = _because(details)
        yield Reason(
            "Finished",
            "out",
            f"the pod has ended: phase {pod.phase}{why}",
            f"its controller ({details.owner}) replaces it"
            if details and details.owner
            else "no controller replaces it: create another pod",
            cause=f"{pod.phase} {details.reason if details else ''}",
        )
    elif pod.terminating:
        since = f" for {_long(details.deleted_at, now)}" if details and details.deleted_at else ""
        serves = (
            "it still serves, so it gets traffic if no other endpoint is ready"
            if pod.ready
            else "it does not serve"
        )
        yield Reason(
            "Terminating",
            "not ready",
            f"the pod is being deleted{since}: it stays in the slices as terminating, and is never ready; {serves}",
            cause=serves,
        )


def _no_address_reasons(pod: Pod, details: PodDetails | None, now: datetime) -> Iterator[Reason]:
    if not pod.node_name:
        condition = details.conditions.get("PodScheduled") if details else None
        why = f": {condition.message}" if condition is not None and condition.message else ""
        yield Reason(
            "NotScheduled", "out", f"the pod has no node yet{why}", "see the scheduler's events of the pod"
        )
        return
    waiting = next(iter(_waiting(details)), None)
    yield Reason(
        "NoAddress",
        "out",
        f"the pod has no IP address yet, on node {pod.node_name}"
        + (f": {waiting[1]}" if waiting else ": its sandbox is not up"),
        "see the kubelet's events of the pod",
        cause=f"no IP address: {waiting[0]}" if waiting else "no IP address: its sandbox is not up",
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
            f"the API server accepts no endpoint with the pod's address {addresses}: it is left out",
            "give the pod an address of the pod network: see to the CNI plugin, or to what writes status.podIPs",
        )
        kept_out = {ip_family(address) for address, _ in rejected}
        without = [family for family in without if family not in kept_out]
    if not without:
        return
    has = ", ".join(pod.pod_ips) or "none"
    everything = len(without) == len(families)
    rest = "" if everything else ": it is in the slices of the other family only"
    yield Reason(
        "NoAddressOfFamily",
        "out" if everything else "note",
        f"the service wants {' and '.join(without)}, and none of the pod's addresses ({has}) is of that family{rest}",
        "set spec.ipFamilies of the service to what the pods have, or run the pods on dual-stack nodes",
        cause=f"no {' or '.join(without)} address{rest}",
    )


def _node_disappeared(pod: Pod) -> Reason:
    return Reason(
        "NodeMissing",
        "note",
        f"there is no Node {pod.node_name}: the pod stays published for a minute after its Node disappeared "
        "(--missing-node-grace-period)",
        "if the machine is gone, the pod garbage collector removes the pod; if not, restart its kubelet, which registers the Node "
        "again",
    )


def _node_missing(service: Service, pod: Pod) -> Reason:
    kept_out = not service.publish_not_ready_addresses
    return Reason(
        "NodeMissing",
        "out" if kept_out else "note",
        f"there is no Node {pod.node_name}" + ("" if kept_out else ": it is published without a zone"),
        "if the node is gone for good, the pod garbage collector of kube-controller-manager removes the pod; if not, see why "
        "its kubelet has not registered it",
    )


def _port_reasons(service: Service, pod: Pod, details: PodDetails | None) -> Iterator[Reason]:
    reachable = has_reachable_port(service, pod)
    for problem in port_problems(service, pod, details):
        if not problem.is_certain:
            weight: Weight = "warning"
            effect = ": traffic arrives only if a container listens there all the same"
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
    since = f" for {_long(pod.ready_since, now)}" if pod.ready_since else ""
    if details is None:
        yield Reason("NotReady", weight, f"the pod is not ready{since}", cause="the pod is not ready")
        return
    causes = list(_causes(details, now))
    condition = details.conditions.get("Ready")
    if not causes:
        said = condition.message or condition.reason if condition is not None else None
        text = said or "its Ready condition is not True, and gives no reason"
        causes = [_Cause("NotReady", text, "", "")]
    for one in causes:
        yield Reason(
            one.code, weight, f"the pod is not ready{since}: {one.text}", one.fix, one.cause or one.text
        )
    if service.publish_not_ready_addresses:
        yield Reason(
            "PublishedAnyway",
            "note",
            "the service sets publishNotReadyAddresses: the pod counts as ready",
        )


class _Cause(msgspec.Struct, frozen=True):
    """Why a pod is not ready: ``cause`` is the text without what differs from pod to pod."""

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
                f"{container} {_doing(status)}",
                _logs(details, status),
                f"{container} {_doing_briefly(status)}",
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
                f"{name} {_doing(status)}",
                _logs(details, status),
                f"{name} {_doing_briefly(status)}",
            )
        elif status.started is False:
            probe = _probe(container_spec.startup_probe if container_spec else None)
            text = f"{name} runs, and its startup probe{probe} has not succeeded yet"
            yield _Cause("StartupProbe", text, _logs(details, status), text)
        else:
            found = container_spec.readiness_probe if container_spec else None
            text = f"its readiness probe{_probe(found)} fails" if found else "it does not count as ready yet"
            text = f"{name} runs, and {text}"
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
                f" for {_long(condition.last_transition_time, now)}" if condition.last_transition_time else ""
            )
            said = f": {why}" if why else ""
            yield _Cause(
                "ReadinessGate",
                f"readiness gate {gate} is {condition.status}{since}{said}",
                "",
                f"readiness gate {gate} is {condition.status}{said}",
            )


def _probe(probe: dict[str, Any] | None) -> str:
    text = probe_text(probe)
    return f" ({text})" if text else ""


def _waiting(details: PodDetails | None) -> Iterator[tuple[str, str]]:
    """Return of each container that waits the cause, and the whole text."""
    if details is None:
        return
    for status in (*details.init_statuses, *details.statuses):
        if status.state is not None and status.state.waiting is not None:
            name = f"container {status.name}"
            yield f"{name} {_doing_briefly(status)}", f"{name} {_doing(status)}"


def _has_succeeded(status: ContainerStatus) -> bool:
    state = status.state
    return state is not None and state.terminated is not None and not state.terminated.exit_code


def _doing(status: ContainerStatus) -> str:
    state = status.state
    restarts = f", {status.restart_count} restarts" if status.restart_count > 1 else ""
    if state is None:
        return f"has no state yet{restarts}"
    if state.waiting is not None:
        said = f" ({state.waiting.message})" if state.waiting.message else ""
        last = status.last_state.terminated if status.last_state is not None else None
        ended = f", last exit code {last.exit_code or 0} ({last.reason})" if last is not None else ""
        return f"is waiting: {state.waiting.reason or 'no reason given'}{said}{ended}{restarts}"
    if state.terminated is not None:
        end = state.terminated
        return f"has ended with exit code {end.exit_code or 0} ({end.reason or 'no reason given'}){restarts}"
    return f"still runs{restarts}"


def _doing_briefly(status: ContainerStatus) -> str:
    """Return the same without what differs from pod to pod: messages name the pod, restarts are counted."""
    state = status.state
    if state is None:
        return "has no state yet"
    if state.waiting is not None:
        last = status.last_state.terminated if status.last_state is not None else None
        ended = f", last exit code {last.exit_code or 0} ({last.reason})" if last is not None else ""
        return f"is waiting: {state.waiting.reason or 'no reason given'}{ended}"
    if state.terminated is not None:
        return f"has ended with exit code {state.terminated.exit_code or 0} ({state.terminated.reason or 'no reason given'})"
    return "still runs"


def _logs(details: PodDetails, status: ContainerStatus) -> str:
    previous = " --previous" if status.restart_count and not _is_running(status) else ""
    return f"kubectl -n {details.metadata.namespace} logs {details.metadata.name} -c {status.name}{previous}"


def _is_running(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.running is not None


def _because(details: PodDetails | None) -> str:
    if details is None or not (details.reason or details.message):
        return ""
    return f" ({': '.join(part for part in (details.reason, details.message) if part)})"


def _long(timestamp: str | None, now: datetime) -> str:
    """Return how long ago a time is, as kubectl writes ages."""
    if not timestamp:
        return "an unknown time"
    try:
        seconds = int((now - datetime.fromisoformat(timestamp)).total_seconds())
    except ValueError:
        return timestamp
    return human_duration(seconds)


def human_duration(seconds: int) -> str:
    """Return a duration in the two units that matter: ``45s``, ``3m20s``, ``5h10m``, ``12d``."""
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
    """Tell whether a service selects a pod; one of type ExternalName selects none."""
    return (
        bool(service.selector)
        and not service.is_external_name
        and pod.metadata.namespace == service.metadata.namespace
        and matches(service.selector or {}, pod.labels)
    )
