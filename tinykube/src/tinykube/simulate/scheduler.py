"""Place pods on nodes through the binding subresource, as a scheduler does."""

import msgspec

from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ConflictError, NotFoundError
from aiokube.client.rest import STRATEGIC_MERGE_PATCH
from aiokube.work_queue import WorkQueue
from tinykube.simulate.nodes import SimulatedNode
from tinykube.simulate.pod_events import PodEvent
from tinykube.simulate.pods import (
    SIMULATED_PODS,
    SimulatedPod,
    condition_of,
    controller_of,
    is_finished,
    is_terminating,
)
from tinykube.simulate.scheduler_plan import Load, choose_node, explain
from tinykube.simulate.simulation_state import SimulationState

NAME = "simulate-scheduler"


class Scheduler:
    """Reconcile unscheduled pods. An unschedulable pod gets a condition and is retried when a node changes or a pod ends.

    Each decision takes earlier ones into account, even before the server has confirmed them or the watch has
    reported them.
    """

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._pending: dict[ObjectKey, None] = {}
        self._assumed: dict[
            ObjectKey, tuple[str, str]
        ] = {}  # uid and node of bindings that the watch has not confirmed
        self._pods: dict[str, int] = {}  # by node
        self._groups: dict[str, dict[str, int]] = {}  # by group and node
        state.pods.store.subscribe(self._on_pod)
        state.nodes.store.subscribe(self._on_node)
        state.on_nodes_created.append(self._enqueue_pending)

    def _on_pod(self, old: SimulatedPod | None, new: SimulatedPod | None) -> None:
        key = key_of(new or old)  # type: ignore[arg-type]  # one of them there is
        before, now = self._place(old, key), self._place(new, key)
        if new is None or new.spec.node_name:
            self._assumed.pop(key, None)
            self._pending.pop(key, None)
            now = new.spec.node_name if new is not None and _counts(new) else None
        if before != now:
            self._count(old, before, -1)
            self._count(new, now, 1)
            if before is not None:
                self._enqueue_pending()
        if new is not None and old is None and not new.spec.node_name:
            self._queue.add(key)

    def _place(self, pod: SimulatedPod | None, key: ObjectKey) -> str | None:
        """Return the node that a pod counts towards."""
        if pod is None or not _counts(pod):
            return None
        assumed = self._assumed.get(key)
        if assumed is not None and assumed[0] == pod.metadata.uid:
            return assumed[1]
        return pod.spec.node_name or None

    def _count(self, pod: SimulatedPod | None, node: str | None, change: int) -> None:
        if pod is None or node is None:
            return
        self._pods[node] = self._pods.get(node, 0) + change
        group = self._groups.setdefault(_group(pod), {})
        group[node] = group.get(node, 0) + change
        if not group[node]:
            del group[node]
        if not group:
            del self._groups[_group(pod)]

    def _on_node(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if old is None or new is None or _matters(old) != _matters(new):
            self._enqueue_pending()

    def _enqueue_pending(self) -> None:
        for key in self._pending:
            self._queue.add_after(key, 0.05)

    async def reconcile(self, key: ObjectKey) -> None:
        """Schedule one pod. Raises the client's errors."""
        state = self._state
        pod = state.pods.store.get(key)
        if pod is None or pod.spec.node_name or key in self._assumed or is_terminating(pod):
            return
        if not state.nodes_created:
            self._pending[key] = None
            return
        nodes = sorted(state.nodes.store.values(), key=lambda node: node.metadata.name)
        load = Load(self._pods, self._groups.get(_group(pod), {}))
        node = choose_node(pod, nodes, load)
        if node is None:
            self._pending[key] = None
            await self._mark_unschedulable(pod, explain(pod, nodes, load))
            return
        self._pending.pop(key, None)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._assumed[key] = pod.metadata.uid, node
        self._count(pod, node, 1)
        try:
            path = SIMULATED_PODS.path(key.namespace, key.name, "binding")
            await state.api.request("POST", path, body=msgspec.json.encode(binding))
            state.record_event(
                "scheduler", pod, PodEvent("Normal", "Scheduled", f"Successfully assigned {key} to {node}")
            )
        except (ConflictError, NotFoundError):
            self._forget_assumed(
                key, pod, node
            )  # bound by another client, or deleted: the watch event requeues it
        except BaseException:
            self._forget_assumed(key, pod, node)
            raise

    def _forget_assumed(self, key: ObjectKey, pod: SimulatedPod, node: str) -> None:
        if self._assumed.get(key) == (pod.metadata.uid, node):
            del self._assumed[key]
            self._count(pod, node, -1)

    async def _mark_unschedulable(self, pod: SimulatedPod, message: str) -> None:
        before = condition_of(pod, "PodScheduled")
        if before is not None and before.message == message:
            return
        self._state.record_event("scheduler", pod, PodEvent("Warning", "FailedScheduling", message))
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": (before.last_transition_time if before is not None else None)
            or self._state.moment(),
        }
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            written = await self._state.api.patch(
                SIMULATED_PODS,
                key_of(pod),
                msgspec.json.encode(body),
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
            )
        except (ConflictError, NotFoundError):
            return  # deleted or changed: the watch event requeues it
        self._state.pods.store.record_write(written)


def _counts(pod: SimulatedPod) -> bool:
    return not is_finished(pod)


def _group(pod: SimulatedPod) -> str:
    """Return the group that a pod is spread within: its owner, else its namespace."""
    owner = controller_of(pod.metadata)
    return owner.uid if owner is not None else pod.metadata.namespace


def _matters(node: SimulatedNode) -> tuple[object, ...]:
    return node.spec, node.is_ready, node.is_real, node.metadata.labels, node.status.allocatable
