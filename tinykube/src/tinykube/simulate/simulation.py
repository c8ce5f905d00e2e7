"""A simulation as parts of a program, and as a program of its own."""

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
from aiokube.runtime.queue import WorkQueue
from aiokube.runtime.runnables import Part
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
from tinykube.simulate.simulation_state import PodEventRecorders, World

K = TypeVar("K", bound=Hashable)

_BUFFERED_EVENTS = 10_000


class SimulationParts(NamedTuple):
    """What a :class:`aiokube.runtime.manager.Manager` is to run."""

    informers: list[Informer[Any]]
    controllers: list[Part]


class Simulation:
    """Nodes, workloads and pods that live on one API server, without a machine.

    It needs the verbs of :class:`aiokube.client.rest.Client` alone, and writes nothing before its caches are filled.
    Two simulations of the same server get in each other's way: run one. It leaves alone what a real kubelet runs.

    ``events`` writes Events about pods; without it there are none. ``rng`` is for jitter of watches; the simulated world depends on ``settings.seed``. On a virtual clock, and a server
    that answers alike, the same seed gives the same history of writes.
    """

    def __init__(
        self,
        client: Api,
        settings: SimulateSettings,
        clock: Clock,
        rng: random.Random,
        events: PodEventRecorders | None = None,
    ) -> None:
        self._world = World(client, settings, clock, rng, events)
        self._clock = clock

    def parts(self) -> SimulationParts:
        """Return informers and controllers, for one manager, beside whatever else it runs. May be called once."""
        world = self._world
        nodes_queue: WorkQueue[str] = WorkQueue(node_controller.NAME, clock=self._clock)
        nodes = node_controller.NodeController(world, nodes_queue)
        controllers: list[Part] = [
            _Starting(self._controller(nodes_queue, nodes.reconcile, 1), nodes.start),
            self._made(scheduler.NAME, lambda queue: scheduler.Scheduler(world, queue).reconcile, 8),
            self._made(kubelet.NAME, lambda queue: kubelet.Kubelet(world, queue).reconcile, 8),
            self._made(
                replicaset_controller.NAME,
                lambda queue: replicaset_controller.ReplicaSetController(world, queue).reconcile,
                4,
            ),
            self._made(
                deployment_controller.NAME,
                lambda queue: deployment_controller.DeploymentController(world, queue).reconcile,
                4,
            ),
            self._made(
                statefulset_controller.NAME,
                lambda queue: statefulset_controller.StatefulSetController(world, queue).reconcile,
                2,
            ),
            self._made(
                daemonset_controller.NAME,
                lambda queue: daemonset_controller.DaemonSetController(world, queue).reconcile,
                2,
            ),
        ]
        if world.settings.restarts:
            controllers.append(
                self._made(restarts.NAME, lambda queue: restarts.Restarts(world, queue).reconcile, 1)
            )
        return SimulationParts(world.informers(), controllers)

    def _made(
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
    """A controller that has something to do before its first key."""

    def __init__(self, controller: Controller[Any], start: Callable[[], None]) -> None:
        self._controller = controller
        self._start = start

    @property
    def name(self) -> str:
        """The controller's name."""
        return self._controller.name

    async def run(self) -> None:
        """Begin, then work until stopped."""
        self._start()
        await self._controller.run()

    async def stop(self, grace_seconds: float) -> ControllerStop:
        """Stop as the controller does."""
        return await self._controller.stop(grace_seconds)


async def run_simulation(
    client: Client, settings: SimulateSettings, stop: asyncio.Event, *, clock: Clock | None = None
) -> ManagerReport:
    """Run a simulation, and nothing else, until ``stop`` is set.

    Raises :class:`aiokube.runtime.manager.PartFailedError` where a part of it ends by itself.
    """
    used = clock or SystemClock()
    rng = random.Random(settings.seed)  # noqa: S311 - for jitter, no secrets
    writer = EventWriter(ClientEventSink(client), clock=used, rng=rng, capacity=_BUFFERED_EVENTS)
    events = PodEventRecorders(writer.recorder("default-scheduler"), writer.recorder("kubelet"))
    informers, controllers = Simulation(client, settings, used, rng, events).parts()
    manager = Manager(clock=used, services=[writer], informers=informers, controllers=controllers)
    return await manager.run(stop)
