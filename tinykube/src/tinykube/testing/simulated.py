"""Find races in a controller: run its test against tinykube with many seeds, each with its own faults and order of callbacks.

::

    @simulated(seeds=200, faults=("lost answers", "crashes"))
    async def test_every_namespace_is_registered(cluster: SimulatedCluster) -> None:
        cluster.start(register)  # as decorated with aiokube.controller
        await cluster.create(NAMESPACES, Namespace(ObjectMeta(name="a")))
        await cluster.settle()
        assert ...

A failing seed is shrunk: the error names the seed, the faults that are needed, and what happened.
"""

import asyncio
import functools
import gc
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from unittest import mock

import msgspec

from aiokube.api.meta import KubernetesObject
from aiokube.api.resource import Resource
from aiokube.client.rest import Client
from aiokube.runtime.program import ControllerDefinition, run_controllers
from aiokube.testing.simulated_loop import Schedule, SimulatedHost, SimulatedLoop, forbid_real_time, minimize
from aiokube.testing.virtual_time import FakeClock
from tinykube.testing.simulated_client import simulated_client
from tinykube.testing.simulated_network import Fault, Link
from tinykube.testing.simulated_server import SimulatedApiServer

T = TypeVar("T", bound=KubernetesObject)

FAULTS = ("lost requests", "lost answers", "errors", "cuts", "pauses", "crashes", "watches", "server crashes")
"""The names of the faults."""
FAULT_SECONDS = 20.0
"""Faults happen within so many virtual seconds from the start."""
SETTLE_SECONDS = 90.0

_MOST_FAULTS = 5
_RESTART_SECONDS = 1.0


class FaultEvent(msgspec.Struct, frozen=True):
    """A fault, by its name, of one replica at one moment."""

    at_seconds: float
    name: str
    replica: int
    draw: float

    def __str__(self) -> str:
        return f"{self.at_seconds:7.3f} s  {self.name} (replica-{self.replica})"


class SimulatedCluster:
    """An API server and the replicas of the controllers under test."""

    def __init__(self, loop: SimulatedLoop, seed: int, events: Sequence[FaultEvent], replicas: int) -> None:
        self.seed = seed
        self.story: list[str] = []
        self.failures: list[str] = []
        self._loop = loop
        self._replicas = replicas
        self._definitions: tuple[ControllerDefinition, ...] = ()
        self._server = SimulatedApiServer(loop, random.Random(f"{seed} server"), self._tell)  # noqa: S311
        self._links = [self._link(f"replica-{number}") for number in range(replicas)]
        for link in self._links:
            link.tells_reads = True
        self._hosts: dict[int, SimulatedHost] = {}
        self._starts = 0
        self._events = events
        self.client: Client = simulated_client(self._link("test"), clock=FakeClock())
        """A client of the test's own, which no fault concerns."""

    def start(self, *definitions: ControllerDefinition) -> None:
        """Run controllers, in every replica, until the end of the test; a replica that crashes starts again."""
        self._definitions = definitions
        for number in range(self._replicas):
            self._start(number)
        for event in self._events:
            self._links[0].call_later(event.at_seconds - self._loop.now, self._happen, event)

    async def create(self, resource: Resource[T], item: msgspec.Struct) -> T:
        """Create an object."""
        return await self.client.create(resource, item)

    async def objects(self, resource: Resource[T]) -> list[T]:
        """Return all objects of a resource."""
        return list((await self.client.list_page(resource)).items)

    async def settle(self) -> None:
        """Wait until the last fault has ended and the controllers have had time to get everything right."""
        await asyncio.sleep(max(FAULT_SECONDS - self._loop.now, 0.0) + SETTLE_SECONDS)

    # ------------------------------------------------------------------------------------------------- parts

    def _tell(self, who: str, what: str) -> None:
        if who != "test" or not what.startswith("GET"):
            self.story.append(f"{self._loop.now:9.4f}  {who:12} {what}")

    def _link(self, name: str) -> Link:
        rng = random.Random(f"{self.seed} {name}")  # noqa: S311 - reproducible by design
        link = Link(self._loop, name, [self._server], rng, self._tell)
        self._server.links.append(link)
        return link

    def _start(self, number: int) -> None:
        self._starts += 1
        host = self._hosts[number] = SimulatedHost(f"replica-{number}")
        self._tell(host.name, "starts")
        self._loop.start(host, self._run(number, random.Random(f"{self.seed} start {self._starts}")))  # noqa: S311

    async def _run(self, number: int, rng: random.Random) -> None:
        clock = FakeClock()
        client = simulated_client(self._links[number], clock=clock)
        try:
            await run_controllers(client, *self._definitions, stop=asyncio.Event(), clock=clock, rng=rng)
        except Exception as error:  # noqa: BLE001 - reported with its seed
            self.failures.append(f"replica-{number} ends with {error!r}")

    def _happen(self, event: FaultEvent) -> None:
        link, host, loop = self._links[event.replica], self._hosts[event.replica], self._loop
        self._tell("fault", f"{event.name} (replica-{event.replica})")
        match event.name:
            case "lost requests":
                link.faults.append(Fault("lose-request"))
            case "lost answers":
                link.faults.append(Fault("lose-answer"))
            case "errors":
                code = (409, 429, 500, 503, 504)[int(event.draw * 5)]
                link.faults.append(Fault("status", code=code, retry_after_seconds=1 if code == 429 else None))
            case "watches":
                kind = ("end-watch", "expire-watch", "stall-watch")[int(event.draw * 3)]
                link.faults.append(Fault(kind, seconds=event.draw))
            case "cuts":
                link.cut()
                link.call_later(20.0 * event.draw, link.restore)
            case "pauses":
                loop.pause(host)
                link.call_later(20.0 * event.draw, loop.resume, host)
            case "crashes" if not host.is_dead:
                loop.kill(host)
                link.close_all()
                link.call_later(_RESTART_SECONDS, self._start, event.replica)
            case "server crashes" if not self._server.host.is_dead:
                self._server.kill(after_sync=event.draw < 0.5)
                link.call_later(_RESTART_SECONDS, self._server.start)

    async def run(self, test: Callable[["SimulatedCluster"], Awaitable[None]]) -> None:
        """Start the server, and run the test."""
        self._server.start()
        await self._server.wait_ready()
        await test(self)
        if self.failures:
            raise AssertionError(self.failures[0])


def simulated(
    seeds: int = 1000, *, faults: Sequence[str] = FAULTS, replicas: int = 1, first_seed: int = 0
) -> Callable[[Callable[[SimulatedCluster], Awaitable[None]]], Callable[[], None]]:
    """Run a test of a controller once for each seed, with faults of these names (:data:`FAULTS`).

    Each seed gives up to five faults and an order of callbacks; the first run of a seed is reproduced by
    ``seeds=1, first_seed=…``. With several ``replicas``, all of them are active: leader election is not simulated.
    Raises ``AssertionError`` with the shrunk story of the first seed whose test raises.
    """
    unknown = sorted(set(faults) - set(FAULTS))
    if unknown:
        raise ValueError(f"unknown faults {unknown}: use some of {', '.join(FAULTS)}")

    def decorate(test: Callable[[SimulatedCluster], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run_all() -> None:
            for seed in range(first_seed, first_seed + seeds):
                events = _events(seed, faults, replicas)
                if _run(test, seed, events, replicas)[0] is not None:
                    _report(test, seed, events, replicas)

        del run_all.__wrapped__  # pytest would take the cluster for a fixture
        return run_all

    return decorate


def _events(seed: int, faults: Sequence[str], replicas: int) -> list[FaultEvent]:
    rng = random.Random(f"{seed} faults")  # noqa: S311 - reproducible by design
    count = rng.randint(0, _MOST_FAULTS) if faults else 0
    found = [
        FaultEvent(rng.uniform(0.0, FAULT_SECONDS), rng.choice(faults), rng.randrange(replicas), rng.random())
        for _ in range(count)
    ]
    return sorted(found, key=lambda event: event.at_seconds)


def _run(
    test: Callable[[SimulatedCluster], Awaitable[None]],
    seed: int,
    events: Sequence[FaultEvent],
    replicas: int,
    *,
    disorder: float | None = None,
) -> tuple[Exception | None, list[str]]:
    if disorder is None:
        disorder = (0.0, 0.2, 1.0)[seed % 3]
    loop = SimulatedLoop(Schedule(seed, disorder=disorder or 1e-12))
    cluster = SimulatedCluster(loop, seed, events, replicas)
    was_enabled = gc.isenabled()
    gc.disable()  # finalizers would run at another moment each time
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with forbid_real_time(), mock.patch.object(gc, "freeze"):
            try:
                loop.run_until_complete(cluster.run(test))
            except Exception as error:  # noqa: BLE001 - the test may raise any exception
                return error, list(cluster.story)
            finally:
                story = list(cluster.story)
                loop.close()
        return None, story
    finally:
        logging.disable(disabled)
        if was_enabled:
            gc.enable()


def _report(
    test: Callable[[SimulatedCluster], Awaitable[None]],
    seed: int,
    events: Sequence[FaultEvent],
    replicas: int,
) -> None:
    """Raise the failure of a seed with as few faults as possible, in asyncio's order if that fails, too."""
    kept = minimize(events, lambda some: _run(test, seed, some, replicas)[0] is not None, max_runs=50)
    error, story = _run(test, seed, kept, replicas, disorder=0.0)
    order = "asyncio's own"
    if error is None:
        error, story = _run(test, seed, kept, replicas)
        order = "the seed's"
    faults = "\n".join(f"  {event}" for event in kept) or "  none"
    lines = "\n".join(f"  {line}" for line in story if "/events" not in line)
    raise AssertionError(
        f"{error}\nseed {seed}; to run it alone: seeds=1, first_seed={seed}\norder of callbacks: {order}\n"
        f"faults:\n{faults}\nwhat happened:\n{lines}"
    ) from error


__all__ = ["FAULTS", "FaultEvent", "SimulatedCluster", "simulated"]
