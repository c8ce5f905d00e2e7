"""The Events that a kubelet records about a pod, from the old and new status. Pure."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from tinykube.simulate.pods import Container, ContainerStatus, PodStatus, SimulatedPod


class PodEvent(msgspec.Struct, frozen=True):
    """One Event about a pod, or about one of its containers."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    field_path: str | None = None


def pod_events(pod: SimulatedPod, after: PodStatus) -> Iterator[PodEvent]:
    """Yield the Events for the transition from the pod's status to ``after``, in order."""
    kinds = (
        (
            "initContainers",
            pod.spec.init_containers,
            pod.status.init_container_statuses,
            after.init_container_statuses,
        ),
        ("containers", pod.spec.containers, pod.status.container_statuses, after.container_statuses),
    )
    for field, containers, old, new in kinds:
        before = {status.name: status for status in old or ()}
        now = {status.name: status for status in new or ()}
        for container in containers or ():
            status = now.get(container.name)
            if status is not None:
                path = f"spec.{field}{{{container.name}}}"
                yield from _container_events(
                    pod, container, before.get(container.name) or ContainerStatus(), status, path
                )


def killing_events(pod: SimulatedPod) -> Iterator[PodEvent]:
    """Yield the Events about the running containers of a pod that has just been deleted."""
    for status in pod.status.container_statuses or ():
        if status.state.running is not None:
            path = f"spec.containers{{{status.name}}}"
            yield PodEvent("Normal", "Killing", f"Stopping container {status.name}", path)


def _container_events(
    pod: SimulatedPod, container: Container, old: ContainerStatus, new: ContainerStatus, path: str
) -> Iterator[PodEvent]:
    name = container.name
    if _last_start(new) != _last_start(old):
        yield PodEvent(
            "Normal", "Pulled", f'Container image "{container.image}" is present on the machine', path
        )
        yield PodEvent("Normal", "Started", f"Started container {name}", path)
    waiting, before = new.state.waiting, old.state.waiting
    if (
        waiting is not None
        and waiting.reason == "CrashLoopBackOff"
        and (before is None or before.reason != waiting.reason)
    ):
        text = (
            f"Back-off restarting failed container {name} in pod {pod.metadata.name}_{pod.metadata.namespace}"
        )
        yield PodEvent("Warning", "BackOff", text, path)
    is_same_run = new.state.running is not None and new.state.running == old.state.running
    if is_same_run and old.ready and not new.ready and container.readiness_probe is not None:
        yield PodEvent("Warning", "Unhealthy", "Readiness probe failed: the simulated probe fails", path)


def _last_start(status: ContainerStatus) -> str | None:
    """Return the last start time of a container, in any state."""
    state = status.state
    if state.running is not None:
        return state.running.started_at
    for ended in (state.terminated, status.last_state.terminated):
        if ended is not None:
            return ended.started_at
    return None
