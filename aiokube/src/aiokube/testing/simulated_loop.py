"""A deterministic event loop for simulations of several hosts: one seed decides the order of everything.

asyncio runs callbacks in the order in which they became ready, so a test sees one interleaving of many. Here a
:class:`Schedule` picks the next callback. Time is virtual, and threads, sockets, child processes and real clocks raise
:class:`EscapeError`, so that a run depends on its seed alone::

    loop = SimulatedLoop(Schedule(seed=7))
    replica = SimulatedHost("replica-a", clock_rate=1.01)
    with forbid_real_time():
        loop.run_until_complete(main())

Tasks belong to hosts (:meth:`SimulatedLoop.start`). Each host has a separate clock and can be paused and killed between
any two callbacks: a killed host runs nothing afterwards, not even ``finally`` blocks, as after SIGKILL.
"""

import asyncio
import contextvars
import heapq
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn, TypeVar
from unittest import mock

from aiokube.testing.virtual_time import DeadlockError, where_tasks_wait

R = TypeVar("R")

CALLBACK_SECONDS = 10e-6
"""The virtual time that one callback takes, so that a loop without end reaches the end of the simulation."""

_STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
_COMPACT_ABOVE_TIMERS = 100
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "clock_gettime", "sleep")


class EscapeError(RuntimeError):
    """Simulated code used a thread, a socket, a child process or a real clock."""


class Schedule:
    """Decides which of several ready callbacks runs next, and records every decision.

    With a probability of ``disorder`` a decision is random, else the callback that has waited longest runs, as in asyncio.
    A recorded schedule is a mapping from the number of a decision to the index that was chosen; index 0 is left out.
    """

    def __init__(self, seed: int = 0, *, disorder: float = 1.0) -> None:
        self._random = random.Random(seed).random  # noqa: S311 - reproducible by design
        self._disorder = disorder
        self._recorded: Mapping[int, int] | None = None
        self.choices: dict[int, int] = {}
        """The decisions so far that were not asyncio's own."""
        self.decisions = 0
        """How many decisions were made, those for asyncio's order included."""

    @classmethod
    def replay(cls, choices: Mapping[int, int]) -> "Schedule":
        """Return a schedule that makes these choices again, and follows asyncio's order otherwise."""
        schedule = cls()
        schedule._recorded = choices
        return schedule

    def pick(self, ready: int) -> int:
        """Return the index of one of ``ready`` callbacks, in the order in which they became ready."""
        number = self.decisions
        self.decisions = number + 1
        if self._recorded is not None:
            chosen = self._recorded.get(number, 0) % ready
        else:
            draw = self._random()
            if draw >= self._disorder:
                return 0
            chosen = int(draw / self._disorder * ready)
        if chosen:
            self.choices[number] = chosen
        return chosen


class SimulatedHost:
    """A machine: a name, a clock, and whether it runs.

    Its monotonic clock shows ``clock_offset_seconds`` at the start of the simulation and runs ``clock_rate`` times as fast
    as virtual time; :meth:`asyncio.AbstractEventLoop.time` and all timers of its tasks follow that clock.
    """

    __slots__ = ("_parked", "clock_offset_seconds", "clock_rate", "is_dead", "is_paused", "name", "tasks")

    def __init__(self, name: str, *, clock_rate: float = 1.0, clock_offset_seconds: float = 0.0) -> None:
        self.name = name
        self.clock_rate = clock_rate
        self.clock_offset_seconds = clock_offset_seconds
        self.is_dead = False
        self.is_paused = False
        self.tasks: list[asyncio.Task[Any]] = []
        self._parked: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return f"<SimulatedHost {self.name}>"


_current_host: contextvars.ContextVar[SimulatedHost | None] = contextvars.ContextVar(
    "simulated host", default=None
)


def current_host() -> SimulatedHost | None:
    """Return the host that runs now, None outside of any."""
    return _current_host.get()


class _Task(asyncio.Task[R]):
    """A task whose place in a set does not depend on its memory address."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*arguments, **named)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[R]):
    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(_numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Counter(Iterator[int]):
    def __init__(self) -> None:
        self.value = 0

    def __next__(self) -> int:
        self.value += 1
        return self.value


_numbers = _Counter()


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop that runs one callback at a time, chosen by a :class:`Schedule`, in virtual time.

    Raises :class:`DeadlockError` when nothing is ready and no timer is set, and :class:`EscapeError` for anything that would
    reach outside of the simulation.
    """

    _ready: Any
    _scheduled: list[tuple[float, int, asyncio.TimerHandle]]

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        _numbers.value = 0
        self.now = 0.0
        """Virtual time in seconds since the start, as no clock of a host shows it."""
        self.callbacks = 0
        """How many callbacks have run."""
        self._schedule = schedule
        self._ready = []
        self._is_ending = False
        self._timers_made = 0
        self.set_task_factory(_make_task)

    # ------------------------------------------------------------------------------------------------- time

    def time(self) -> float:
        """Return the monotonic clock of the running host, or virtual time outside of any."""
        host = _current_host.get()
        return self.now if host is None else host.clock_offset_seconds + self.now * host.clock_rate

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back when the clock of the running host shows ``when``."""
        host = _current_host.get()
        if host is not None:
            when = (when - host.clock_offset_seconds) / host.clock_rate
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._scheduled, (when, self._timers_made, timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Have a callback run in one of the next turns."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future whose place in a set is reproducible."""
        return _Future(loop=self)

    # ------------------------------------------------------------------------------------------------ hosts

    def start(self, host: SimulatedHost, main: Coroutine[Any, Any, R], *, name: str = "") -> asyncio.Task[R]:
        """Run a coroutine on a host; the tasks that it creates run there, too."""
        context = contextvars.copy_context()
        context.run(_current_host.set, host)
        task: asyncio.Task[R] = self.create_task(main, name=name or host.name, context=context)
        host.tasks.append(task)
        return task

    def pause(self, host: SimulatedHost) -> None:
        """Pause a host like SIGSTOP does: its clock continues, and nothing runs."""
        host.is_paused = True

    def resume(self, host: SimulatedHost) -> None:
        """Resume a paused host, with everything that became ready during the pause."""
        host.is_paused = False
        self._ready.extend(host._parked)
        host._parked.clear()

    def kill(self, host: SimulatedHost) -> None:
        """End a host permanently, like SIGKILL does: no callback of it runs again."""
        host.is_dead = True
        host._parked.clear()

    # ----------------------------------------------------------------------------------------------- running

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        count = len(ready)
        handle = ready.pop(self._schedule.pick(count) if count > 1 else 0)
        if handle._cancelled:
            return
        host = handle._context.get(_current_host)
        if host is not None:
            if host.is_dead:
                return
            if host.is_paused:
                host._parked.append(handle)
                return
        self.callbacks += 1
        self.now += CALLBACK_SECONDS
        handle._run()

    def _advance(self) -> None:
        """Move to the next timer, and make all ready that are due then."""
        scheduled = self._scheduled
        cancelled = self._timer_cancelled_count  # type: ignore[has-type]
        if cancelled > _COMPACT_ABOVE_TIMERS and cancelled * 2 > len(scheduled):
            scheduled[:] = [entry for entry in scheduled if not entry[2].cancelled()]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0][2].cancelled():
            heapq.heappop(scheduled)
            self._timer_cancelled_count -= 1
        if not scheduled:
            raise DeadlockError(where_tasks_wait(self))
        now = self.now = max(self.now, scheduled[0][0])
        while scheduled and scheduled[0][0] <= now:
            timer = heapq.heappop(scheduled)[2]
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                timer._scheduled = False  # type: ignore[attr-defined]
                self._ready.append(timer)

    def close(self) -> None:
        """Close the coroutines of all tasks that have not ended, killed hosts' included, and the loop."""
        self._is_ending = True
        self._ready.clear()
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        for task in tasks:
            coroutine = task.get_coro()
            if coroutine is not None:
                _close_quietly(coroutine)
        self._ready.clear()
        self._scheduled.clear()
        super().close()

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Close an abandoned generator in one of the next turns; after the end of the simulation, not at all."""
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]
        if not self._is_ending:
            self.call_soon(self.create_task, agen.aclose())

    # --------------------------------------------------------------------------------------- what would escape

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        """Raise :class:`EscapeError`: threads are not simulated."""
        raise EscapeError(f"simulated code runs {func!r} in a thread")

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> NoReturn:  # type: ignore[override]
        """Raise :class:`EscapeError`: there is one thread."""
        raise EscapeError(f"simulated code calls {callback!r} from another thread")

    async def getaddrinfo(self, host: Any, port: Any, **named: Any) -> NoReturn:
        """Raise :class:`EscapeError`: there is no network."""
        raise EscapeError(f"simulated code looks up {host!r}")

    async def create_connection(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise :class:`EscapeError`: there is no network."""
        raise EscapeError("simulated code opens a connection")

    async def create_server(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise :class:`EscapeError`: there is no network."""
        raise EscapeError("simulated code listens on a socket")

    async def subprocess_exec(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise :class:`EscapeError`: there are no child processes."""
        raise EscapeError("simulated code starts a child process")


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
    return _Task(coroutine, loop=loop, **named)


def _close_quietly(coroutine: Any) -> None:
    """Close a coroutine that will not run again. Its clean-up may do anything: the simulation has ended."""
    for _ in range(100):
        try:
            coroutine.close()
        except RuntimeError:  # it awaits in a finally block: go on to the next await
            continue
        except BaseException:  # noqa: BLE001, S110 - the result does not matter
            pass
        return


@contextmanager
def forbid_real_time() -> Iterator[None]:
    """Make real clocks, sleeping, threads and sockets raise :class:`EscapeError` inside the block.

    The standard library itself may still read clocks (``logging`` does for each record).
    """
    with ExitStack() as stack:
        for name in _CLOCKS:
            if hasattr(time, name):
                patched = mock.patch.object(time, name, _forbidden(f"time.{name}", getattr(time, name)))
                stack.enter_context(patched)
        for patch in (
            mock.patch.object(threading.Thread, "start", _forbidden("Thread.start", None)),
            mock.patch.object(socket.socket, "connect", _forbidden("socket.connect", None)),
            mock.patch.object(socket.socket, "bind", _forbidden("socket.bind", None)),
        ):
            stack.enter_context(patch)
        yield


def _forbidden(name: str, real: Callable[..., Any] | None) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if real is not None and caller.partition(".")[0] in _STANDARD_LIBRARY:
            return real(*arguments, **named)
        raise EscapeError(f"{caller} calls {name} inside a simulation")

    return call


T = TypeVar("T")


def minimize(
    items: Sequence[T], still_fails: Callable[[Sequence[T]], bool], *, max_runs: int = 500
) -> list[T]:
    """Return as few of the items as possible for which ``still_fails`` holds (delta debugging).

    The order is kept. ``still_fails(items)`` must be true. It is called at most ``max_runs`` times.
    """
    current = list(items)
    runs = 0
    size = max(len(current) // 2, 1)
    while current:
        start = 0
        removed = False
        while start < len(current):
            if runs >= max_runs:
                return current
            runs += 1
            candidate = current[:start] + current[start + size :]
            if still_fails(candidate):
                current, removed = candidate, True
            else:
                start += size
        if size == 1 and not removed:
            return current
        if not removed or size > len(current):
            size = max(min(size, len(current)) // 2, 1)
    return current


def minimize_schedule(
    choices: Mapping[int, int], still_fails: Callable[[Mapping[int, int]], bool], *, max_runs: int = 100
) -> dict[int, int]:
    """Return as few of a schedule's choices as possible for which ``still_fails`` holds; the rest is asyncio's order."""

    def fails(numbers: Sequence[int]) -> bool:
        return still_fails({number: choices[number] for number in numbers})

    if fails(()):
        return {}
    kept = minimize(sorted(choices), fails, max_runs=max_runs)
    return {number: choices[number] for number in kept}
