"""Trace syncs with OpenTelemetry: the wait in the queue, the plan and each write.

A trace of a sync::
   sync      controller, service, changes, trigger time, outcome; starts when the key was due
     queue   until a worker took the key
     plan    until the first write is sent, or the end of the sync if nothing is written
     create endpointslices.discovery.k8s.io, update …, delete …, get …
OpenTelemetry is imported only by :func:`open_tracing`, and without an observer a controller runs the same code path.
"""

import asyncio
import importlib
import logging
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec

from aiokube.api.endpoints import LAST_CHANGE_TRIGGER_TIME_ANNOTATION
from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.clock import Clock
from aiokube.runtime.errors import describe
from aiokube.runtime.writer import Writer
from aiokube.work_queue import QueueObserver
from endpointd import __version__

T = TypeVar("T", bound=KubernetesObject)
R = TypeVar("R")

logger = logging.getLogger(__name__)

_EXPORT_SECONDS = 3.0


class TracingSettings(msgspec.Struct, frozen=True):
    """The collector's URL and the sampling rate."""

    endpoint: str
    samples_per_million: int = 1_000_000


class TracingUnavailableError(Exception):
    """OpenTelemetry is not installed; the text names the package to install."""


class _Sync:
    """The current sync of this task and its child tasks."""

    __slots__ = ("changes", "context", "planned", "span", "started_ns")

    def __init__(self, span: Any, context: Any, started_ns: int) -> None:
        self.span = span
        self.context = context
        self.started_ns = started_ns
        self.planned = False
        self.changes = 0


_waited_seconds: ContextVar[float] = ContextVar("waited_seconds", default=0.0)
_current: ContextVar[_Sync | None] = ContextVar("sync", default=None)


class Tracing:
    """A runnable that sends spans; also observes syncs, queues and writers.

    OpenTelemetry sends spans in batches from a thread and drops those it cannot send. Its delays and failures
    do not affect the controllers.
    """

    name = "tracing"

    def __init__(self, provider: Any, *, clock: Clock) -> None:
        api = importlib.import_module("opentelemetry.trace")
        self._provider = provider
        self._tracer = provider.get_tracer("endpointd", __version__)
        self._in_context = api.set_span_in_context
        self._error = importlib.import_module("opentelemetry.trace.status").StatusCode.ERROR
        self._clock = clock
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Wait until stopped."""
        await self._stopped.wait()

    async def stop(self, grace_seconds: float) -> None:
        """Flush within the grace period; spans that remain are dropped."""
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def flush() -> None:
            try:
                self._provider.force_flush(int(grace_seconds * 1000))
            finally:
                loop.call_soon_threadsafe(done.set)

        # Not a pool thread: an unresponsive collector must not keep the process alive.
        threading.Thread(target=flush, name="tracing-flush", daemon=True).start()
        try:
            async with asyncio.timeout(grace_seconds):
                await done.wait()
        except TimeoutError:
            logger.warning("spans not flushed within the grace period: grace_seconds=%g", grace_seconds)
        self._stopped.set()

    @contextmanager
    def sync(self, controller: str, key: str) -> Iterator[None]:
        """Trace one reconcile. Implements :class:`~aiokube.runtime.controller.SyncObserver`."""
        now = self._now()
        due = now - int(_waited_seconds.get() * 1e9)
        namespace, _, name = key.rpartition("/")
        attributes = {
            "endpointd.controller": controller,
            "k8s.namespace.name": namespace,
            "endpointd.service": name,
        }
        span = self._tracer.start_span("sync", start_time=due, attributes=attributes)
        context = self._in_context(span)
        self._tracer.start_span("queue", context=context, start_time=due).end(now)
        sync = _Sync(span, context, now)
        token = _current.set(sync)
        try:
            yield
        except BaseException as error:
            span.set_status(self._error, describe(error))
            raise
        finally:
            _current.reset(token)
            ended = self._now()
            self._end_plan(sync, ended)
            span.set_attribute("endpointd.changes", sync.changes)
            span.end(ended)

    def queue_observer(self, inner: QueueObserver | None) -> QueueObserver:
        """Return an observer that records how long a key waited and forwards to ``inner``."""
        return _WaitObserver(inner)

    def writer(self, inner: Writer) -> Writer:
        """Return a writer that records a span for each request of a sync."""
        return _TracedWriter(inner, self)

    @contextmanager
    def request(self, verb: str, resource: str, key: ObjectKey, body: object = None) -> Iterator[None]:
        """Trace one request of the current sync; requests outside a sync are not traced."""
        sync = _current.get()
        if sync is None:
            yield
            return
        now = self._now()
        self._end_plan(sync, now)
        if verb != "get":
            sync.changes += 1
        trigger_time = _trigger_time(body)
        if trigger_time:
            sync.span.set_attribute("endpointd.trigger_time", trigger_time)
        attributes = {"k8s.namespace.name": key.namespace, "endpointd.object": key.name}
        span = self._tracer.start_span(
            f"{verb} {resource}", context=sync.context, start_time=now, attributes=attributes
        )
        try:
            yield
        except BaseException as error:
            span.set_status(self._error, describe(error))
            raise
        finally:
            span.end(self._now())

    def _end_plan(self, sync: _Sync, now: int) -> None:
        if not sync.planned:
            sync.planned = True
            self._tracer.start_span("plan", context=sync.context, start_time=sync.started_ns).end(now)

    def _now(self) -> int:
        return int(self._clock.wall().timestamp() * 1e6) * 1000


class _WaitObserver:
    def __init__(self, inner: QueueObserver | None) -> None:
        self._inner = inner

    def on_add(self) -> None:
        if self._inner is not None:
            self._inner.on_add()

    def on_get(self, waited_seconds: float) -> None:
        _waited_seconds.set(waited_seconds)  # in the worker's own task
        if self._inner is not None:
            self._inner.on_get(waited_seconds)

    def on_done(self, worked_seconds: float) -> None:
        if self._inner is not None:
            self._inner.on_done(worked_seconds)

    def on_retry(self) -> None:
        if self._inner is not None:
            self._inner.on_retry()


class _TracedWriter:
    """A writer that wraps each request in a span."""

    def __init__(self, inner: Writer, tracing: Tracing) -> None:
        self._inner = inner
        self._tracing = tracing

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        return await self._traced("get", resource, key, self._inner.get(resource, key))

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        key = ObjectKey(namespace, getattr(getattr(body, "metadata", None), "name", "") or "")
        request = self._inner.create(resource, body, namespace=namespace)
        return await self._traced("create", resource, key, request, body)

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        request = self._inner.update(resource, body, key=key, subresource=subresource)
        return await self._traced("update", resource, key, request, body)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        request = self._inner.delete(
            resource,
            key,
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
        )
        await self._traced("delete", resource, key, request)

    async def _traced(
        self, verb: str, resource: Resource[Any], key: ObjectKey, request: Awaitable[R], body: object = None
    ) -> R:
        with self._tracing.request(verb, resource.full_name, key, body):
            return await request


def _trigger_time(body: object) -> str:
    annotations = getattr(getattr(body, "metadata", None), "annotations", None)
    return annotations.get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION, "") if isinstance(annotations, dict) else ""


def open_tracing(settings: TracingSettings, *, clock: Clock) -> Tracing:
    """Return a tracer that exports to a collector.

    Raises :class:`TracingUnavailableError` without OpenTelemetry.
    """
    try:
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        sampling = importlib.import_module("opentelemetry.sdk.trace.sampling")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise TracingUnavailableError(
            f"--tracing-endpoint needs OpenTelemetry, which is not installed ({error.name} is missing): "
            "pip install 'endpointd[otel]'"
        ) from error
    provider = sdk.TracerProvider(
        resource=resources.Resource.create({"service.name": "endpointd", "service.version": __version__}),
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(settings.samples_per_million / 1e6)),
        shutdown_on_exit=False,
    )
    exporter = otlp.OTLPSpanExporter(endpoint=settings.endpoint, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return Tracing(provider, clock=clock)
