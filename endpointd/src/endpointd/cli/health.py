"""The checks behind /livez and /readyz of ``endpointd run``."""

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
    """The health checks of a program; each component registers its own.

    A standby is ready: its caches are synced. A stopping process is not ready, so it gets no new traffic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.live = Checks()
        self.ready = Checks()
        self.heartbeat = Heartbeat(clock)
        self.live.add("event-loop", self.heartbeat.check)

    def add_informer(self, informer: Informer[Any]) -> None:
        """Check that its watch is alive and its cache has synced."""
        quiet_seconds = longest_quiet_seconds(ReflectorSettings())
        name = f"watch-{informer.name}"
        self.live.add(
            name,
            lambda: watch_alive(informer.statistics().reflector, self._clock.monotonic(), quiet_seconds),
        )
        self.ready.add(name, lambda: watch_ready(informer.statistics().reflector, self._clock.monotonic()))

    def add_controller(self, controller: Controller[Any]) -> None:
        """Check that its workers make progress and may write."""
        pulse = WorkersPulse(controller.statistics, controller.queue.statistics)
        self.live.add(f"workers-{controller.name}", pulse.alive)
        self.ready.add(f"writes-{controller.name}", pulse.ready)

    def add_election(self, pulse: ElectorPulse, statistics: Callable[[], ElectionStatistics]) -> None:
        """Check that the elector makes progress and gets responses. A standby is as healthy as a leader."""
        self.live.add("leader-election", pulse.alive)
        self.ready.add("leader-election", lambda: with_hint(statistics().last_error))

    def add_manager(self, statistics: Callable[[], ManagerStatistics]) -> None:
        """Check that the program is not stopping."""
        self.ready.add("shutdown", lambda: "the program is stopping" if "stop" in statistics().phase else "")
