"""Keep one pod of each DaemonSet on each eligible node."""

from functools import partial

import msgspec

from aiokube.api.apps import DAEMON_SETS, DaemonSet
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ForbiddenError, is_namespace_terminating
from aiokube.runtime.controller import RequeueAfter
from aiokube.work_queue import WorkQueue
from tinykube.simulate.daemonset_plan import REVISION_LABEL, TOLERATIONS, plan_daemon_set
from tinykube.simulate.nodes import SimulatedNode
from tinykube.simulate.pods import pod_of_template
from tinykube.simulate.revisions import Revisions
from tinykube.simulate.simulation_state import SimulationState
from tinykube.simulate.workloads import (
    PodNames,
    create_pod,
    enqueue_owners,
    owner_reference,
    run_batched,
    write_status,
)

NAME = "simulate-daemonsets"


class DaemonSetController:
    """Reconcile DaemonSets. Their pods are created with a node name, so the scheduler ignores them."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._revisions = Revisions(state)
        self._names = PodNames(state)
        enqueue_owners(state, "DaemonSet", state.daemon_sets.store, queue)
        state.nodes.store.subscribe(self._on_node)

    def _on_node(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if old is None or new is None or _matters(old) != _matters(new):
            for item in self._state.daemon_sets.store.values():
                self._queue.add_after(key_of(item), 0.05)

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Take the next step towards the desired state of one DaemonSet. Raises the client's errors."""
        state = self._state
        item = state.daemon_sets.store.get(key)
        if item is None or item.spec.selector is None or item.metadata.deletion_timestamp is not None:
            return None
        pods = state.pods_of(item.metadata.uid)
        try:
            revision = await self._revisions.keep(
                item.metadata,
                owner_reference(DAEMON_SETS, item.metadata),
                item.spec.template,
                limit=item.spec.revision_history_limit,
                in_use={(pod.metadata.labels or {}).get(REVISION_LABEL, "") for pod in pods},
                label=REVISION_LABEL,
            )
        except ForbiddenError as error:
            if is_namespace_terminating(error):
                return None
            raise
        plan = plan_daemon_set(
            item,
            state.nodes.store.values(),
            pods,
            state.clock.wall(),
            hashed=revision.hash,
            deleting=state.deleting,
            min_ready_seconds=state.settings.real_seconds(item.spec.min_ready_seconds),
        )
        await run_batched([partial(state.delete_pod, pod) for pod in plan.delete], f"{NAME}-delete")
        await run_batched(
            [partial(self._create, item, node, revision.hash) for node in plan.create], f"{NAME}-create"
        )
        await write_status(state, DAEMON_SETS, state.daemon_sets.store, item, plan.status)
        return None if plan.requeue_after_seconds is None else RequeueAfter(plan.requeue_after_seconds)

    async def _create(self, item: DaemonSet, node: str, hashed: str) -> None:
        owner = owner_reference(DAEMON_SETS, item.metadata)
        name = self._names.draw(item.metadata.key)
        document = pod_of_template(item.spec.template, name, owner, {REVISION_LABEL: hashed})
        document["metadata"]["generateName"] = f"{item.metadata.name}-"
        spec = document["spec"]
        spec["nodeName"] = node
        said = spec.get("tolerations") or []
        spec["tolerations"] = [*said, *(_plain(msgspec.to_builtins(each)) for each in TOLERATIONS)]
        if not await create_pod(self._state, document, item.metadata.namespace):
            self._queue.add_after(item.metadata.key, 1.0)


def _plain(toleration: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in toleration.items() if value}


def _matters(node: SimulatedNode) -> tuple[object, ...]:
    return node.spec, node.is_real, node.metadata.labels, node.metadata.deletion_timestamp
