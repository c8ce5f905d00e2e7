"""Run the simulation: alone, or as runnables of a larger program."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from aiokube.runtime.controller import Controller, ControllerStop, RequeueAfter
from aiokube.runtime.events import ClientEventSink, EventWriter
from aiokube.runtime.informer import Informer
from aiokube.runtime.manager import Manager, ManagerReport
from aiokube.runtime.runnables import Runnable
from aiokube.work_queue import WorkQueue
from tinykube.simulate import (
    daemonset_controller,
    deployment_controller,
    kubelet,
    node_controller,
    replicaset_controller,
    restarts,
    scheduler,
    statefulset_controller,
)
from tinykube.simulate.api import Api
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation_state import PodEventRecorders, SimulationState

K = TypeVar("K", bound=Hashable)

_BUFFERED_EVENTS = 10_000


class SimulationRunnables(NamedTuple):
    """The informers and controllers for a :class:`aiokube.runtime.manager.Manager`."""

    informers: list[Informer[Any]]
    controllers: list[Runnable]


class Simulation:
    """Simulate nodes, workloads and pods on one API server.

    Only the verbs of :class:`aiokube.client.rest.Client` are used, and nothing is written before the caches
    have synced. Run one simulation per server. Nodes of a real kubelet, and their pods, are ignored.

    ``events`` records Events about pods; without it none are written. ``rng`` is for the jitter of watches;
    all simulated behaviour depends on ``settings.seed``. With a virtual clock and a deterministic server, the
    same seed gives the same sequence of writes.
    """

    def __init__(
        self,
        client: Api,
        settings: SimulateSettings,
        clock: Clock,
        rng: random.Random,
        events: PodEventRecorders | None = None,
    ) -> None:
        self._state = SimulationState(client, settings, clock, rng, events)
        self._clock = clock

    def runnables(self) -> SimulationRunnables:
        """Return the informers and controllers to run in one manager. May be called once."""
        state = self._state
        nodes_queue: WorkQueue[str] = WorkQueue(node_controller.NAME, clock=self._clock)
        nodes = node_controller.NodeController(state, nodes_queue)
        controllers: list[Runnable] = [
            _Starting(self._controller(nodes_queue, nodes.reconcile, 1), nodes.start),
            self._new_controller(
                scheduler.NAME, lambda queue: scheduler.Scheduler(state, queue).reconcile, 8
            ),
            self._new_controller(kubelet.NAME, lambda queue: kubelet.Kubelet(state, queue).reconcile, 8),
            self._new_controller(
                replicaset_controller.NAME,
                lambda queue: replicaset_controller.ReplicaSetController(state, queue).reconcile,
                4,
            ),
            self._new_controller(
                deployment_controller.NAME,
                lambda queue: deployment_controller.DeploymentController(state, queue).reconcile,
                4,
            ),
            self._new_controller(
                statefulset_controller.NAME,
                lambda queue: statefulset_controller.StatefulSetController(state, queue).reconcile,
                2,
            ),
            self._new_controller(
                daemonset_controller.NAME,
                lambda queue: daemonset_controller.DaemonSetController(state, queue).reconcile,
                2,
            ),
        ]
        if state.settings.restarts:
            controllers.append(
                self._new_controller(
                    restarts.NAME, lambda queue: restarts.Restarts(state, queue).reconcile, 1
                )
            )
        return SimulationRunnables(state.informers(), controllers)

    def _new_controller(
        self,
        name: str,
        make: Callable[[WorkQueue[Any]], Callable[[Any], Awaitable[RequeueAfter | None]]],
        workers: int,
    ) -> Controller[Any]:
        queue: WorkQueue[Any] = WorkQueue(name, clock=self._clock)
        return self._controller(queue, make(queue), workers)

    def _controller(
        self, queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[RequeueAfter | None]], workers: int
    ) -> Controller[K]:
        return Controller(queue.name, queue, reconcile, workers, clock=self._clock)


class _Starting:
    """A controller with a function that runs before its first key."""

    def __init__(self, controller: Controller[Any], start: Callable[[], None]) -> None:
        self._controller = controller
        self._start = start

    @property
    def name(self) -> str:
        """The controller's name."""
        return self._controller.name

    async def run(self) -> None:
        """Run the function, then work until stopped."""
        self._start()
        await self._controller.run()

    async def stop(self, grace_seconds: float) -> ControllerStop:
        """Stop the controller."""
        return await self._controller.stop(grace_seconds)


async def run_simulation(
    client: Client, settings: SimulateSettings, stop: asyncio.Event, *, clock: Clock | None = None
) -> ManagerReport:
    """Run a simulation until ``stop`` is set.

    Raises :class:`aiokube.runtime.manager.PartFailedError` if one of its tasks ends unexpectedly.
    """
    used = clock or SystemClock()
    rng = random.Random(settings.seed)  # noqa: S311 - for jitter, no secrets
    writer = EventWriter(ClientEventSink(client), clock=used, rng=rng, capacity=_BUFFERED_EVENTS)
    events = PodEventRecorders(writer.recorder("default-scheduler"), writer.recorder("kubelet"))
    informers, controllers = Simulation(client, settings, used, rng, events).runnables()
    manager = Manager(clock=used, services=[writer], informers=informers, controllers=controllers)
    return await manager.run(stop)
