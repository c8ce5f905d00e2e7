"""Keep the desired number of pods of each ReplicaSet."""

from functools import partial

from aiokube.api.apps import REPLICA_SETS, ReplicaSet
from aiokube.api.meta import ObjectKey
from aiokube.runtime.controller import RequeueAfter
from aiokube.work_queue import WorkQueue
from tinykube.simulate.pods import pod_of_template
from tinykube.simulate.replicaset_plan import ReplicaSetPlan, plan_replica_set
from tinykube.simulate.simulation_state import SimulationState
from tinykube.simulate.workloads import (
    PodNames,
    create_pod,
    enqueue_owners,
    owner_reference,
    run_batched,
    set_controller,
    write_status,
)

NAME = "simulate-replicasets"
_MAX_CREATES_PER_STEP = 500


class ReplicaSetController:
    """Reconcile ReplicaSets. Pod names derive from the seed: the n-th pod of a set has the same name in each run."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._names = PodNames(state)
        enqueue_owners(state, "ReplicaSet", state.replica_sets.store, queue)

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Take the next step towards the desired state of one ReplicaSet. Raises the client's errors."""
        state = self._state
        item = state.replica_sets.store.get(key)
        if item is None:
            return None
        uid = item.metadata.uid
        pods = [*state.pods_of(uid), *state.pods_of("", key.namespace)]
        plan = plan_replica_set(
            item,
            pods,
            state.clock.wall(),
            deleting=state.deleting,
            min_ready_seconds=state.settings.real_seconds(item.spec.min_ready_seconds),
        )
        await self._apply(item, plan)
        await write_status(state, REPLICA_SETS, state.replica_sets.store, item, plan.status)
        if plan.create > _MAX_CREATES_PER_STEP:
            return RequeueAfter(0.0)
        return None if plan.requeue_after_seconds is None else RequeueAfter(plan.requeue_after_seconds)

    async def _apply(self, item: ReplicaSet, plan: ReplicaSetPlan) -> None:
        state = self._state
        for pod in plan.release:
            await set_controller(state, pod, None)
        for pod in plan.adopt:
            await set_controller(state, pod, owner_reference(REPLICA_SETS, item.metadata))
        await run_batched([partial(state.delete_pod, pod) for pod in plan.delete], f"{NAME}-delete")
        count = min(plan.create, _MAX_CREATES_PER_STEP)
        if not count:
            return
        state.creating[item.metadata.uid] = count  # a rollout counts pods that are not in the cache yet
        try:
            await run_batched([partial(self._create, item) for _ in range(count)], f"{NAME}-create")
        finally:
            del state.creating[item.metadata.uid]

    async def _create(self, item: ReplicaSet) -> None:
        state, uid = self._state, item.metadata.uid
        owner = owner_reference(REPLICA_SETS, item.metadata)
        name = self._names.draw(item.metadata.key)
        document = pod_of_template(item.spec.template, name, owner, {})
        document["metadata"]["generateName"] = f"{item.metadata.name}-"
        if not await create_pod(state, document, item.metadata.namespace):
            self._queue.add_after(item.metadata.key, 1.0)
        state.creating[uid] -= 1
