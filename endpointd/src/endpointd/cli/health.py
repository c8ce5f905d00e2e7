"""What ``endpointd run`` is asked about at /livez and /readyz."""

from collections.abc import Callable
from typing import Any

from aiokube.clock import Clock
from aiokube.runtime.controller import Controller
from aiokube.runtime.health import (
    Checks,
    ElectorPulse,
    Heartbeat,
    WorkersPulse,
    longest_quiet_seconds,
    watch_alive,
    watch_ready,
)
from aiokube.runtime.informer import Informer
from aiokube.runtime.leader_election import ElectionStatistics
from aiokube.runtime.manager import ManagerStatistics
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.reflector_settings import ReflectorSettings


class Health:
    """The checks of a program, for its parts to be entered in as they are made.

    A standby is ready: its caches are. Whoever stops is not, so that nothing new is sent there.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.live = Checks()
        self.ready = Checks()
        self.heartbeat = Heartbeat(clock)
        self.live.add("event-loop", self.heartbeat.check)

    def add_informer(self, informer: Informer[Any]) -> None:
        """Ask whether its watch goes on, and whether its cache is complete."""
        quiet_seconds = longest_quiet_seconds(ReflectorSettings())
        name = f"watch-{informer.name}"
        self.live.add(
            name,
            lambda: watch_alive(informer.statistics().reflector, self._clock.monotonic(), quiet_seconds),
        )
        self.ready.add(name, lambda: watch_ready(informer.statistics().reflector, self._clock.monotonic()))

    def add_controller(self, controller: Controller[Any]) -> None:
        """Ask whether its workers get on, and whether they may write."""
        pulse = WorkersPulse(controller.statistics, controller.queue.statistics)
        self.live.add(f"workers-{controller.name}", pulse.alive)
        self.ready.add(f"writes-{controller.name}", pulse.ready)

    def add_election(self, pulse: ElectorPulse, statistics: Callable[[], ElectionStatistics]) -> None:
        """Ask whether the elector goes on, and whether it is answered; who leads makes no difference."""
        self.live.add("leader-election", pulse.alive)
        self.ready.add("leader-election", lambda: with_hint(statistics().last_error))

    def add_manager(self, statistics: Callable[[], ManagerStatistics]) -> None:
        """Ask whether the program is on its way out."""
        self.ready.add("shutdown", lambda: "the program is stopping" if "stop" in statistics().phase else "")
