"""Code shared by the workload controllers: event mapping, creating pods, writing status."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectMeta, key_of
from aiokube.api.resource import Resource
from aiokube.api.selectors import SelectorError, selector_of
from aiokube.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    is_namespace_terminating,
)
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue
from tinykube.simulate.api import create, merge
from tinykube.simulate.pods import SIMULATED_PODS, SimulatedPod, controller_of
from tinykube.simulate.simulation_state import SimulationState

T = TypeVar("T", bound=KubernetesObject)

_MAX_CONCURRENT = 16
_LONGEST_BASE = 57
_BATCH_SECONDS = 0.02
_BATCH_SECONDS_PER_POD = 0.0001
"""How long pod events are batched before their owner is reconciled; larger owners wait longer."""


def owner_reference(resource: Resource[Any], metadata: ObjectMeta) -> dict[str, object]:
    """Return the JSON of a controller reference."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def enqueue_owners(
    state: SimulationState, kind: str, owners: Store[Any], queue: WorkQueue[ObjectKey]
) -> None:
    """Enqueue owners of one kind when they or their pods change, or when they may adopt an orphaned pod."""

    def on_owner(_old: Any, new: Any) -> None:
        if new is not None:
            queue.add(key_of(new))

    def on_pod(old: SimulatedPod | None, new: SimulatedPod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            owner = controller_of(pod.metadata)
            namespace = pod.metadata.namespace
            if owner is not None:
                if owner.kind == kind:
                    delay = _BATCH_SECONDS + _BATCH_SECONDS_PER_POD * state.count_of(owner.uid)
                    queue.add_after(ObjectKey(namespace, owner.name), delay)
            elif pod is new and (old is None or old.metadata.labels != new.metadata.labels):
                for each in owners.in_namespace(namespace):
                    if suits(each, pod):
                        queue.add_after(key_of(each), _BATCH_SECONDS)

    owners.subscribe(on_owner)
    state.pods.store.subscribe(on_pod)


def suits(owner: Any, pod: SimulatedPod) -> bool:
    """Return whether an owner's selector matches a pod that has no controller."""
    if controller_of(pod.metadata) is not None:
        return False
    try:
        return selector_of(owner.spec.selector).matches(pod.metadata.labels or {})
    except SelectorError:
        return False  # the server rejects such selectors


async def run_batched(work: Sequence[Callable[[], Awaitable[object]]], name: str) -> None:
    """Run all work in order, a few items concurrently. Raises an ExceptionGroup of the failures."""
    for first in range(0, len(work), _MAX_CONCURRENT):
        async with asyncio.TaskGroup() as group:
            for number, each in enumerate(work[first : first + _MAX_CONCURRENT], first):
                group.create_task(_run(each), name=f"{name}-{number}")


async def _run(work: Callable[[], Awaitable[object]]) -> None:
    await work()


class PodNames:
    """Seeded pod names: the n-th pod of an owner has the same name in each run."""

    def __init__(self, state: SimulationState) -> None:
        self._state = state
        self._drawn: dict[ObjectKey, int] = {}

    def draw(self, owner: ObjectKey) -> str:
        """Return the next name that is not in the cache."""
        while True:
            number = self._drawn[owner] = self._drawn.get(owner, 0) + 1
            name = f"{owner.name[:_LONGEST_BASE]}-{self._state.seeded_random.suffix('pod', *owner, number)}"
            if self._state.pods.store.get(ObjectKey(owner.namespace, name)) is None:
                return name


async def set_controller(state: SimulationState, pod: SimulatedPod, owner: dict[str, object] | None) -> None:
    """Set or remove a pod's controller reference; if the pod has changed, its watch event requeues it."""
    others = [
        {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid}
        for each in pod.metadata.owner_references or ()
        if not each.controller
    ]
    references = [*others, *([owner] if owner is not None else [])]
    try:
        written = await merge(
            state.api,
            SIMULATED_PODS,
            key_of(pod),
            {"metadata": {"ownerReferences": references or None}},
            uid=pod.metadata.uid,
            resource_version=pod.metadata.resource_version,
        )
    except (ConflictError, NotFoundError):
        return
    state.pods.store.record_write(written)


async def create_pod(state: SimulationState, document: dict[str, Any], namespace: str) -> bool:
    """Create a pod and add it to the cache; return False if the name is taken or the namespace is terminating."""
    try:
        pod = await create(state.api, SIMULATED_PODS, document, namespace)
    except AlreadyExistsError:
        return False
    except ForbiddenError as error:
        if is_namespace_terminating(error):
            return False
        raise
    state.pods.store.record_write(pod)
    return True


async def write_status(
    state: SimulationState, resource: Resource[T], store: Store[T], item: Any, status: msgspec.Struct
) -> None:
    """Write a status if it differs; no-op if the object no longer exists or was replaced."""
    if item.status == status:
        return
    try:
        written = await merge(
            state.api,
            resource,
            key_of(item),
            {"status": msgspec.to_builtins(status)},
            uid=item.metadata.uid,
            subresource="status",
        )
    except (ConflictError, NotFoundError):
        return  # the watch event requeues it
    store.record_write(written)
