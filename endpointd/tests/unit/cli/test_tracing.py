"""Traces of syncs, with the real OpenTelemetry if installed, and the cost when tracing is off."""

import asyncio
from typing import Any

import pytest

from aiokube.api.endpoints import ENDPOINTS, LAST_CHANGE_TRIGGER_TIME_ANNOTATION, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.runtime.controller import Controller
from aiokube.runtime.errors import ReconcileError
from aiokube.testing.memory_server import MemoryServer
from aiokube.testing.virtual_time import EPOCH, FakeClock, run_virtual
from aiokube.work_queue import WorkQueue
from endpointd.cli.tracing import Tracing, TracingSettings, TracingUnavailableError, open_tracing

KEY = ObjectKey("shop", "web")


def spans_of(scenario: Any) -> list[Any]:
    """Run a scenario with tracing, and return the spans in order of their start."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))

    async def run() -> None:
        await scenario(Tracing(provider, clock=FakeClock()))

    run_virtual(run())
    return sorted(exporter.get_finished_spans(), key=lambda span: (span.start_time, -span.end_time))


def seconds(span: Any) -> tuple[float, float]:
    epoch = EPOCH.timestamp()
    return span.start_time / 1e9 - epoch, span.end_time / 1e9 - epoch


def test_a_trace_covers_the_wait_the_plan_and_each_write() -> None:
    async def scenario(tracing: Tracing) -> None:
        clock = FakeClock()
        server = MemoryServer()
        writer = tracing.writer(server)
        queue: WorkQueue[ObjectKey] = WorkQueue("main", clock=clock, observer=tracing.queue_observer(None))

        async def reconcile(key: ObjectKey) -> None:
            await asyncio.sleep(2.0)
            meta = ObjectMeta(
                name=key.name,
                namespace=key.namespace,
                annotations={LAST_CHANGE_TRIGGER_TIME_ANNOTATION: "2026-01-01T00:00:00Z"},
            )
            await writer.create(ENDPOINTS, Endpoints(metadata=meta), namespace=key.namespace)
            await asyncio.sleep(1.0)
            await writer.delete(ENDPOINTS, key)

        controller = Controller("some", queue, reconcile, clock=clock, observer=tracing)
        queue.add(KEY)
        await asyncio.sleep(4.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(), name="controller")
            await asyncio.sleep(100.0)
            await controller.stop(1.0)

    spans = spans_of(scenario)
    assert [(span.name, *seconds(span)) for span in spans] == [
        ("sync", 0.0, 7.0),
        ("queue", 0.0, 4.0),
        ("plan", 4.0, 6.0),
        ("create endpoints", 6.0, 6.0),
        ("delete endpoints", 7.0, 7.0),
    ]
    sync = spans[0]
    assert all(span.parent.span_id == sync.context.span_id for span in spans[1:])
    assert dict(sync.attributes) == {
        "endpointd.controller": "some",
        "k8s.namespace.name": "shop",
        "endpointd.service": "web",
        "endpointd.trigger_time": "2026-01-01T00:00:00Z",
        "endpointd.changes": 2,
    }
    assert spans[3].attributes["endpointd.object"] == "web"


def test_a_failure_is_recorded_and_propagates() -> None:
    async def scenario(tracing: Tracing) -> None:
        with pytest.raises(ReconcileError), tracing.sync("some", "shop/web"):
            raise ReconcileError("not today")

    spans = spans_of(scenario)
    assert {span.name for span in spans} == {"sync", "plan", "queue"}
    (sync,) = (span for span in spans if span.name == "sync")
    assert (sync.status.is_ok, sync.status.description) == (False, "not today")


def test_writes_outside_a_sync_are_not_traced() -> None:
    async def scenario(tracing: Tracing) -> None:
        with tracing.request("get", "endpoints", KEY):
            pass

    assert spans_of(scenario) == []


def test_without_opentelemetry_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingUnavailableError, match=r"pip install 'endpointd\[otel\]'"):
        open_tracing(TracingSettings("http://127.0.0.1:4318/v1/traces"), clock=FakeClock())


def test_a_controller_without_an_observer_runs_its_reconcile_itself() -> None:
    async def reconcile(key: str) -> None: ...

    queue: WorkQueue[str] = WorkQueue("main", clock=FakeClock())
    assert Controller("some", queue, reconcile, clock=FakeClock())._reconcile is reconcile
