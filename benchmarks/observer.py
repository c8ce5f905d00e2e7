"""Watch slices and Endpoints, and record when a change became visible."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.api.resource import WatchEvent
from aiokube.clock import Clock
from aiokube.runtime.source import Source
from benchmarks.control_watch import ControlWatch
from benchmarks.published import (
    Judge,
    ObservedEndpoints,
    ObservedSlice,
)


class Rightness(msgspec.Struct, frozen=True):
    """Since when everything has been correct, in seconds of the clock."""

    slices_since: float
    endpoints_since: float

    @property
    def since(self) -> float:
        """The later of both times."""
        return max(self.slices_since, self.endpoints_since)


class Observer:
    """Two watches that feed a :class:`Judge`, and futures for its results.

    Run :meth:`run` in a separate task. Times are taken after a batch of events was read and decoded, so they include the
    work of a lean client on the same CPUs.
    """

    def __init__(
        self,
        slices: Source[ObservedSlice],
        endpoints: Source[ObservedEndpoints],
        judge: Judge,
        clock: Clock,
    ) -> None:
        self.judge = judge
        self._clock = clock
        self._slices = ControlWatch(slices, "EndpointSlices", self._take_slices, clock)
        self._endpoints = ControlWatch(endpoints, "Endpoints", self._take_endpoints, clock)
        self._pods: dict[ObjectKey, asyncio.Future[float]] = {}
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._slices_since: float | None = None
        self._endpoints_since: float | None = None

    async def run(self) -> NoReturn:
        """Watch until cancelled. Raises ObserverError (in a group) if a watch cannot be maintained."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slices.run(), name="watch slices")
            group.create_task(self._endpoints.run(), name="watch Endpoints")
        raise AssertionError("watches only end by raising")

    async def wait_watching(self) -> None:
        """Wait until no later write can be missed."""
        for watch in (self._slices, self._endpoints):
            await watch.started.wait()

    @property
    def restarts(self) -> int:
        """Number of disconnects so far; the events right after one were seen late."""
        return self._slices.restarts + self._endpoints.restarts

    # ------------------------------------------------------------------------------------------ waiting

    def seen(self, pod: ObjectKey) -> asyncio.Future[float]:
        """Return a future with the time at which the slices publish the pod as expected.

        Call after setting the expectation and before making the change; one change per pod at a time.
        """
        if pod in self._pods:
            raise ValueError(f"{pod} is being waited for already: one change of a pod at a time")
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._pods[pod] = future
        return future

    async def until_right(self) -> Rightness:
        """Wait until all slices and Endpoints are correct; return since when."""
        self.look_again()
        await self._until(lambda: self._slices_since is not None and self._endpoints_since is not None)
        if (
            self._slices_since is None or self._endpoints_since is None
        ):  # pragma: no cover - no turn in between
            raise AssertionError("it was right when this was woken")
        return Rightness(self._slices_since, self._endpoints_since)

    async def until_empty(self) -> None:
        """Wait until nothing is published."""
        await self._until(self.judge.is_empty)

    def look_again(self) -> None:
        """Re-evaluate after the expectations changed."""
        self._note(self._clock.monotonic())

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((condition, future))
            await future

    # ----------------------------------------------------------------------------------------- watching

    def _take_slices(self, events: Sequence[WatchEvent[ObservedSlice]], now: float) -> None:
        for event in events:
            for pod in self.judge.slice_event(event.type, event.item):
                if pod in self._pods and self.judge.is_pod_right(pod):
                    future = self._pods.pop(pod)
                    if not future.done():
                        future.set_result(now)
        self._note(now)

    def _take_endpoints(self, events: Sequence[WatchEvent[ObservedEndpoints]], now: float) -> None:
        for event in events:
            self.judge.endpoints_event(event.type, event.item)
        self._note(now)

    def _note(self, now: float) -> None:
        if not self.judge.are_slices_right():
            self._slices_since = None
        elif self._slices_since is None:
            self._slices_since = now
        if not self.judge.are_endpoints_right():
            self._endpoints_since = None
        elif self._endpoints_since is None:
            self._endpoints_since = now
        if self._waiting:
            still = []
            for condition, future in self._waiting:
                if not condition():
                    still.append((condition, future))
                elif not future.done():
                    future.set_result(None)
            self._waiting = still
