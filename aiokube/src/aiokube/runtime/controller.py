"""Workers that take keys from a queue and reconcile them, with retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractContextManager
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from aiokube.clock import Clock
from aiokube.runtime.deferred_retries import DeferredRetries
from aiokube.runtime.errors import (
    ReconcileError,
    describe,
    is_expected,
    is_unavailable,
    retry_after_seconds,
)
from aiokube.runtime.failure_log import FailureLog
from aiokube.runtime.pacing import LoopPacer
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.reachability import Reachability
from aiokube.work_queue import QueueClosed, WorkQueue

K = TypeVar("K", bound=Hashable)

logger = logging.getLogger(__name__)


class RequeueAfter(msgspec.Struct, frozen=True):
    """Returned by a reconcile to be called again after a delay, without counting a failure."""

    seconds: float


class ControllerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a controller's state."""

    name: str
    workers: int
    running: int
    """Reconciles in progress."""
    succeeded: int
    requeued: int
    """Successful reconciles that returned RequeueAfter."""
    failed: int
    last_failure: str
    """Key and error of the last failure, ``""`` before the first."""
    last_success_age_seconds: float | None
    """Seconds since the last successful reconcile; None before the first."""
    state: Literal["new", "running", "stopping", "stopped"] = "new"
    last_end_age_seconds: float | None = None
    """Seconds since a reconcile last ended, or since the workers started; None before that."""
    deferred: int = 0
    """Keys that wait until the server is reachable again."""
    failing_since_success: bool = False
    """Whether the last completed reconcile failed."""


class SyncObserver(Protocol):
    """Wraps reconciles, for a tracer for example. It must not raise or suppress exceptions."""

    def sync(self, controller: str, key: str) -> AbstractContextManager[object]:
        """Return a context manager that a worker's task holds during a reconcile."""
        ...


class ControllerStop(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of stopping a controller; keys are text, as in the log."""

    name: str
    finished: tuple[str, ...] = ()
    """Reconciles that ended within the grace period, successfully or not."""
    abandoned: tuple[str, ...] = ()
    """Reconciles that were cancelled; their work may be half done."""
    waiting: int = 0
    """Keys that were never started."""


Reconcile = Callable[[K], Awaitable[RequeueAfter | None]]


class Controller(Generic[K]):
    """Runs ``reconcile(key)`` for every key of a queue, with a number of workers, until stopped.

    Guarantees:

    * A key is never reconciled twice at the same time (the queue ensures it); different keys run
      concurrently, up to ``workers`` at a time.
    * A reconcile that returns has succeeded: the key's failures are reset. If it returns
      :class:`RequeueAfter`, the key is reconciled again after that time, or earlier if it is added.
    * A reconcile that raises is retried indefinitely with the queue's backoff. An expected error
      (:class:`~aiokube.runtime.errors.ReconcileError`, an error of :mod:`aiokube.client`, or a group of only
      those) is logged in one line, any other with a traceback; beyond 20 failures
      a minute in one namespace they are only counted (:class:`FailureLog`). ``retry_after_seconds`` of an error is the
      minimum delay.
    * With a ``reachability``, keys whose server is unreachable wait for the server instead
      (:class:`DeferredRetries`).
    * ``observer`` wraps each reconcile and sees its exceptions.
    * ``timeout_seconds`` limits each reconcile; one that exceeds it is cancelled and counts as failed.

    A reconcile receives only the key, not the change: it reads the current state and acts on it. Workers
    yield to the event loop even if reconciles never await.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Reconcile[K],
        workers: int = 1,
        *,
        clock: Clock,
        timeout_seconds: float | None = None,
        observer: SyncObserver | None = None,
        reachability: Reachability | None = None,
        pacer: LoopPacer | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name!r} needs at least 1 worker, got {workers}")
        self.name = name
        self.queue = queue
        self._reconcile = reconcile if observer is None else _observed(name, reconcile, observer)
        self._worker_count = workers
        self._clock = clock
        self._pacer = pacer or LoopPacer(clock)
        self._timeout_seconds = timeout_seconds
        self._deferred = (
            None if reachability is None else DeferredRetries(f"{name} writes", queue, reachability)
        )
        self._state: Literal["new", "running", "stopping", "stopped"] = "new"
        self._tasks: list[asyncio.Task[None]] = []
        self._succeeded = 0
        self._requeued = 0
        self._failed = 0
        self._last_failure = ""
        self._last_success_at: float | None = None
        self._last_end_at: float | None = None
        self._last_failed = False
        self._failure_log = FailureLog(clock)

    async def run(self) -> None:
        """Work until :meth:`stop`; return after all workers have exited.

        Cancelling it cancels reconciles in progress immediately. May be called once.
        """
        if self._tasks:
            raise RuntimeError(f"controller {self.name!r} was run already; make a new one")
        self._state = "running"
        self._last_end_at = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            retries = None
            if self._deferred is not None:
                retries = group.create_task(self._deferred.run(), name=f"{self.name}-retries")
            self._tasks += [
                group.create_task(self._work(), name=f"{self.name}-worker-{number}")
                for number in range(self._worker_count)
            ]
            await asyncio.wait(self._tasks)
            if retries is not None:
                retries.cancel()
        self._state = "stopped"

    async def stop(self, grace_seconds: float) -> ControllerStop:
        """Stop taking keys, give reconciles in progress a grace period, then cancel them.

        Returns and logs the outcome after all workers have ended. Unstarted keys are dropped: the next run
        starts from the state of the cluster, not from this queue.
        """
        if self._state == "running":
            self._state = "stopping"
        under_way, waiting = self.queue.held(), len(self.queue)
        self.queue.close()
        try:
            async with asyncio.timeout(grace_seconds):
                await self.queue.join()
        except TimeoutError:
            pass
        abandoned = self.queue.held()
        if self._tasks:
            if abandoned:
                for task in self._tasks:
                    task.cancel()
            await asyncio.wait(self._tasks)
        outcome = ControllerStop(
            name=self.name,
            finished=tuple(str(key) for key in under_way if key not in abandoned),
            abandoned=tuple(map(str, abandoned)),
            waiting=waiting,
        )
        if abandoned:
            logger.warning(
                "controller stopped, reconciles were cancelled: controller=%s grace_seconds=%g finished=%d abandoned=%s waiting=%d",
                self.name,
                grace_seconds,
                len(outcome.finished),
                ",".join(outcome.abandoned),
                waiting,
            )
        else:
            logger.info(
                "controller stopped: controller=%s finished=%d waiting=%d",
                self.name,
                len(outcome.finished),
                waiting,
            )
        return outcome

    def statistics(self) -> ControllerStatistics:
        """Return a snapshot of the controller; :meth:`WorkQueue.statistics` is that of its queue."""
        now = self._clock.monotonic()
        age = None if self._last_success_at is None else now - self._last_success_at
        return ControllerStatistics(
            name=self.name,
            workers=self._worker_count,
            running=len(self.queue.held()),
            succeeded=self._succeeded,
            requeued=self._requeued,
            failed=self._failed,
            last_failure=self._last_failure,
            last_success_age_seconds=age,
            state=self._state,
            last_end_age_seconds=None if self._last_end_at is None else now - self._last_end_at,
            failing_since_success=self._last_failed,
            deferred=0 if self._deferred is None else len(self._deferred),
        )

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                if self._deferred is None or not self._deferred.pauses(key):
                    await self._attempt(key)
            finally:
                self.queue.done(key)
            if self._pacer.spend():  # a reconcile that never awaits must not starve I/O
                await self._pacer.next_turn()

    async def _attempt(self, key: K) -> None:
        """Reconcile once and handle the outcome. Raises only a cancellation of the worker."""
        try:
            if self._timeout_seconds is None:
                result = await self._reconcile(key)
            else:
                result = await self._reconcile_in_time(key, self._timeout_seconds)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # An inner task was cancelled, not the worker: the key has failed, the worker continues.
            self._after_failure(key, error)
        except Exception as error:  # noqa: BLE001 - logged by _after_failure
            self._after_failure(key, error)
        else:
            self._after_success(key, result)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("synced: controller=%s key=%s", self.name, key)

    async def _reconcile_in_time(self, key: K, timeout_seconds: float) -> RequeueAfter | None:
        try:
            async with asyncio.timeout(timeout_seconds) as limit:
                return await self._reconcile(key)
        except TimeoutError as error:
            if limit.expired():
                raise ReconcileError(
                    f"it took longer than {timeout_seconds:g} s and was cancelled"
                ) from error
            raise

    def _after_success(self, key: K, result: RequeueAfter | None) -> None:
        self._succeeded += 1
        self._last_success_at = self._last_end_at = self._clock.monotonic()
        self._last_failed = False
        failures = self.queue.failures(key)
        was_deferred = self._deferred is not None and self._deferred.ended(key)
        if failures and not was_deferred:  # an outage is logged once, not for each key
            logger.info("reconcile recovered: controller=%s key=%s failures=%d", self.name, key, failures)
        self.queue.forget(key)
        if result is not None:
            self._requeued += 1
            self.queue.add_after(key, result.seconds)

    def _after_failure(self, key: K, error: BaseException) -> None:
        self._failed += 1
        self._last_end_at = self._clock.monotonic()
        self._last_failed = True
        text = describe(error)
        self._last_failure = f"{key}: {text}"
        if self._deferred is not None and is_unavailable(error) and not self.queue.closed:
            is_first = self._deferred.failed(key, text, retry_after_seconds(error))
            logger.log(
                logging.WARNING if is_first else logging.DEBUG,
                "reconcile failed, will be retried when the API server responds: controller=%s key=%s error=%s",
                self.name,
                key,
                with_hint(text),
            )
            return
        if self._deferred is not None:
            self._deferred.ended(key)
        expected = is_expected(error)
        delay = self.queue.add_rate_limited(key, at_least_seconds=retry_after_seconds(error))
        namespace = getattr(key, "namespace", "")
        is_logged, folded = self._failure_log.note(namespace)
        if folded:
            logger.warning(
                "more reconciles failed and were not logged: controller=%s namespace=%s count=%d",
                self.name,
                namespace,
                folded,
            )
        level = logging.WARNING if expected else logging.ERROR
        logger.log(
            level if is_logged else logging.DEBUG,
            "reconcile failed: controller=%s key=%s attempt=%d next_try_seconds=%s error=%s",
            self.name,
            key,
            self.queue.failures(key),
            "none" if self.queue.closed else f"{delay:.3g}",
            with_hint(text),
            exc_info=None if expected else error,
        )


def _observed(name: str, reconcile: Reconcile[K], observer: SyncObserver) -> Reconcile[K]:
    async def reconcile_observed(key: K) -> RequeueAfter | None:
        with observer.sync(name, str(key)):
            return await reconcile(key)

    return reconcile_observed
