"""Telling people what happened: Events written in the background, never in anybody's way."""

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
    """Where Events are written. Raises what :mod:`aiokube.client.errors` knows."""

    async def create(self, event: Event) -> None:
        """Write a new Event into its namespace."""
        ...

    async def patch(self, key: ObjectKey, patch: bytes) -> None:
        """Change an Event; raises NotFoundError where it is gone."""
        ...


class ClientEventSink:
    """The Events of an API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, event: Event) -> None:
        """POST it."""
        await self._client.create(EVENTS, event, namespace=event.metadata.namespace)

    async def patch(self, key: ObjectKey, patch: bytes) -> None:
        """PATCH it (strategic merge)."""
        await self._client.patch(EVENTS, key, patch, patch_type=STRATEGIC_MERGE_PATCH)


class EventStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the occurrences told so far; they add up to those recorded."""

    buffered: int
    written: int
    quiet: int
    """Not written because the object had its share (behaviour 0.7)."""
    overflowed: int
    """The oldest, dropped because the server could not keep up."""
    refused: int
    """Refused by the server, for good."""
    failed: int
    """Given up after all tries, or when stopped."""


def reference(resource: Resource[T], item: T) -> ObjectReference:
    """Return a reference to an object, as Events need it."""
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
    """Tells people what happened to an object. A controller needs no more than this."""

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Have an Event written about an object, soon and if possible; return at once, and never raise.

        ``reason`` is one UpperCamelCase word that programs can match, ``message`` a sentence for people. Call it
        as often as it happens: see :mod:`aiokube.runtime.event_correlation` for what becomes of many.
        """
        ...


class EventWriter:
    """Writes what its recorders are told, one Event at a time, in the order told: a part for the manager's services.

    * Recording never waits and never fails. At most ``capacity`` occurrences wait; beyond that the oldest is
      dropped and counted.
    * Only what never got a proper answer or met a broken server is tried again: up to 12 times, 10 s apart (the
      first pause is random, so that clients do not come back all at once). What the server refuses is dropped, with a
      line in the log unless it is nobody's fault (the namespace is going away, or it is told already).
    * When stopped it writes what waits, each once, within the grace period.
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
        self._buffer: deque[Occurrence] = deque()
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._deadline: float | None = None  # of the loop's time, once we are to stop
        self._written = self._quiet = self._overflowed = self._refused = self._failed = 0

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder whose Events name this component as their source."""
        return _ComponentRecorder(self, component, self._clock)

    def record(self, occurrence: Occurrence) -> None:
        """Take an occurrence in; returns at once."""
        if len(self._buffer) >= self._capacity:
            self._buffer.popleft()
            self._overflowed += 1
            if self._overflowed == 1:
                logger.warning("events are dropped, the server does not keep up: capacity=%d", self._capacity)
        self._buffer.append(occurrence)
        self._arrived.set()

    async def run(self) -> None:
        """Write until :meth:`stop`, then what is left."""
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
        except TimeoutError:  # only the limit raises it: writing lets nothing out
            self._failed += len(self._buffer)
            self._buffer.clear()
            logger.warning("events left unwritten at the end: count=%d", self._failed - failed_before)
        finally:
            self._limit = None

    async def stop(self, grace_seconds: float) -> None:
        """Have :meth:`run` write what waits and return, within the time given. Returns at once."""
        self._deadline = asyncio.get_running_loop().time() + grace_seconds
        self._stopping.set()
        self._arrived.set()
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(self._deadline)

    def statistics(self) -> EventStatistics:
        """Return what became of what was recorded."""
        return EventStatistics(
            buffered=len(self._buffer),
            written=self._written,
            quiet=self._quiet,
            overflowed=self._overflowed,
            refused=self._refused,
            failed=self._failed,
        )

    async def _write_next(self) -> None:
        """Write the oldest occurrence, or give it up; raises nothing but a cancellation."""
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
            logger.exception("event dropped, it cannot be written: reason=%s", occurrence.reason)

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
            except NotFoundError:  # it has outlived its hour
                await self._sink.create(write.event)
        else:
            await self._sink.create(write.event)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until we are to stop."""
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
            logger.error(
                "event dropped, its type is neither Normal nor Warning: type=%s reason=%s", type, reason
            )
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
    """Return how loudly to tell of a refusal: not at all where it is in the nature of things."""
    if isinstance(error, AlreadyExistsError):
        return logging.DEBUG
    if isinstance(error, ApiError) and error.status.has_cause(NAMESPACE_TERMINATING):
        return logging.DEBUG
    return logging.WARNING


def _in_words(write: Write) -> tuple[str, str | None]:
    """Return what the event is about, and its reason."""
    event = write.event
    about = event.involved_object
    return f"{about.kind} {event.metadata.namespace}/{about.name}", event.reason
