"""Measure the duration of one step of code."""

import gc
from collections.abc import Callable
from time import perf_counter_ns

_REPEATS = 7
_LONG_ENOUGH_NS = 20_000_000
_MOST_LOOPS = 1_000_000

Step = Callable[[], object]
Now = Callable[[], int]


def microseconds(step: Step, *, now_ns: Now = perf_counter_ns) -> float:
    """Return the duration of one step, best of several repeats: disturbances only ever make it slower.

    A repeat is as many steps as take 20 ms, with the garbage collector disabled.
    """
    loops = 1
    step()  # excludes one-time costs
    while (taken := _time(step, loops, now_ns)) < _LONG_ENOUGH_NS and loops < _MOST_LOOPS:
        loops = min(max(loops * 2, int(loops * _LONG_ENOUGH_NS / max(taken, 1)) + 1), _MOST_LOOPS)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        best = min(_time(step, loops, now_ns) for _ in range(_REPEATS))
    finally:
        if was_enabled:
            gc.enable()
    return best / loops / 1000.0


def _time(step: Step, loops: int, now_ns: Now) -> int:
    started = now_ns()
    for _ in range(loops):
        step()
    return now_ns() - started
