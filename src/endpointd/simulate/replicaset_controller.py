"""Keeps as many pods as each ReplicaSet asks for."""

from functools import partial

from endpointd.api.apps import REPLICA_SETS, ReplicaSet
from endpointd.api.meta import ObjectKey, key_of
from endpointd.client.errors import ConflictError, NotFoundError
from endpointd.runtime.controller import RequeueAfter
from endpointd.runtime.queue import WorkQueue
from endpointd.simulate.api import merge
from endpointd.simulate.pods import SIMULATED_PODS, SimulatedPod, pod_of_template
from endpointd.simulate.replicaset_plan import ReplicaSetPlan, plan_replica_set
from endpointd.simulate.workloads import at_once, make_pod, owner_reference, wake_owners, write_status
from endpointd.simulate.world import World

NAME = "simulate-replicasets"
_MOST_AT_ONCE = 500
_LONGEST_BASE = 57


class ReplicaSetController:
    """Keys are ReplicaSets. Names of pods come from the seed: the n-th pod of a set is called the same in each run."""

    def __init__(self, world: World, queue: WorkQueue[ObjectKey]) -> None:
        self._world = world
        self._queue = queue
        self._made: dict[ObjectKey, int] = {}  # how many names were drawn
        wake_owners(world, "ReplicaSet", world.replica_sets.store, queue)

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Bring one set nearer to what it asks for. Raises what the client raises."""
        world = self._world
        item = world.replica_sets.store.get(key)
        if item is None:
            return None
        uid = item.metadata.uid
        pods = [*world.pods_of(uid), *world.pods_of("", key.namespace)]
        plan = plan_replica_set(
            item,
            pods,
            world.clock.wall(),
            going=world.going,
            min_ready_seconds=world.settings.real_seconds(item.spec.min_ready_seconds),
        )
        await self._apply(item, plan)
        await write_status(world, REPLICA_SETS, world.replica_sets.store, item, plan.status)
        if plan.create > _MOST_AT_ONCE:
            return RequeueAfter(0.0)
        return None if plan.look_again_seconds is None else RequeueAfter(plan.look_again_seconds)

    async def _apply(self, item: ReplicaSet, plan: ReplicaSetPlan) -> None:
        world = self._world
        for pod in plan.release:
            await self._own(pod, None)
        for pod in plan.adopt:
            await self._own(pod, owner_reference(REPLICA_SETS, item.metadata))
        await at_once([partial(world.delete_pod, pod) for pod in plan.delete], f"{NAME}-delete")
        count = min(plan.create, _MOST_AT_ONCE)
        await at_once([partial(self._create, item) for _ in range(count)], f"{NAME}-create")

    async def _create(self, item: ReplicaSet) -> None:
        owner = owner_reference(REPLICA_SETS, item.metadata)
        name = self._name(item.metadata.key)
        document = pod_of_template(item.spec.template, name, owner, {})
        document["metadata"]["generateName"] = f"{item.metadata.name}-"
        if not await make_pod(self._world, document, item.metadata.namespace):
            self._queue.add_after(item.metadata.key, 1.0)

    def _name(self, key: ObjectKey) -> str:
        """Draw the next name that is free, as far as we know."""
        while True:
            number = self._made[key] = self._made.get(key, 0) + 1
            name = f"{key.name[:_LONGEST_BASE]}-{self._world.chance.suffix('pod', *key, number)}"
            if self._world.pods.store.get(ObjectKey(key.namespace, name)) is None:
                return name

    async def _own(self, pod: SimulatedPod, owner: dict[str, object] | None) -> None:
        """Adopt a pod, or let it go; one that has changed meanwhile is looked at again when the watch tells."""
        others = [
            {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid}
            for each in pod.metadata.owner_references or ()
            if not each.controller
        ]
        references = [*others, *([owner] if owner is not None else [])]
        try:
            written = await merge(
                self._world.api,
                SIMULATED_PODS,
                key_of(pod),
                {"metadata": {"ownerReferences": references or None}},
                uid=pod.metadata.uid,
                resource_version=pod.metadata.resource_version,
            )
        except (ConflictError, NotFoundError):
            return
        self._world.pods.store.record_write(written)
