"""The state that all controllers of a simulation share: caches, indexes of pods, clock and random source."""

import contextlib
import random
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from aiokube.api.apps import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ControllerRevision,
    DaemonSet,
    Deployment,
    ReplicaSet,
    StatefulSet,
)
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.times import format_time, parse_time
from aiokube.client.errors import ConflictError, NotFoundError
from aiokube.clock import Clock
from aiokube.runtime.events import EventRecorder, reference
from aiokube.runtime.informer import Informer
from aiokube.runtime.reachability import Reachability
from tinykube.simulate.api import Api
from tinykube.simulate.nodes import SIMULATED_NODES, SimulatedNode
from tinykube.simulate.pod_events import PodEvent
from tinykube.simulate.pods import SIMULATED_PODS, SimulatedPod, controller_of, is_terminating
from tinykube.simulate.seeded_random import SeededRandom
from tinykube.simulate.settings import SimulateSettings


class PodEventRecorders(NamedTuple):
    """The recorders of Events about pods, by component."""

    scheduler: EventRecorder
    kubelet: EventRecorder


class SimulationState:
    """The shared state of a simulation on one server. Only :meth:`delete_pod` writes.

    ``rng`` is for the jitter of watches; simulated randomness comes from the settings' seed.
    """

    def __init__(
        self,
        api: Api,
        settings: SimulateSettings,
        clock: Clock,
        rng: random.Random,
        events: PodEventRecorders | None = None,
    ) -> None:
        self.api = api
        self._events = events
        self.settings = settings
        self.clock = clock
        self.seeded_random = SeededRandom(settings.seed)

        reachability = Reachability(clock=clock, rng=rng)
        self.nodes: Informer[SimulatedNode] = Informer(
            api.source(SIMULATED_NODES),
            name="simulate nodes",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self.pods: Informer[SimulatedPod] = Informer(
            api.source(SIMULATED_PODS), name="simulate pods", clock=clock, rng=rng, reachability=reachability
        )
        self.deployments: Informer[Deployment] = Informer(
            api.source(DEPLOYMENTS),
            name="simulate deployments",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self.replica_sets: Informer[ReplicaSet] = Informer(
            api.source(REPLICA_SETS),
            name="simulate replicasets",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self.stateful_sets: Informer[StatefulSet] = Informer(
            api.source(STATEFUL_SETS),
            name="simulate statefulsets",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self.daemon_sets: Informer[DaemonSet] = Informer(
            api.source(DAEMON_SETS),
            name="simulate daemonsets",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self.revisions: Informer[ControllerRevision] = Informer(
            api.source(CONTROLLER_REVISIONS),
            name="simulate controllerrevisions",
            clock=clock,
            rng=rng,
            reachability=reachability,
        )
        self._owned: dict[str, dict[ObjectKey, None]] = {}  # pods by the uid of their controller, "" for none
        self._by_node: dict[str, dict[ObjectKey, None]] = {}
        self.deleting: set[str] = set()
        """Uids of pods whose deletion the server has accepted and the watch has not reported."""
        self.creating: dict[str, int] = {}
        """Pods being created, counted by the uid of their owner."""
        self.nodes_created = settings.nodes == 0
        """Whether all initial nodes exist; earlier scheduling would place all pods on the first."""
        self.on_nodes_created: list[Callable[[], None]] = []
        self.pods.store.subscribe(self._on_pod)

    def record_event(
        self, component: Literal["scheduler", "kubelet"], pod: SimulatedPod, event: PodEvent
    ) -> None:
        """Queue an Event about a pod, if there is a recorder."""
        if self._events is not None:
            about = msgspec.structs.replace(reference(SIMULATED_PODS, pod), field_path=event.field_path)
            getattr(self._events, component).event(about, event.type, event.reason, event.message)

    def informers(self) -> list[Informer[Any]]:
        """Return all informers."""
        return [
            self.nodes,
            self.pods,
            self.deployments,
            self.replica_sets,
            self.stateful_sets,
            self.daemon_sets,
            self.revisions,
        ]

    # ---------------------------------------------------------------------------------------------- time

    def now(self) -> float:
        """Return the simulated monotonic time in seconds."""
        return self.clock.monotonic() * self.settings.speed

    def moment(self) -> str:
        """Return the current time as an RFC 3339 timestamp."""
        return format_time(self.clock.wall())

    def elapsed(self, moment: str | None) -> float:
        """Return the simulated seconds since a timestamp; 0 without one."""
        then = parse_time(moment)
        return 0.0 if then is None else (self.clock.wall() - then).total_seconds() * self.settings.speed

    def mark_nodes_created(self) -> None:
        """Record that the initial nodes exist, and call the subscribers."""
        self.nodes_created = True
        for callback in self.on_nodes_created:
            callback()

    # ---------------------------------------------------------------------------------------------- pods

    def pods_of(self, uid: str, namespace: str | None = None) -> list[SimulatedPod]:
        """Return the pods that a controller owns, by its uid; ``""`` for pods without a controller."""
        pods = self.pods.store
        found = (pods.get(key) for key in self._owned.get(uid, ()) if namespace in (None, key.namespace))
        return [pod for pod in found if pod is not None]

    def count_of(self, uid: str) -> int:
        """Return the number of pods that a controller owns."""
        return len(self._owned.get(uid, ()))

    def pods_on(self, node: str) -> list[SimulatedPod]:
        """Return the pods bound to a node."""
        found = (self.pods.store.get(key) for key in self._by_node.get(node, ()))
        return [pod for pod in found if pod is not None]

    async def delete_pod(self, pod: SimulatedPod, grace_period_seconds: int | None = None) -> None:
        """Delete a pod; no-op if it no longer exists or was replaced."""
        uid, key = pod.metadata.uid, key_of(pod)
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.api.delete(SIMULATED_PODS, key, uid=uid, grace_period_seconds=grace_period_seconds)
        there = self.pods.store.get(key)
        if there is not None and there.metadata.uid == uid and not is_terminating(there):
            self.deleting.add(uid)

    def _on_pod(self, old: SimulatedPod | None, new: SimulatedPod | None) -> None:
        key = key_of(new or old)  # type: ignore[arg-type]  # one of them there is
        before = _places(old)
        now = _places(new)
        if before != now:
            for index, was, place in zip((self._owned, self._by_node), before, now, strict=True):
                if was == place:
                    continue
                if was is not None and was in index:
                    index[was].pop(key, None)
                    if not index[was]:
                        del index[was]
                if place is not None:
                    index.setdefault(place, {})[key] = None
        if old is not None and (new is None or is_terminating(new)):
            self.deleting.discard(old.metadata.uid)


def _places(pod: SimulatedPod | None) -> tuple[str | None, str | None]:
    """Return the index keys of a pod: its owner and its node."""
    if pod is None:
        return None, None
    owner = controller_of(pod.metadata)
    return owner.uid if owner is not None else "", pod.spec.node_name or None
