"""Kubernetes Events, written in the background without blocking the caller."""

import asyncio
import logging
import random
from collections import deque
from typing import Literal, Protocol, TypeVar

import msgspec

from aiokube.api.events import EVENTS, NORMAL, WARNING, Event
from aiokube.api.meta import KubernetesObject, ObjectKey, ObjectReference
from aiokube.api.resource import Resource
from aiokube.api.status import NAMESPACE_TERMINATING
from aiokube.client.errors import AlreadyExistsError, ApiError, ClientError, NotFoundError
from aiokube.client.rest import STRATEGIC_MERGE_PATCH, Client
from aiokube.clock import Clock
from aiokube.runtime.event_correlation import CountUp, EventCorrelator, Occurrence, Write

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

BUFFERED = 1000
TRIES = 12
PAUSE_SECONDS = 10.0

T = TypeVar("T", bound=KubernetesObject)


class EventSink(Protocol):
    """The destination of Events. Raises the errors of :mod:`aiokube.client.errors`."""

    async def create(self, event: Event) -> None:
        """Create an Event in its namespace."""
        ...

    async def patch(self, key: ObjectKey, patch: bytes) -> None:
        """Patch an Event; raises NotFoundError if it no longer exists."""
        ...


class ClientEventSink:
    """Writes Events to an API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, event: Event) -> None:
        """Send a POST."""
        await self._client.create(EVENTS, event, namespace=event.metadata.namespace)

    async def patch(self, key: ObjectKey, patch: bytes) -> None:
        """Send a PATCH (strategic merge)."""
        await self._client.patch(EVENTS, key, patch, patch_type=STRATEGIC_MERGE_PATCH)


class FairBuffer:
    """Occurrences that wait, with one turn for each namespace and a bound over all.

    Beyond ``capacity`` the oldest of the namespace that has most is dropped: no namespace can displace another's.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_namespace: dict[str, deque[Occurrence]] = {}
        """Namespaces with something to take, in the order of their turns."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, occurrence: Occurrence) -> bool:
        """Add an occurrence; return whether another was dropped for it."""
        is_full = self._count >= self._capacity
        if is_full:
            fullest = max(self._by_namespace, key=lambda name: len(self._by_namespace[name]))
            self._take(fullest)
        self._by_namespace.setdefault(occurrence.namespace, deque()).append(occurrence)
        self._count += 1
        return is_full

    def popleft(self) -> Occurrence:
        """Take the oldest occurrence of the namespace whose turn it is."""
        namespace = next(iter(self._by_namespace))
        occurrence = self._take(namespace)
        if namespace in self._by_namespace:
            self._by_namespace[namespace] = self._by_namespace.pop(namespace)
        return occurrence

    def clear(self) -> None:
        """Drop everything."""
        self._by_namespace.clear()
        self._count = 0

    def _take(self, namespace: str) -> Occurrence:
        waiting = self._by_namespace[namespace]
        occurrence = waiting.popleft()
        if not waiting:
            del self._by_namespace[namespace]
        self._count -= 1
        return occurrence


class EventStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of the occurrences recorded so far; they add up to the total."""

    buffered: int
    written: int
    quiet: int
    """Suppressed by the rate limit per object or namespace (behaviour 0.7)."""
    overflowed: int
    """Dropped from a full buffer, the oldest first."""
    refused: int
    """Permanently refused by the server."""
    failed: int
    """Given up after all attempts, or on stop."""


def reference(resource: Resource[T], item: T) -> ObjectReference:
    """Return a reference to an object for use in Events."""
    meta = item.metadata
    return ObjectReference(
        kind=resource.kind,
        api_version=resource.api_version,
        namespace=meta.namespace or None,
        name=meta.name,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )


class EventRecorder(Protocol):
    """Records Events about objects; the only part that controllers need."""

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Record an Event about an object, written soon on a best-effort basis; never blocks or raises.

        ``reason`` is one UpperCamelCase word for programs, ``message`` a sentence for people. Call it for
        every occurrence: :mod:`aiokube.runtime.event_correlation` aggregates them.
        """
        ...


class EventWriter:
    """Writes recorded Events one at a time; a service of the manager.

    * Recording never waits and never fails. At most ``capacity`` occurrences are buffered; beyond that the
      oldest of the namespace that has most is dropped and counted.
    * Namespaces take turns; the Events of one namespace are written in order.
    * Only writes without a response, or with a server error, are retried: up to 12 times, 10 s apart (the
      first pause is random, so that clients do not retry simultaneously). Refused Events are dropped with a
      log line, except in expected cases (a terminating namespace, an Event that already exists).
    * On stop, the buffered Events are written, each with one attempt, within the grace period.
    """

    name = "events"

    def __init__(
        self, sink: EventSink, *, clock: Clock, rng: random.Random, capacity: int = BUFFERED
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._capacity = capacity
        self._correlator = EventCorrelator()
        self._buffer = FairBuffer(capacity)
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._deadline: float | None = None  # in loop time, set by stop()
        self._written = self._quiet = self._overflowed = self._refused = self._failed = 0

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder whose Events have this component as their source."""
        return _ComponentRecorder(self, component, self._clock)

    def record(self, occurrence: Occurrence) -> None:
        """Buffer an occurrence; returns immediately."""
        if self._buffer.append(occurrence):
            self._overflowed += 1
            if self._overflowed == 1:
                logger.warning("events are dropped, the server is too slow: capacity=%d", self._capacity)
        self._arrived.set()

    async def run(self) -> None:
        """Write until :meth:`stop`, then write the remaining Events."""
        failed_before = self._failed
        try:
            async with asyncio.timeout_at(self._deadline) as self._limit:
                while True:
                    while self._buffer:
                        failed_before = self._failed
                        await self._write_next()
                    if self._stopping.is_set():
                        return
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:  # raised only by the limit: writing catches its own errors
            self._failed += len(self._buffer)
            self._buffer.clear()
            logger.warning("events not written before the end: count=%d", self._failed - failed_before)
        finally:
            self._limit = None

    async def stop(self, grace_seconds: float) -> None:
        """Make :meth:`run` write the buffered Events and return in time. Returns immediately."""
        self._deadline = asyncio.get_running_loop().time() + grace_seconds
        self._stopping.set()
        self._arrived.set()
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(self._deadline)

    def statistics(self) -> EventStatistics:
        """Return the outcomes of the recorded occurrences."""
        return EventStatistics(
            buffered=len(self._buffer),
            written=self._written,
            quiet=self._quiet,
            overflowed=self._overflowed,
            refused=self._refused,
            failed=self._failed,
        )

    async def _write_next(self) -> None:
        """Write or drop the oldest occurrence; raises only a cancellation."""
        occurrence = self._buffer.popleft()
        try:
            write = self._correlator.observe(occurrence)
            if write is None:
                self._quiet += 1
            else:
                await self._write(write)
        except asyncio.CancelledError:
            self._failed += 1
            raise
        except Exception:
            self._failed += 1
            logger.exception("event dropped, writing it failed: reason=%s", occurrence.reason)

    async def _write(self, write: Write) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._send(write)
            except ClientError as error:
                if not error.retryable:
                    self._refused += 1
                    logger.log(
                        _refusal_level(error),
                        "event refused: about=%s reason=%s error=%s",
                        *_in_words(write),
                        error,
                    )
                    return
                last = attempt == TRIES or self._stopping.is_set()
                level = logging.ERROR if last else logging.WARNING if attempt == 1 else logging.DEBUG
                logger.log(
                    level,
                    "event not written: about=%s reason=%s attempt=%d of=%d error=%s",
                    *_in_words(write),
                    attempt,
                    TRIES,
                    error,
                )
                if last:
                    self._failed += 1
                    return
                await self._pause(PAUSE_SECONDS * (self._rng.random() if attempt == 1 else 1.0))
            else:
                self._written += 1
                return

    async def _send(self, write: Write) -> None:
        if isinstance(write, CountUp):
            try:
                await self._sink.patch(write.key, write.patch)
            except NotFoundError:  # it has expired
                await self._sink.create(write.event)
        else:
            await self._sink.create(write.event)

    async def _pause(self, seconds: float) -> None:
        """Wait, at most until :meth:`stop`."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


class _ComponentRecorder:
    def __init__(self, writer: EventWriter, component: str, clock: Clock) -> None:
        self._writer = writer
        self._component = component
        self._clock = clock

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        if type not in (NORMAL, WARNING):
            logger.error("event dropped, its type must be Normal or Warning: type=%s reason=%s", type, reason)
            return
        self._writer.record(
            Occurrence(
                component=self._component,
                regarding=regarding,
                type=type,
                reason=reason,
                message=message,
                at=self._clock.wall(),
                moment=self._clock.monotonic(),
            )
        )


def _refusal_level(error: ClientError) -> int:
    """Return the log level of a refusal: debug for expected ones."""
    if isinstance(error, AlreadyExistsError):
        return logging.DEBUG
    if isinstance(error, ApiError) and error.status.has_cause(NAMESPACE_TERMINATING):
        return logging.DEBUG
    return logging.WARNING


def _in_words(write: Write) -> tuple[str, str | None]:
    """Return the object and the reason of an event, for logs."""
    event = write.event
    about = event.involved_object
    return f"{about.kind} {event.metadata.namespace}/{about.name}", event.reason
