"""Why a pod is, or is not, behind a service: each fact of the chain by itself, from the selector to the slice. Pure.

The decisions are not made here again: they are the controllers' own (:mod:`endpointd.controllers.pods`). What is here
finds the words, and the cause behind a cause (which container, which gate, which label).
"""

import difflib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from endpointd.api.core import Pod, Service, ServicePort
from endpointd.api.selectors import matches
from endpointd.controllers.endpointslice.desired import address_types
from endpointd.controllers.pods import TERMINAL_PHASES, addresses_of_family, resolve_target_port
from endpointd.diagnose.details import ContainerStatus, PodDetails

Weight = Literal["out", "not ready", "note"]
"""What a reason does: keeps the pod out, keeps it from being ready, or is only good to know."""


class Reason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One fact. ``code`` is for programs and does not change; ``fix`` is what to do, where that can be said."""

    code: str
    weight: Weight
    text: str
    fix: str = ""


# ------------------------------------------------------------------------------------------- the service


def service_reasons(service: Service) -> Iterator[Reason]:
    """Return why a service selects no pods at all, where it is so."""
    if service.is_external_name:
        yield Reason(
            "ExternalName",
            "out",
            "the service is of type ExternalName: a DNS alias, which has no endpoints",
            "give it another type if pods are to be behind it",
        )
    elif not service.selector:
        yield Reason(
            "NoSelector",
            "out",
            "the service has no selector, so no pod is ever chosen: its endpoints are whatever somebody writes into its "
            "Endpoints or EndpointSlices",
            "add spec.selector, or write the endpoints by hand",
        )


# --------------------------------------------------------------------------------------------- selection


def selector_reasons(service: Service, pod: Pod) -> Iterator[Reason]:
    """Return why a selector does not take a pod: every pair that differs, with what is near."""
    if pod.metadata.namespace != service.metadata.namespace:
        yield Reason(
            "OtherNamespace",
            "out",
            f"the pod is in namespace {pod.metadata.namespace}: a service takes pods of its own namespace "
            f"({service.metadata.namespace}) alone",
        )
        return
    for key, wanted in (service.selector or {}).items():
        found = pod.labels.get(key)
        if found == wanted:
            continue
        if found is not None:
            near = " (differs in upper and lower case alone)" if found.lower() == wanted.lower() else ""
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
    """Return how far a pod's labels are from a selector: 0 takes it, 1 and more have nothing in common with it."""
    pairs = service.selector or {}
    if not pairs:
        return 1.0
    missing = 0.0
    for key, wanted in pairs.items():
        found = pod.labels.get(key)
        if found == wanted:
            continue
        if found is not None and difflib.SequenceMatcher(None, found, wanted).ratio() >= _NEAR:
            missing += 0.4
        elif found is None and _similar_label(key, wanted, pod.labels) is not None:
            missing += 0.5
        else:
            missing += 1.0
    return missing / len(pairs)


_NEAR = 0.6


# ------------------------------------------------------------------------------------------- publication


def pod_reasons(
    service: Service, pod: Pod, details: PodDetails | None, zone: str | None, now: datetime
) -> Iterator[Reason]:
    """Return what keeps a selected pod out, or not ready, in the order in which the controllers look.

    ``zone`` is that of its node: ``""`` where it has none, None where there is no such node.
    """
    yield from _life_reasons(pod, details, now)
    if pod.phase in TERMINAL_PHASES:
        return
    if not pod.pod_ips and pod.pod_ip is None:
        yield from _no_address_reasons(pod, details, now)
        return
    yield from _family_reasons(service, pod)
    yield from _node_reasons(service, pod, zone)
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
            "its owner makes another one, if it has one"
            if details and details.owner
            else "start another pod",
        )
    elif pod.terminating:
        since = f" for {_long(details.deleted_at, now)}" if details and details.deleted_at else ""
        ready = "it still serves, so it is used where no other is ready" if pod.ready else "it does not serve"
        yield Reason(
            "Terminating",
            "not ready",
            f"the pod is being deleted{since}: it stays in the slices as terminating, and is never ready; {ready}",
        )


def _no_address_reasons(pod: Pod, details: PodDetails | None, now: datetime) -> Iterator[Reason]:
    if not pod.node_name:
        condition = details.conditions.get("PodScheduled") if details else None
        why = f": {condition.message}" if condition is not None and condition.message else ""
        yield Reason(
            "NotScheduled", "out", f"the pod has no node yet{why}", "see the scheduler's events of the pod"
        )
        return
    text = f"the pod has no IP address yet, on node {pod.node_name}"
    waiting = next(iter(_waiting(details)), None)
    yield Reason(
        "NoAddress",
        "out",
        text + (f": {waiting}" if waiting else ": its sandbox is not up"),
        "see the kubelet's events of the pod",
    )


def _family_reasons(service: Service, pod: Pod) -> Iterator[Reason]:
    families = address_types(service)
    without = [family for family in families if not addresses_of_family(pod, family)]
    if not without:
        return
    has = ", ".join(pod.pod_ips) or "none"
    everything = len(without) == len(families)
    yield Reason(
        "NoAddressOfFamily",
        "out" if everything else "note",
        f"the service wants {' and '.join(without)}, and of the pod's addresses ({has}) none is of that family"
        + ("" if everything else ": it stands in the slices of the other family alone"),
        "set spec.ipFamilies of the service to what the pods have, or run the pods on dual-stack nodes",
    )


def _node_reasons(service: Service, pod: Pod, zone: str | None) -> Iterator[Reason]:
    if zone is not None or not pod.node_name:
        return
    kept_out = not service.publish_not_ready_addresses
    yield Reason(
        "NodeMissing",
        "out" if kept_out else "note",
        f"there is no Node {pod.node_name}" + ("" if kept_out else ": it is published without a zone"),
        "the pod is left over from a node that is gone: delete it",
    )


def _port_reasons(service: Service, pod: Pod, details: PodDetails | None) -> Iterator[Reason]:
    for port in service.ports:
        if resolve_target_port(pod, port) is not None:
            continue
        known = sorted({f"{one.name} ({one.protocol})" for one in pod.named_ports})
        wrong_protocol = [one for one in pod.named_ports if one.name == port.target_port]
        if wrong_protocol:
            what = f"the pod's port {port.target_port} is {wrong_protocol[0].protocol}, the service's is {port.protocol}"
        else:
            what = f"no container names a port {port.target_port}"
        others = f"; they name {', '.join(known)}" if known else "; they name none"
        containers = ", ".join(one.name or "" for one in details.containers) if details else ""
        yield Reason(
            "PortNotFound",
            "note",
            f"port {_port_name(port)} of the service goes to a port by name: {what}{others}"
            + (f" (containers: {containers})" if containers else "")
            + ": the pod is published without this port",
            _port_fix(port, [one.name for one in pod.named_ports]),
        )


def _port_name(port: ServicePort) -> str:
    return port.name or str(port.port)


def _port_fix(port: ServicePort, names: list[str]) -> str:
    close = difflib.get_close_matches(str(port.target_port), names, n=1)
    if close:
        return f"did you mean targetPort: {close[0]}?"
    return f"name a container port {port.target_port}, or give the number as targetPort"


# ------------------------------------------------------------------------------------------- readiness


def _readiness_reasons(
    service: Service, pod: Pod, details: PodDetails | None, now: datetime
) -> Iterator[Reason]:
    weight: Weight = "note" if service.publish_not_ready_addresses else "not ready"
    since = f" for {_long(pod.ready_since, now)}" if pod.ready_since else ""
    if details is None:
        yield Reason("NotReady", weight, f"the pod is not ready{since}")
        return
    causes = list(_causes(details, now))
    condition = details.conditions.get("Ready")
    if not causes:
        said = condition.message or condition.reason if condition is not None else None
        causes = [("NotReady", said or "its Ready condition is not True, and nothing says why", "")]
    for code, cause, fix in causes:
        yield Reason(code, weight, f"the pod is not ready{since}: {cause}", fix)
    if service.publish_not_ready_addresses:
        yield Reason(
            "PublishedAnyway",
            "note",
            "the service says publishNotReadyAddresses: the pod counts as ready all the same",
        )


def _causes(details: PodDetails, now: datetime) -> Iterator[tuple[str, str, str]]:
    for status in details.init_statuses:
        if not _has_succeeded(status) and not status.ready:
            yield "InitContainer", f"init container {status.name} {_doing(status)}", _logs(details, status)
            return
    probes = {one.name: one.readiness_probe is not None for one in (*details.containers, *details.sidecars)}
    for status in details.statuses:
        if status.ready:
            continue
        state = status.state
        if state is not None and state.running is None:
            yield "ContainerNotRunning", f"container {status.name} {_doing(status)}", _logs(details, status)
        elif status.started is False:
            yield (
                "StartupProbe",
                f"container {status.name} runs, and its startup probe has not succeeded yet",
                _logs(details, status),
            )
        else:
            probe = (
                "its readiness probe fails" if probes.get(status.name) else "it does not count as ready yet"
            )
            yield "ReadinessProbe", f"container {status.name} runs, and {probe}", _logs(details, status)
    for gate in details.gates:
        condition = details.conditions.get(gate)
        if condition is None:
            yield (
                "ReadinessGate",
                f"readiness gate {gate} is set by nobody",
                f"see to the controller that sets the condition {gate}",
            )
        elif condition.status != "True":
            why = condition.message or condition.reason
            since = (
                f" for {_long(condition.last_transition_time, now)}" if condition.last_transition_time else ""
            )
            yield (
                "ReadinessGate",
                f"readiness gate {gate} is {condition.status}{since}" + (f": {why}" if why else ""),
                "",
            )


def _waiting(details: PodDetails | None) -> Iterator[str]:
    if details is None:
        return
    for status in (*details.init_statuses, *details.statuses):
        if status.state is not None and status.state.waiting is not None:
            yield f"container {status.name} {_doing(status)}"


def _has_succeeded(status: ContainerStatus) -> bool:
    state = status.state
    return state is not None and state.terminated is not None and not state.terminated.exit_code


def _doing(status: ContainerStatus) -> str:
    state = status.state
    restarts = f", after {status.restart_count} restarts" if status.restart_count > 1 else ""
    if state is None:
        return f"has no state yet{restarts}"
    if state.waiting is not None:
        said = f" ({state.waiting.message})" if state.waiting.message else ""
        last = status.last_state.terminated if status.last_state is not None else None
        ended = f", last ended with exit code {last.exit_code} ({last.reason})" if last is not None else ""
        return f"waits: {state.waiting.reason or 'it does not say why'}{said}{ended}{restarts}"
    if state.terminated is not None:
        end = state.terminated
        return f"has ended with exit code {end.exit_code or 0} ({end.reason or 'no reason given'}){restarts}"
    return f"still runs{restarts}"


def _logs(details: PodDetails, status: ContainerStatus) -> str:
    return f"kubectl -n {details.metadata.namespace} logs {details.metadata.name} -c {status.name}"


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
    """Tell whether a service takes a pod."""
    return (
        bool(service.selector)
        and pod.metadata.namespace == service.metadata.namespace
        and matches(service.selector or {}, pod.labels)
    )
