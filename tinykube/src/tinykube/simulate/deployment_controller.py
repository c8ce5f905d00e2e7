"""Roll out Deployments, one step at a time."""

from collections.abc import Mapping

from aiokube.api.apps import DEPLOYMENTS, REPLICA_SETS, Deployment, ReplicaSet
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.selectors import selector_of
from aiokube.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    is_namespace_terminating,
)
from aiokube.runtime.controller import RequeueAfter
from aiokube.work_queue import WorkQueue
from tinykube.simulate.api import create, merge
from tinykube.simulate.deployment_plan import (
    REVISION,
    DeploymentPlan,
    NewSet,
    ReplicaSetState,
    SetChange,
    is_set_of,
    plan_deployment,
    set_document,
)
from tinykube.simulate.pods import (
    SimulatedPod,
    available_in,
    controller_of,
    is_finished,
    is_terminating,
)
from tinykube.simulate.simulation_state import SimulationState
from tinykube.simulate.workloads import owner_reference, write_status

NAME = "simulate-deployments"
_NO_DEADLINE_SECONDS = 2**31 - 1


class DeploymentController:
    """Reconcile Deployments."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._collisions: dict[str, int] = {}  # by uid
        self._sets: dict[str, dict[ObjectKey, None]] = {}  # by the uid of the Deployment
        self._orphans: dict[ObjectKey, None] = {}  # ReplicaSets without an owner
        state.deployments.store.subscribe(self._on_deployment)
        state.replica_sets.store.subscribe(self._on_set)
        state.pods.store.subscribe(self._on_pod)

    def _on_deployment(self, old: Deployment | None, new: Deployment | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))
        elif old is not None:
            self._collisions.pop(old.metadata.uid, None)

    def _on_set(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if old is not None:
            self._orphans.pop(key_of(old), None)
        if (
            new is not None
            and controller_of(new.metadata) is None
            and new.metadata.deletion_timestamp is None
        ):
            self._orphans[key_of(new)] = None
            for deployment in self._state.deployments.store.in_namespace(new.metadata.namespace):
                self._queue.add(key_of(deployment))
        for item in (old, new):
            owner = controller_of(item.metadata) if item is not None else None
            if item is None or owner is None or owner.kind != "Deployment":
                continue
            if item is new:
                self._sets.setdefault(owner.uid, {})[key_of(item)] = None
            elif owner.uid in self._sets:
                self._sets[owner.uid].pop(key_of(item), None)
                if not self._sets[owner.uid]:
                    del self._sets[owner.uid]
            self._queue.add(ObjectKey(item.metadata.namespace, owner.name))

    def _on_pod(self, old: SimulatedPod | None, new: SimulatedPod | None) -> None:
        """Watch for pods that terminate: the Recreate strategy waits for the last one."""
        if old is None or (new is not None and is_finished(new) == is_finished(old)):
            return
        owner = controller_of(old.metadata)
        if owner is None or owner.kind != "ReplicaSet":
            return
        item = self._state.replica_sets.store.get(ObjectKey(old.metadata.namespace, owner.name))
        above = controller_of(item.metadata) if item is not None else None
        if above is not None and above.kind == "Deployment":
            self._queue.add(ObjectKey(old.metadata.namespace, above.name))

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Take the next step of one rollout. Raises the client's errors."""
        state = self._state
        deployment = state.deployments.store.get(key)
        if deployment is None or deployment.spec.selector is None:
            return None
        store = state.replica_sets.store
        if deployment.metadata.deletion_timestamp is None:
            await self._adopt(deployment)
        owned = [item for each in self._sets.get(deployment.metadata.uid, ()) if (item := store.get(each))]
        deadline = float(deployment.spec.progress_deadline_seconds)
        if deadline < _NO_DEADLINE_SECONDS:
            deadline = state.settings.real_seconds(deadline)
        plan = plan_deployment(
            deployment,
            [self._counted(item) for item in owned],
            state.clock.wall(),
            collisions=self._collisions.get(deployment.metadata.uid, 0),
            deadline_seconds=deadline,
        )
        await self._apply(deployment, plan)
        if plan.requeue_after_seconds is None:
            return None
        return RequeueAfter(plan.requeue_after_seconds + 1.0)  # timestamps have whole seconds

    async def _adopt(self, deployment: Deployment) -> None:
        """Adopt orphaned ReplicaSets that the selector matches, as left by `kubectl delete --cascade=orphan`."""
        store = self._state.replica_sets.store
        fits = selector_of(deployment.spec.selector).matches
        owners = {"ownerReferences": [owner_reference(DEPLOYMENTS, deployment.metadata)]}
        for key in [each for each in self._orphans if each.namespace == deployment.metadata.namespace]:
            item = store.get(key)
            if item is None or not fits(item.metadata.labels or {}):
                continue
            await self._change(SetChange(item), metadata=owners)

    def _counted(self, item: ReplicaSet) -> ReplicaSetState:
        state = self._state
        now, wait = state.clock.wall(), state.settings.real_seconds(item.spec.min_ready_seconds)
        pods = [pod for pod in state.pods_of(item.metadata.uid) if not is_finished(pod)]
        active = [pod for pod in pods if not is_terminating(pod) and pod.metadata.uid not in state.deleting]
        available = sum((left := available_in(pod, wait, now)) is not None and left <= 0 for pod in active)
        return ReplicaSetState(
            item,
            present=len(pods),
            active=len(active) + state.creating.get(item.metadata.uid, 0),
            available=available,
        )

    async def _apply(self, deployment: Deployment, plan: DeploymentPlan) -> None:
        state = self._state
        if plan.create is not None:
            await self._create(deployment, plan.create)
        for change in plan.changes:
            await self._change(change)
        if plan.revision is not None:
            written = await merge(
                state.api,
                DEPLOYMENTS,
                key_of(deployment),
                {"metadata": {"annotations": {REVISION: plan.revision}}},
                uid=deployment.metadata.uid,
            )
            state.deployments.store.record_write(written)
        for item in plan.deletes:
            try:
                await state.api.delete(REPLICA_SETS, key_of(item), uid=item.metadata.uid)
            except NotFoundError:
                continue
            state.replica_sets.store.record_delete(key_of(item), item.metadata.uid)
        await write_status(state, DEPLOYMENTS, state.deployments.store, deployment, plan.status)

    async def _create(self, deployment: Deployment, new: NewSet) -> None:
        state, namespace = self._state, deployment.metadata.namespace
        try:
            item = await create(state.api, REPLICA_SETS, set_document(deployment, new), namespace)
        except AlreadyExistsError:
            there = await state.api.get(REPLICA_SETS, ObjectKey(namespace, new.name))
            owner = controller_of(there.metadata)
            ours = owner is not None and owner.uid == deployment.metadata.uid
            if ours and is_set_of(there, deployment.spec.template):
                state.replica_sets.store.record_write(there)
            else:
                uid = deployment.metadata.uid
                self._collisions[uid] = self._collisions.get(uid, 0) + 1
                self._queue.add_after(key_of(deployment), 0.1)
        except ForbiddenError as error:
            if not is_namespace_terminating(error):
                raise
        else:
            state.replica_sets.store.record_write(item)

    async def _change(self, change: SetChange, metadata: Mapping[str, object] | None = None) -> None:
        body: dict[str, object] = {}
        if metadata:
            body["metadata"] = metadata
        if change.annotations:
            body["metadata"] = {"annotations": change.annotations}
        if change.replicas is not None:
            body["spec"] = {"replicas": change.replicas}
        try:
            written = await merge(
                self._state.api,
                REPLICA_SETS,
                key_of(change.item),
                body,
                uid=change.item.metadata.uid,
                resource_version=change.item.metadata.resource_version,
            )
        except (ConflictError, NotFoundError):
            return  # the ReplicaSet has changed: its watch event triggers a new plan
        self._state.replica_sets.store.record_write(written)
