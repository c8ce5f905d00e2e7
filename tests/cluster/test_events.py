"""Events as accepted by a real API server (behaviour 0.7)."""

import asyncio
import random

import pytest

from aiokube.api.core import NODES, SERVICES
from aiokube.api.events import EVENTS, Event
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from aiokube.runtime.events import ClientEventSink, EventStatistics, EventWriter, reference
from tinykube.testing.control_plane import ControlPlane

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: NAMESPACE}
spec: {ports: [{port: 80}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME}
"""


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    name = f"events-{random.SystemRandom().randrange(10**8)}"
    control_plane.kubectl("create", "namespace", name)
    return name


async def written(control_plane: ControlPlane, *told: tuple[ObjectReference, str, str]) -> EventStatistics:
    """Record the Events, wait until they are written, and return the statistics."""
    clock = SystemClock()
    async with Client.from_config(control_plane.client_config(), clock=clock) as client:
        writer = EventWriter(ClientEventSink(client), clock=clock, rng=random.Random(1))
        recorder = writer.recorder("endpoint-slice-controller")
        for regarding, reason, message in told:
            recorder.event(regarding, "Warning", reason, message)
        await writer.stop(30.0)
        await writer.run()
    return writer.statistics()


async def events_of(control_plane: ControlPlane, namespace: str) -> list[Event]:
    async with Client.from_config(control_plane.client_config(), clock=SystemClock()) as client:
        return list((await client.list_page(EVENTS, namespace=namespace)).items)


async def test_events_are_created_counted_and_aggregated_on_a_real_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("apply", "-f", "-", document=SERVICE.replace("NAMESPACE", namespace))
    async with Client.from_config(control_plane.client_config(), clock=SystemClock()) as client:
        service = await client.get(SERVICES, ObjectKey(namespace, "cart"))
    about = reference(SERVICES, service)
    statistics = await written(
        control_plane,
        *[(about, "FailedToUpdateEndpointSlices", "it broke")] * 3,
        *[(about, "FailedToUpdateEndpoint", f"try {number}") for number in range(12)],
    )
    assert statistics == EventStatistics(buffered=0, written=15, quiet=0, overflowed=0, refused=0, failed=0)
    by_message = {event.message: event for event in await events_of(control_plane, namespace)}
    assert len(by_message) == 1 + 9 + 1
    same = by_message["it broke"]
    assert same.count == 3
    assert same.type == "Warning"
    assert same.involved_object == about
    assert same.source is not None
    assert same.source.component == same.reporting_component == "endpoint-slice-controller"
    assert by_message["(combined from similar events): try 11"].count == 3
    described = control_plane.kubectl("-n", namespace, "describe", "service", "cart")
    assert "FailedToUpdateEndpointSlices" in described


async def test_an_event_about_a_node_is_created_in_the_default_namespace(control_plane: ControlPlane) -> None:
    name = f"system-node.{random.SystemRandom().randrange(10**8)}"
    control_plane.kubectl("apply", "-f", "-", document=NODE.replace("NAME", name))
    async with Client.from_config(control_plane.client_config(), clock=SystemClock()) as client:
        node = await client.get(NODES, ObjectKey("", name))
    statistics = await written(control_plane, (reference(NODES, node), "Tested", "it works"))
    assert statistics.written == 1
    assert name in {event.involved_object.name for event in await events_of(control_plane, "default")}


async def test_an_externally_deleted_event_is_recreated(control_plane: ControlPlane, namespace: str) -> None:
    clock = SystemClock()
    about = ObjectReference(kind="Service", api_version="v1", namespace=namespace, name="cart", uid="u")
    async with Client.from_config(control_plane.client_config(), clock=clock) as client:
        writer = EventWriter(ClientEventSink(client), clock=clock, rng=random.Random(1))
        recorder = writer.recorder("test")
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.run())
            for count in (1, 2):
                recorder.event(about, "Normal", "Tested", "it works")
                while writer.statistics().written < count:
                    await clock.sleep(0.01)
                (event,) = (await client.list_page(EVENTS, namespace=namespace)).items
                assert event.count == count
                await client.delete(EVENTS, event.metadata.key)
            await writer.stop(0.0)


async def test_an_event_rejected_by_a_terminating_namespace_is_dropped_silently(
    control_plane: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Without its controller a terminating namespace stays terminating.
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
    about = ObjectReference(kind="Service", api_version="v1", namespace=namespace, name="cart", uid="u")
    statistics = await written(control_plane, (about, "Tested", "too late"))
    assert statistics.refused == 1
    assert not caplog.records
