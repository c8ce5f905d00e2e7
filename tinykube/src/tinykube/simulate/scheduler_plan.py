"""Choose the node of a pod. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aiokube.api.selectors import Operator, Requirement, SelectorError, matches
from tinykube.simulate.nodes import (
    NOT_READY_TAINT,
    UNSCHEDULABLE_TAINT,
    SimulatedNode,
    Taint,
)
from tinykube.simulate.pods import NodeRequirement, PodSpec, SimulatedPod, Toleration

_UNSCHEDULABLE_EFFECTS = ("NoSchedule", "NoExecute")


class Load(msgspec.Struct, frozen=True):
    """The scheduled pods by node, in total and of the pod's group."""

    pods: Mapping[str, int]
    group: Mapping[str, int]


def choose_node(pod: SimulatedPod, nodes: Sequence[SimulatedNode], load: Load) -> str | None:
    """Return the name of the best node for a pod, or None if none fits.

    Preference among fitting nodes: the zone with the fewest pods of the group, then the node with the fewest
    of the group, then the node with the fewest pods, then the first by name.
    """
    fitting = [node for node in nodes if why_not(pod.spec, node, load) is None]
    if not fitting:
        return None
    zones: dict[str, int] = {}
    for node in nodes:
        zones[node.zone] = zones.get(node.zone, 0) + load.group.get(node.metadata.name, 0)
    best = min(
        fitting,
        key=lambda node: (
            zones[node.zone],
            load.group.get(node.metadata.name, 0),
            load.pods.get(node.metadata.name, 0),
            node.metadata.name,
        ),
    )
    return best.metadata.name


def explain(pod: SimulatedPod, nodes: Sequence[SimulatedNode], load: Load) -> str:
    """Return why no node fits, in kube-scheduler's wording."""
    reasons: dict[str, int] = {}
    for node in nodes:
        reason = why_not(pod.spec, node, load)
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"0/{len(nodes)} nodes are available: {told or 'no nodes exist'}."


def why_not(spec: PodSpec, node: SimulatedNode, load: Load) -> str | None:
    """Return the reason why a pod cannot run on a node, or None."""
    if node.is_real or node.metadata.deletion_timestamp is not None:
        return "node(s) were not simulated"
    if not node.is_ready:
        return "node(s) were not ready"
    reason = unfit(spec, node)
    if reason is not None:
        return reason
    room = (node.status.allocatable or {}).get("pods", "110")
    if room.isdecimal() and load.pods.get(node.metadata.name, 0) >= int(room):
        return "Too many pods"
    return None


def unfit(spec: PodSpec, node: SimulatedNode) -> str | None:
    """Return the mismatch between the pod's constraints and the node, ignoring the node's load."""
    labels = node.metadata.labels or {}
    if not matches(spec.node_selector or {}, labels) or not _affinity_met(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if node.spec.unschedulable and not _tolerated(
        Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule"), spec.tolerations
    ):
        return "node(s) were unschedulable"
    for taint in node.spec.taints or ():
        checked_above = taint.key in (NOT_READY_TAINT, UNSCHEDULABLE_TAINT)
        if (
            taint.effect in _UNSCHEDULABLE_EFFECTS
            and not checked_above
            and not _tolerated(taint, spec.tolerations)
        ):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return None


def _tolerated(taint: Taint, tolerations: Iterable[Toleration] | None) -> bool:
    for each in tolerations or ():
        if each.effect not in ("", taint.effect):
            continue
        if each.operator == "Exists" and each.key in ("", taint.key):
            return True
        if each.operator in ("", "Equal") and each.key == taint.key and each.value == taint.value:
            return True
    return False


def _affinity_met(spec: PodSpec, node: SimulatedNode) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    labels, name = node.metadata.labels or {}, {"metadata.name": node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(_holds(each, labels) for each in term.match_expressions or ())
        and all(_holds(each, name) for each in term.match_fields or ())
        for term in required.node_selector_terms
    )


def _holds(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    try:
        operator = Operator(requirement.operator)
        return Requirement.of(requirement.key, operator, requirement.values or ()).matches(labels)
    except (ValueError, SelectorError):
        return False  # an invalid requirement matches no node
