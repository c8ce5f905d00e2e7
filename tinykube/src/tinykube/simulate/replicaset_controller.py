"""Keeps as many pods as each ReplicaSet asks for."""

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
    at_once,
    make_pod,
    own_pod,
    owner_reference,
    wake_owners,
    write_status,
)

NAME = "simulate-replicasets"
_MOST_AT_ONCE = 500


class ReplicaSetController:
    """Keys are ReplicaSets. Names of pods come from the seed: the n-th pod of a set is called the same in each run."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._names = PodNames(state)
        wake_owners(state, "ReplicaSet", state.replica_sets.store, queue)

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Bring one set nearer to what it asks for. Raises what the client raises."""
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
            going=state.going,
            min_ready_seconds=state.settings.real_seconds(item.spec.min_ready_seconds),
        )
        await self._apply(item, plan)
        await write_status(state, REPLICA_SETS, state.replica_sets.store, item, plan.status)
        if plan.create > _MOST_AT_ONCE:
            return RequeueAfter(0.0)
        return None if plan.look_again_seconds is None else RequeueAfter(plan.look_again_seconds)

    async def _apply(self, item: ReplicaSet, plan: ReplicaSetPlan) -> None:
        state = self._state
        for pod in plan.release:
            await own_pod(state, pod, None)
        for pod in plan.adopt:
            await own_pod(state, pod, owner_reference(REPLICA_SETS, item.metadata))
        await at_once([partial(state.delete_pod, pod) for pod in plan.delete], f"{NAME}-delete")
        count = min(plan.create, _MOST_AT_ONCE)
        if not count:
            return
        state.making[item.metadata.uid] = count  # a rollout counts them, though nobody has seen them yet
        try:
            await at_once([partial(self._create, item) for _ in range(count)], f"{NAME}-create")
        finally:
            del state.making[item.metadata.uid]

    async def _create(self, item: ReplicaSet) -> None:
        state, uid = self._state, item.metadata.uid
        owner = owner_reference(REPLICA_SETS, item.metadata)
        name = self._names.draw(item.metadata.key)
        document = pod_of_template(item.spec.template, name, owner, {})
        document["metadata"]["generateName"] = f"{item.metadata.name}-"
        if not await make_pod(state, document, item.metadata.namespace):
            self._queue.add_after(item.metadata.key, 1.0)
        state.making[uid] -= 1
