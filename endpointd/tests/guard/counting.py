"""Counts the operations of a change from outside, without changing the counted code."""

import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from endpointd.controllers.endpoints import entries
from endpointd.controllers.endpoints import state as endpoints_state
from endpointd.controllers.endpointslice import address_type_state as family
from endpointd.controllers.endpointslice import desired, plan, state


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of one change."""

    pods_examined: int
    """Pods translated to desired endpoints, for slices or Endpoints."""
    endpoints_compared: int
    """Slice endpoints compared with the desired ones."""
    slices_looked_at: int
    """Slices passed to plans: the dirty ones and those with capacity."""
    plans: int


class Writing(Protocol):
    """A writer that reports its writes."""

    before_write: Callable[[], None] | None


class _Counts:
    def __init__(self) -> None:
        self.pods = self.endpoints = self.slices = self.plans = 0


@contextmanager
def counted() -> Iterator[Callable[[], Operations]]:
    """Count within the block; the yielded function returns the counts so far."""
    counts = _Counts()

    def pod(function: Any) -> Any:
        def examine(*args: Any) -> Any:
            counts.pods += 1
            return function(*args)

        return examine

    def endpoint(function: Any) -> Any:
        def compare(*args: Any, **options: Any) -> Any:
            counts.endpoints += 1
            return function(*args, **options)

        return compare

    def slices(function: Any) -> Any:
        def make_plan(view: plan.AddressTypeView, trigger_time: str | None) -> Any:
            counts.plans += 1
            counts.slices += len(view.dirty) + sum(map(len, view.with_capacity.values()))
            return function(view, trigger_time)

        return make_plan

    def endpoints(function: Any) -> Any:
        def make_plan(*args: Any, **options: Any) -> Any:
            counts.plans += 1
            return function(*args, **options)

        return make_plan

    wrapped: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (desired.PodTranslator, "outcome", pod),
        (entries.PodTranslator, "entry_of", pod),
        (family, "same_identity", endpoint),
        (plan, "same_identity", endpoint),
        (state, "plan_address_type", slices),
        (endpoints_state, "plan_for_service", endpoints),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in wrapped]
    for owner, name, wrap in wrapped:
        setattr(owner, name, wrap(getattr(owner, name)))
    try:
        yield lambda: Operations(
            pods_examined=counts.pods,
            endpoints_compared=counts.endpoints,
            slices_looked_at=counts.slices,
            plans=counts.plans,
        )
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


async def count_calls(change: Awaitable[object]) -> int:
    """Return the number of Python and C functions that a change calls."""
    calls = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    before = sys.getprofile()
    with without_collector():
        sys.setprofile(profile)
        try:
            await change
        finally:
            sys.setprofile(before)
    return calls


async def count_bytes(change: Awaitable[object], writer: Writing) -> tuple[int, int]:
    """Return a change's peak memory until its first write is planned, and its total peak.

    Both are relative to the memory before the change, so copies show, whether made in Python or C. Written
    and re-read objects dominate the second value and hide smaller copies.
    """
    planned: list[int] = []

    def note() -> None:
        planned.append(tracemalloc.get_traced_memory()[1])

    with without_collector():
        writer.before_write = note
        tracemalloc.start()
        try:
            await change
            note()
        finally:
            tracemalloc.stop()
            writer.before_write = None
    return planned[0], planned[-1]


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector and its callbacks, which would add calls and time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
