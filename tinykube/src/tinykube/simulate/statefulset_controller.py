"""Keep the ordered pods of StatefulSets."""

from functools import partial

from aiokube.api.apps import STATEFUL_SETS, StatefulSet
from aiokube.api.meta import ObjectKey
from aiokube.client.errors import ForbiddenError, is_namespace_terminating
from aiokube.runtime.controller import RequeueAfter
from aiokube.work_queue import WorkQueue
from tinykube.simulate.pods import SimulatedPod
from tinykube.simulate.revision_plan import template_of
from tinykube.simulate.revisions import Revisions
from tinykube.simulate.simulation_state import SimulationState
from tinykube.simulate.statefulset_plan import NewPod, plan_stateful_set, pod_document, revision_of
from tinykube.simulate.workloads import (
    create_pod,
    enqueue_owners,
    owner_reference,
    run_batched,
    set_controller,
    suits,
    write_status,
)

NAME = "simulate-statefulsets"


class StatefulSetController:
    """Reconcile StatefulSets."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._revisions = Revisions(state)
        enqueue_owners(state, "StatefulSet", state.stateful_sets.store, queue)

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Take the next step of one StatefulSet. Raises the client's errors."""
        state = self._state
        item = state.stateful_sets.store.get(key)
        if item is None or item.spec.selector is None or item.metadata.deletion_timestamp is not None:
            return None
        pods = state.pods_of(item.metadata.uid)
        owner = owner_reference(STATEFUL_SETS, item.metadata)
        try:
            revision = await self._revisions.keep(
                item.metadata,
                owner,
                item.spec.template,
                limit=item.spec.revision_history_limit,
                in_use={*map(revision_of, pods), item.status.current_revision},
            )
        except ForbiddenError as error:
            if is_namespace_terminating(error):
                return None
            raise
        current = item.status.current_revision or revision.name
        plan = plan_stateful_set(
            item,
            pods,
            state.clock.wall(),
            update=revision.name,
            current=current,
            deleting=state.deleting,
            min_ready_seconds=state.settings.real_seconds(item.spec.min_ready_seconds),
        )
        await run_batched([partial(state.delete_pod, pod) for pod in plan.delete], f"{NAME}-delete")
        await run_batched([partial(self._create, item, new) for new in plan.create], f"{NAME}-create")
        await write_status(state, STATEFUL_SETS, state.stateful_sets.store, item, plan.status)
        return None if plan.requeue_after_seconds is None else RequeueAfter(plan.requeue_after_seconds)

    async def _create(self, item: StatefulSet, new: NewPod) -> None:
        """Create a pod, or adopt an existing one of this name without a controller."""
        state = self._state
        owner = owner_reference(STATEFUL_SETS, item.metadata)
        document = pod_document(item, new, self._template(item, new.revision), owner)
        namespace = item.metadata.namespace
        there: SimulatedPod | None = state.pods.store.get(ObjectKey(namespace, document["metadata"]["name"]))
        if there is not None and suits(item, there):
            await set_controller(state, there, owner)
        elif not await create_pod(state, document, namespace):
            self._queue.add_after(item.metadata.key, 1.0)

    def _template(self, item: StatefulSet, revision: str) -> dict[str, object]:
        for each in self._revisions.of(item.metadata):
            if each.metadata.name == revision:
                return template_of(each)
        return item.spec.template
