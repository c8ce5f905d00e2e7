"""Starts the parts of a program in order, keeps an eye on them, and stops them in the opposite order."""

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

# Runnable is what those who name a manager's parts need with it.
__all__ = ["Manager", "ManagerReport", "ManagerStatistics", "NotReadyError", "Runnable", "PartFailedError"]

logger = logging.getLogger(__name__)

_FIRST_COMPLAINT_SECONDS = 2.0
_LONGEST_SILENCE_SECONDS = 300.0
# How much longer than its grace a part may take to stop before it is cancelled.
_STOP_MARGIN_SECONDS = 5.0
# For how long an election is held back for the sake of controllers whose caches are still missing, when others could begin.
_PATIENCE_SECONDS = 10.0
# After a lost lease: enough for the last words about it, and then its process should be gone.
_GRACE_AFTER_LOSS_SECONDS = 2.0


class PartFailedError(Exception):
    """A part that was to run for as long as the program ended by itself; its own error is the ``__cause__``."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"{part} {problem}")
        self.part = part


class NotReadyError(Exception):
    """A part was not ready by the deadline; the text says which, and why as far as it knows."""

    def __init__(self, part: str, waited_seconds: float, cause: str) -> None:
        super().__init__(f"{part} is not ready after {waited_seconds:g} s: {cause or 'it does not say why'}")
        self.part = part
        self.cause = cause


class ManagerReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended that was asked to: what became of the controllers' work."""

    controllers: tuple[ControllerStop, ...] = ()


Phase = Literal["new", "starting", "running", "stopping", "stopped"]


class ManagerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How far a manager has come."""

    phase: Phase
    waiting_for: tuple[str, ...]
    """Parts that are started and not ready."""


class _Stage:
    """Parts that are started together, and all ready before the next stage begins."""

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
    """Runs services, informers, a gate and controllers, and starts each as soon as what it stands on is ready.

    * **Start.** Services (metrics, event writing) first, then all informers at once, then the gate (an election;
      caches are warm by then), then the controllers: each one when the gate is open and the informers that it
      :class:`~aiokube.runtime.runnables.NeedsInformers` names are complete, all of them where it names none. So an informer that may
      not read holds up those controllers alone that need it. The gate waits for all informers; but once one
      controller could begin, for 10 s at most, so that who cannot do everything still takes its turn. A controller also
      waits until each informer that it needs has followed its server without a gap since the gate opened, or was listed
      again since: a standby that lost its connection must not act on what it knew before. While a part is not
      ready, a line in the log says what is waited for and why: soon at first, then at growing intervals.
      ``sync_timeout_seconds`` bounds the wait for informers; without it they may take as long as they need, as what
      keeps them (permissions, an API server that is down) can heal.
    * **Stop.** In the opposite order: controllers end their work within ``grace_seconds`` while their caches and
      their lease still live, then the gate, the informers, the services. A part that takes 5 s longer than that is
      cancelled, and a line in the log says what it was doing. Where the gate itself fails (the lease is lost), the
      controllers get no grace, as somebody else may be writing already, and the others hardly any.
    * **Failure.** A part that ends without being asked to brings everything to an ordered stop, and :meth:`run`
      raises :class:`PartFailedError`.

    One manager is run once. Parts may be anything that fits :mod:`aiokube.runtime.runnables`. Raises ``TypeError`` for an
    informer that cannot say when it is ready, as nothing could wait for it, and ``ValueError`` for a controller that needs an
    informer that there is not.
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
                raise ValueError(f"{part.name} needs {', '.join(sorted(unknown))}: there is no such informer")
        self._current = {part.name: asyncio.Event() for part in self._informers.parts}
        self._phase: Phase = "new"
        self._waiting_for: list[str] = []
        self._ending = asyncio.Event()
        self._problem: PartFailedError | NotReadyError | None = None
        self._gate_failed = False

    async def run(self, stop: asyncio.Event) -> ManagerReport:
        """Run everything until ``stop`` is set, then stop it in order and report.

        Raises :class:`PartFailedError` or :class:`NotReadyError` after the same ordered stop. Cancelling it cancels
        all parts at once, without order or grace.
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
        """Return how far the manager has come."""
        return ManagerStatistics(phase=self._phase, waiting_for=tuple(self._waiting_for))

    async def _watch_for(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._ending.set()

    def _fail(self, problem: PartFailedError | NotReadyError) -> None:
        """Bring everything to an end; the first problem is the one that is raised."""
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
        """Start everything, each part when what it stands on is ready; return when all of it has been."""
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
        """Note when a cache is as new as the opening of the gate; without a gate there was nothing to miss."""
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
        """Return when every informer is complete, or when for a while only some controllers lacked one."""
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
        """Await the work, but cancel it when the end comes first. The work must not raise."""
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
        """Wait until one part is ready, saying from time to time that it is not; tell whether it is."""
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
            except Exception as error:  # noqa: BLE001 - told by _fail, except for our own time limit
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
                cause or "it does not say why",
            )
            pause = min(2 * pause, _LONGEST_SILENCE_SECONDS)

    async def _keep(self, part: Runnable, stage: _Stage) -> None:
        """Run one part; its end is a failure unless it was asked for."""
        try:
            await part.run()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = _failure(part.name, "was cancelled from within", error)
        except Exception as error:  # noqa: BLE001 - told below
            problem = _failure(part.name, "failed", error)
        else:
            if stage.stopping:
                return
            problem = PartFailedError(part.name, "ended, though it was to run until stopped")
        self._gate_failed |= stage is self._gate
        if stage.stopping:
            logger.error("while stopping: cause=%s", problem, exc_info=problem.__cause__)
        else:
            self._fail(problem)

    # ------------------------------------------------------------------------------------------ stopping

    async def _stop(self, stage: _Stage) -> list[object]:
        """Stop all parts of a stage at the same time, and return what they say of it."""
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
                    "not stopped in time and cancelled: part=%s grace_seconds=%g at=%s",
                    part.name,
                    grace_seconds,
                    _where(task),
                )
            except Exception:
                logger.exception("could not be stopped and is cancelled: part=%s", part.name)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        return outcome


class _Current:
    """What is waited for after the gate, in the form of what is waited for before it."""

    def __init__(self, part: WaitsForCurrent) -> None:
        self._part = part

    async def wait_ready(self) -> None:
        await self._part.wait_current()

    def why_not_ready(self) -> str:
        cause = self._part.why_not_ready() if isinstance(self._part, ExplainsNotReady) else ""
        return f"it has lost its watch and is listed again: {cause}" if cause else ""


def _where(task: asyncio.Task[None]) -> str:
    """Return what a task waits for: function, file and line of the innermost frame that it stands in."""
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
