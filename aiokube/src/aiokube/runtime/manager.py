"""Starts the runnables of a program in order, supervises them, and stops them in reverse order."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Literal

import msgspec

from aiokube.clock import Clock
from aiokube.runtime.controller import ControllerStop
from aiokube.runtime.errors import describe, is_expected
from aiokube.runtime.informer import Informer
from aiokube.runtime.runnables import (
    ExplainsNotReady,
    NeedsInformers,
    Runnable,
    Stoppable,
    WaitsForCurrent,
    WaitsForReady,
    as_informer,
)

# Runnable is re-exported for type annotations of a manager's arguments.
__all__ = ["Manager", "ManagerReport", "ManagerStatistics", "NotReadyError", "Runnable", "PartFailedError"]

logger = logging.getLogger(__name__)

_FIRST_COMPLAINT_SECONDS = 2.0
_LONGEST_SILENCE_SECONDS = 300.0
# Time beyond its grace period that a part may take to stop before it is cancelled.
_STOP_MARGIN_SECONDS = 5.0
# How long an election waits for caches that only some controllers need, once another controller could start.
_PATIENCE_SECONDS = 10.0
# After a lost lease: enough to log and record it; then the process should exit.
_GRACE_AFTER_LOSS_SECONDS = 2.0


class PartFailedError(Exception):
    """A part that should run until stopped ended; its error, if any, is the ``__cause__``."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"{part} {problem}")
        self.part = part


class NotReadyError(Exception):
    """A part was not ready by the deadline; the message names it and the known cause."""

    def __init__(self, part: str, waited_seconds: float, cause: str) -> None:
        super().__init__(f"{part} is not ready after {waited_seconds:g} s: {cause or 'no cause reported'}")
        self.part = part
        self.cause = cause


class ManagerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a requested stop: what happened to the controllers' work."""

    controllers: tuple[ControllerStop, ...] = ()


Phase = Literal["new", "starting", "running", "stopping", "stopped"]


class ManagerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a manager's state."""

    phase: Phase
    waiting_for: tuple[str, ...]
    """Parts that have started but are not ready."""


class _Stage:
    """Parts that start together; the next stage begins when all of them are ready."""

    def __init__(
        self,
        name: str,
        parts: Sequence[Runnable],
        *,
        log_level: int,
        ready_timeout_seconds: float | None = None,
    ) -> None:
        self.name = name
        self.parts = tuple(parts)
        self.log_level = log_level
        self.ready_timeout_seconds = ready_timeout_seconds
        self.started: list[tuple[Runnable, asyncio.Task[None]]] = []
        self.stopping = False


class Manager:
    """Runs services, informers, a gate and controllers; starts each as soon as its dependencies are ready.

    * **Start.** Services (metrics, Events) start first, then all informers, then the gate (an election, when
      caches are warm), then the controllers: each one once the gate is open and the informers that it
      :class:`~aiokube.runtime.runnables.NeedsInformers` names have synced (all informers if it names none).
      An informer without permission therefore blocks only the controllers that need it. The gate waits for
      all informers, at most 10 s once one controller could start, so that a partly blocked program
      still takes part in the election. A controller also waits until each informer that it needs has watched
      its server without a gap since the gate opened, or has relisted since: a standby that lost its
      connection must not act on stale state. While a part is not ready, a log line names it and the cause:
      soon at first, then at growing intervals. ``sync_timeout_seconds`` limits the wait for informers; by
      default it is unlimited, because the usual causes (permissions, an unreachable API server) can be fixed
      at any time.
    * **Stop.** In reverse order: controllers finish their work within ``grace_seconds`` while their caches
      and lease are still valid, then the gate, the informers and the services stop. A part that takes 5 s
      longer is cancelled, and a log line shows the blocking call. If the gate fails (the lease is lost),
      controllers get no grace period, because another process may be writing already, and the other parts
      get a short one.
    * **Failure.** If a part ends without being stopped, everything stops in order, and :meth:`run` raises
      :class:`PartFailedError`.

    A manager runs once. Parts are any objects that implement the protocols of
    :mod:`aiokube.runtime.runnables`. Raises ``TypeError`` for an informer without ``wait_ready``, because
    nothing could wait for it, and ``ValueError`` for a controller that needs an unknown informer.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        informers: Sequence[Runnable | Informer[Any]] = (),
        controllers: Sequence[Runnable] = (),
        services: Sequence[Runnable] = (),
        gate: Runnable | None = None,
        sync_timeout_seconds: float | None = None,
        grace_seconds: float = 10.0,
    ) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._gate = _Stage("gate", () if gate is None else (gate,), log_level=logging.INFO)
        self._controllers = _Stage("controllers", controllers, log_level=logging.WARNING)
        self._services = _Stage("services", services, log_level=logging.WARNING)
        self._informers = _Stage(
            "informers",
            [as_informer(part) for part in informers],
            log_level=logging.WARNING,
            ready_timeout_seconds=sync_timeout_seconds,
        )
        self._complete = {part.name: asyncio.Event() for part in self._informers.parts}
        for part in controllers:
            if unknown := set(self._needs(part)).difference(self._complete):
                raise ValueError(f"{part.name} needs {', '.join(sorted(unknown))}: no such informer")
        self._current = {part.name: asyncio.Event() for part in self._informers.parts}
        self._phase: Phase = "new"
        self._waiting_for: list[str] = []
        self._ending = asyncio.Event()
        self._problem: PartFailedError | NotReadyError | None = None
        self._gate_failed = False

    async def run(self, stop: asyncio.Event) -> ManagerReport:
        """Run everything until ``stop`` is set, then stop it in order and return a report.

        Raises :class:`PartFailedError` or :class:`NotReadyError` after the same orderly stop. Cancelling it
        cancels all parts immediately, without order or grace.
        """
        if self._phase != "new":
            raise RuntimeError("this manager was run already; make a new one")
        self._phase = "starting"
        if stop.is_set():
            self._ending.set()
        outcomes: list[object] = []
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._watch_for(stop), name="manager-stop")
            await self._unless_ending(self._start_all(group), name="start")
            await self._ending.wait()
            self._phase = "stopping"
            for stage in (self._controllers, self._gate, self._informers, self._services):
                outcomes += await self._stop(stage)
            watcher.cancel()
        self._phase = "stopped"
        if self._problem is not None:
            raise self._problem
        return ManagerReport(
            controllers=tuple(outcome for outcome in outcomes if isinstance(outcome, ControllerStop))
        )

    def statistics(self) -> ManagerStatistics:
        """Return a snapshot of the manager's state."""
        return ManagerStatistics(phase=self._phase, waiting_for=tuple(self._waiting_for))

    async def _watch_for(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._ending.set()

    def _fail(self, problem: PartFailedError | NotReadyError) -> None:
        """Initiate the stop of everything; the first problem is the one that is raised."""
        cause = problem.__cause__
        traceback = None if cause is None or is_expected(cause) else cause
        logger.error("stopping everything: cause=%s", problem, exc_info=traceback)
        if self._problem is None:
            self._problem = problem
        self._ending.set()

    # ------------------------------------------------------------------------------------------ starting

    def _launch(self, part: Runnable, stage: _Stage, group: asyncio.TaskGroup) -> None:
        if not self._ending.is_set():
            stage.started.append((part, group.create_task(self._keep(part, stage), name=part.name)))

    def _launch_all(self, stage: _Stage, group: asyncio.TaskGroup) -> None:
        for part in stage.parts:
            self._launch(part, stage, group)

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        """Start each part when its dependencies are ready; return when all parts have been ready."""
        self._launch_all(self._services, group)
        await self._all_ready(self._services)
        self._launch_all(self._informers, group)
        async with asyncio.TaskGroup() as waiting:
            for part in self._informers.parts:
                waiting.create_task(self._informer_ready(part), name=f"{part.name}-complete")
            waiting.create_task(self._start_controllers(group), name="start-controllers")

    async def _informer_ready(self, part: Runnable) -> None:
        if isinstance(part, WaitsForReady) and await self._ready(part.name, part, self._informers):
            self._complete[part.name].set()

    async def _start_controllers(self, group: asyncio.TaskGroup) -> None:
        if self._gate.parts:
            await self._enough_complete()
            self._launch_all(self._gate, group)
            await self._all_ready(self._gate)
        async with asyncio.TaskGroup() as starting:
            for part in self._informers.parts:
                starting.create_task(self._informer_current(part), name=f"{part.name}-current")
            for part in self._controllers.parts:
                starting.create_task(self._start_controller(part, group), name=f"{part.name}-start")
        await self._all_ready(self._controllers)
        await self._wait_complete(self._complete)
        self._phase = "running"
        logger.info("running: controllers=%s", ",".join(part.name for part in self._controllers.parts))

    async def _informer_current(self, part: Runnable) -> None:
        """Record that a cache is as new as the opening of the gate; without a gate it always is."""
        await self._complete[part.name].wait()
        if self._gate.parts and isinstance(part, WaitsForCurrent):
            await self._ready(part.name, _Current(part), self._informers)
        self._current[part.name].set()

    async def _start_controller(self, part: Runnable, group: asyncio.TaskGroup) -> None:
        needs = self._needs(part)
        await self._wait_complete(needs)
        for name in needs:
            await self._current[name].wait()
        self._launch(part, self._controllers, group)
        if len(self._controllers.started) < len(self._controllers.parts):
            logger.info("controller started: controller=%s", part.name)

    def _needs(self, part: Runnable) -> Collection[str]:
        return part.needed_informers if isinstance(part, NeedsInformers) else self._complete

    async def _wait_complete(self, informers: Collection[str]) -> None:
        for name in informers:
            await self._complete[name].wait()

    async def _enough_complete(self) -> None:
        """Return when every informer has synced, or some time after the first controller could start."""
        async with asyncio.TaskGroup() as group:
            everything = group.create_task(self._wait_complete(self._complete), name="all-complete")
            able = [
                group.create_task(self._wait_complete(needs), name=f"{part.name}-complete")
                for part in self._controllers.parts
                if (needs := self._needs(part))
            ]
            await asyncio.wait((everything, *able), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((everything,), timeout=_PATIENCE_SECONDS if able else None)
            for task in (everything, *able):
                task.cancel()

    async def _unless_ending(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Await the work, but cancel it if the stop comes first. The work must not raise."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work, name=name)
            ending = group.create_task(self._ending.wait(), name=f"{name}-or-ending")
            await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            ending.cancel()

    async def _all_ready(self, stage: _Stage) -> None:
        async with asyncio.TaskGroup() as group:
            for part in stage.parts:
                if isinstance(part, WaitsForReady):
                    group.create_task(self._ready(part.name, part, stage), name=f"{part.name}-ready")

    async def _ready(self, name: str, part: WaitsForReady, stage: _Stage) -> bool:
        """Wait until a part is ready, logging the wait at intervals; return whether it is."""
        self._waiting_for.append(name)
        since = self._clock.monotonic()
        timeout = stage.ready_timeout_seconds
        pause = _FIRST_COMPLAINT_SECONDS
        while True:
            waited = self._clock.monotonic() - since
            try:
                async with asyncio.timeout(
                    pause if timeout is None else min(pause, timeout - waited)
                ) as limit:
                    await part.wait_ready()
            except Exception as error:  # noqa: BLE001 - logged by _fail, except for our own time limit
                if not limit.expired():
                    self._fail(_failure(name, "cannot become ready", error))
                    return False
            else:
                self._waiting_for.remove(name)
                return True
            waited = self._clock.monotonic() - since
            cause = part.why_not_ready() if isinstance(part, ExplainsNotReady) else ""
            if timeout is not None and waited >= timeout:
                self._fail(NotReadyError(name, waited, cause))
                return False
            logger.log(
                stage.log_level,
                "waiting: for=%s since_seconds=%.0f cause=%s",
                name,
                waited,
                cause or "no cause reported",
            )
            pause = min(2 * pause, _LONGEST_SILENCE_SECONDS)

    async def _keep(self, part: Runnable, stage: _Stage) -> None:
        """Run one part; its end is a failure unless a stop was requested."""
        try:
            await part.run()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = _failure(part.name, "was cancelled from within", error)
        except Exception as error:  # noqa: BLE001 - logged below
            problem = _failure(part.name, "failed", error)
        else:
            if stage.stopping:
                return
            problem = PartFailedError(part.name, "ended without being stopped")
        self._gate_failed |= stage is self._gate
        if stage.stopping:
            logger.error("while stopping: cause=%s", problem, exc_info=problem.__cause__)
        else:
            self._fail(problem)

    # ------------------------------------------------------------------------------------------ stopping

    async def _stop(self, stage: _Stage) -> list[object]:
        """Stop all parts of a stage concurrently, and return their results."""
        stage.stopping = True
        grace = self._grace_seconds
        if self._gate_failed:
            grace = 0.0 if stage is self._controllers else min(grace, _GRACE_AFTER_LOSS_SECONDS)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._stop_part(part, task, grace), name=f"{part.name}-stop")
                for part, task in stage.started
            ]
        return [task.result() for task in tasks]

    async def _stop_part(self, part: Runnable, task: asyncio.Task[None], grace_seconds: float) -> object:
        outcome: object = None
        if isinstance(part, Stoppable) and not task.done():
            try:
                async with asyncio.timeout(grace_seconds + _STOP_MARGIN_SECONDS):
                    outcome = await part.stop(grace_seconds)
                    await asyncio.wait((task,))
            except TimeoutError:
                logger.error(
                    "did not stop in time and was cancelled: part=%s grace_seconds=%g at=%s",
                    part.name,
                    grace_seconds,
                    _where(task),
                )
            except Exception:
                logger.exception("failed to stop and was cancelled: part=%s", part.name)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        return outcome


class _Current:
    """Adapts :class:`WaitsForCurrent` to :class:`WaitsForReady`, for the wait after the gate opens."""

    def __init__(self, part: WaitsForCurrent) -> None:
        self._part = part

    async def wait_ready(self) -> None:
        await self._part.wait_current()

    def why_not_ready(self) -> str:
        cause = self._part.why_not_ready() if isinstance(self._part, ExplainsNotReady) else ""
        return f"it lost its watch and is relisting: {cause}" if cause else ""


def _where(task: asyncio.Task[None]) -> str:
    """Return where a task is blocked: function, file and line of its innermost frame."""
    coroutine: Any = task.get_coro()
    place = "unknown"
    while coroutine is not None and (frame := getattr(coroutine, "cr_frame", None)) is not None:
        code = frame.f_code
        place = f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
    return place


def _failure(part: str, what: str, error: BaseException) -> PartFailedError:
    problem = PartFailedError(part, f"{what}: {describe(error)}")
    problem.__cause__ = error
    return problem
