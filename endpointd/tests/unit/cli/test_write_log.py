"""The write log (`--v=2`): one line per write, with the changed endpoints and the lag."""

import asyncio
import logging
from typing import Any

import pytest

from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointConditions, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, EndpointAddress, Endpoints, EndpointSubset
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.process.logs import message_and_values
from aiokube.testing.virtual_time import ManualClock
from endpointd.cli.write_log import ChangeTimes, LoggingWriter

WEB = ObjectKey("shop", "web")
META = ObjectMeta(name="web-abc", namespace="shop", labels={"kubernetes.io/service-name": "web"})


class Server:
    """Responds to writes with their body, after a delay."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.error: Exception | None = None

    async def create(self, resource: Any, body: Any, *, namespace: str = "") -> Any:
        return await self.update(resource, body, key=WEB)

    async def update(self, resource: Any, body: Any, *, key: ObjectKey, subresource: str = "") -> Any:
        self.clock.advance(0.5)
        if self.error is not None:
            raise self.error
        return body

    async def get(self, resource: Any, key: ObjectKey) -> Any:
        raise AssertionError

    async def delete(self, resource: Any, key: ObjectKey, **preconditions: Any) -> None:
        await self.update(resource, None, key=key)


def slice_of(*addresses: str, ready: bool = True) -> EndpointSlice:
    endpoints = tuple(
        Endpoint(addresses=(ip,), conditions=EndpointConditions(ready=ready)) for ip in addresses
    )
    return EndpointSlice(metadata=META, address_type="IPv4", endpoints=endpoints, ports=())


class Logged:
    def __init__(self, caplog: pytest.LogCaptureFixture, stored: Any = None) -> None:
        caplog.set_level(logging.DEBUG, "endpointd.cli.write_log")
        self._caplog = caplog
        self.clock = ManualClock()
        self.changes = ChangeTimes(self.clock)
        self.server = Server(self.clock)
        find = {ENDPOINT_SLICES.plural: lambda key: stored, ENDPOINTS.plural: lambda key: stored}
        self.writer = LoggingWriter(self.server, "c", self.clock, self.changes, find)

    def values(self) -> list[dict[str, Any]]:
        return [message_and_values(record)[1] for record in self._caplog.records]


def test_an_update_logs_added_removed_and_changed_endpoints(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog, slice_of("10.0.0.1", "10.0.0.2"))
    body = slice_of("10.0.0.2", "10.0.0.3", ready=False)
    logged.changes.changed(WEB)
    logged.clock.advance(0.25)
    asyncio.run(logged.writer.update(ENDPOINT_SLICES, body, key=ObjectKey("shop", "web-abc")))
    assert logged.values() == [
        {
            "controller": "c",
            "service": "shop/web",
            "verb": "update",
            "resource": "endpointslices",
            "name": "web-abc",
            "added": 1,
            "removed": 1,
            "changed": 1,
            "lag_seconds": 0.75,
        }
    ]


def test_a_write_without_a_change_has_no_lag(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    address = EndpointAddress(ip="10.0.0.1")
    body = Endpoints(metadata=ObjectMeta(name="web"), subsets=(EndpointSubset(addresses=(address,)),))
    asyncio.run(logged.writer.create(ENDPOINTS, body, namespace="shop"))
    (values,) = logged.values()
    assert (values["service"], values["added"], "lag_seconds" in values) == ("shop/web", 1, False)


def test_a_delete_logs_the_removed_endpoints(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog, slice_of("10.0.0.1"))
    asyncio.run(logged.writer.delete(ENDPOINT_SLICES, ObjectKey("shop", "web-abc"), uid="u"))
    (values,) = logged.values()
    assert (values["verb"], values["service"], values["removed"]) == ("delete", "shop/web", 1)


def test_a_write_that_failed_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.server.error = RuntimeError("refused")
    with pytest.raises(RuntimeError):
        asyncio.run(logged.writer.update(ENDPOINT_SLICES, slice_of(), key=WEB))
    assert logged.values() == []


def test_the_lag_starts_at_the_earliest_unwritten_change() -> None:
    clock = ManualClock()
    changes = ChangeTimes(clock)
    began = clock.monotonic()
    changes.changed(WEB)
    clock.advance(1.0)
    changes.changed(WEB)
    assert changes.begin_write(WEB) == changes.begin_write(WEB) == began
    changes.changed(WEB)
    assert changes.begin_write(WEB) == began + 1.0
