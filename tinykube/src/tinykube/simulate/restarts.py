"""Restart annotated Deployments periodically, so that a demo shows rolling updates."""

from aiokube.api.apps import DEPLOYMENTS, Deployment
from aiokube.api.meta import ObjectKey, key_of
from aiokube.runtime.controller import RequeueAfter
from aiokube.work_queue import WorkQueue
from tinykube.simulate.annotations import RESTART, RESTART_EVERY, annotation, seconds
from tinykube.simulate.api import merge
from tinykube.simulate.simulation_state import SimulationState

NAME = "simulate-restarts"
_SHORTEST_SECONDS = 1.0


def restart_period(deployment: Deployment) -> float | None:
    """Return the interval of a Deployment's restarts in simulated seconds; None without the annotation."""
    period = seconds(annotation(deployment.metadata.annotations, RESTART_EVERY))
    return None if period is None else max(period, _SHORTEST_SECONDS)


def is_rolled_out(deployment: Deployment) -> bool:
    """Return whether all pods have the latest template and are available."""
    spec, status = deployment.spec, deployment.status
    return (
        status.observed_generation >= (deployment.metadata.generation or 0)
        and status.updated_replicas == status.available_replicas == status.replicas == spec.replicas
    )


class Restarts:
    """Reconcile Deployments. An update starts one interval after the last one, but only once that one has finished."""

    def __init__(self, state: SimulationState, queue: WorkQueue[ObjectKey]) -> None:
        self._state = state
        self._queue = queue
        self._last: dict[str, float] = {}
        state.deployments.store.subscribe(self._on_deployment)

    def _on_deployment(self, old: Deployment | None, new: Deployment | None) -> None:
        if new is None:
            if old is not None:
                self._last.pop(old.metadata.uid or "", None)
        elif restart_period(new) is not None and new.metadata.uid not in self._last:
            self._queue.add(key_of(new))

    async def reconcile(self, key: ObjectKey) -> RequeueAfter | None:
        """Start an update if one is due. Raises the client's errors."""
        state = self._state
        deployment = state.deployments.store.get(key)
        period = restart_period(deployment) if deployment is not None else None
        if deployment is None or period is None:
            return None
        uid = deployment.metadata.uid or ""
        due = self._last.setdefault(uid, state.now()) + period
        if state.now() < due:
            return self._after(due - state.now())
        if deployment.spec.paused or not is_rolled_out(deployment):
            return self._after(_SHORTEST_SECONDS)
        self._last[uid] = state.now()
        template = deployment.spec.template.get("metadata") or {}
        number = annotation(template.get("annotations"), RESTART) or "0"
        following = str(int(number) + 1 if number.isdecimal() else 1)
        change = {"spec": {"template": {"metadata": {"annotations": {RESTART: following}}}}}
        written = await merge(state.api, DEPLOYMENTS, key, change, uid=uid)
        state.deployments.store.record_write(written)
        return self._after(period)

    def _after(self, simulated_seconds: float) -> RequeueAfter:
        return RequeueAfter(self._state.settings.real_seconds(simulated_seconds))
