"""Rolls out a Deployment anew every so often, where an annotation asks for it: so that there is something to see."""

from aiokube.api.apps import DEPLOYMENTS, Deployment
from aiokube.api.meta import ObjectKey, key_of
from aiokube.runtime.controller import RequeueAfter
from aiokube.runtime.queue import WorkQueue
from tinykube.simulate.annotations import RESTART, RESTART_EVERY, seconds
from tinykube.simulate.api import merge
from tinykube.simulate.simulation_state import World

NAME = "simulate-restarts"
_SHORTEST_SECONDS = 1.0


def restart_period(deployment: Deployment) -> float | None:
    """Return every how many simulated seconds a Deployment is to be rolled out, None where it is not asked for."""
    period = seconds((deployment.metadata.annotations or {}).get(RESTART_EVERY))
    return None if period is None else max(period, _SHORTEST_SECONDS)


def is_rolled_out(deployment: Deployment) -> bool:
    """Tell whether all of its pods are of its last template, and available."""
    spec, status = deployment.spec, deployment.status
    return (
        status.observed_generation >= (deployment.metadata.generation or 0)
        and status.updated_replicas == status.available_replicas == status.replicas == spec.replicas
    )


class Restarts:
    """Keys are those of Deployments. The next update begins a period after the last, never before that is done."""

    def __init__(self, world: World, queue: WorkQueue[ObjectKey]) -> None:
        self._world = world
        self._queue = queue
        self._last: dict[str, float] = {}
        world.deployments.store.subscribe(self._on_deployment)

    def _on_deployment(self, old: Deployment | None, new: Deployment | None) -> None:
        if new is None:
            if old is not None:
                self._last.pop(old.metadata.uid or "", None)
        elif restart_period(new) is not None and new.metadata.uid not in self._last:
            self._queue.add(key_of(new))

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Begin an update where one is due. Raises what the client raises."""
        world = self._world
        deployment = world.deployments.store.get(key)
        period = restart_period(deployment) if deployment is not None else None
        if deployment is None or period is None:
            return None
        uid = deployment.metadata.uid or ""
        due = self._last.setdefault(uid, world.now()) + period
        if world.now() < due:
            return self._after(due - world.now())
        if deployment.spec.paused or not is_rolled_out(deployment):
            return self._after(_SHORTEST_SECONDS)
        self._last[uid] = world.now()
        template = deployment.spec.template.get("metadata") or {}
        number = (template.get("annotations") or {}).get(RESTART, "0")
        following = str(int(number) + 1 if number.isdecimal() else 1)
        change = {"spec": {"template": {"metadata": {"annotations": {RESTART: following}}}}}
        written = await merge(world.api, DEPLOYMENTS, key, change, uid=uid)
        world.deployments.store.record_write(written)
        return self._after(period)

    def _after(self, simulated_seconds: float) -> RequeueAfter:
        return RequeueAfter(self._world.settings.real_seconds(simulated_seconds))
