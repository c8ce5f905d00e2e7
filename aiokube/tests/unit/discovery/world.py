"""A cluster of fake sources for discovery tests, in virtual time."""

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec
from tests.unit.discovery.slices import endpoint, endpoint_slice, port

from aiokube.api.core import NODES, Node
from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.meta import NarrowMeta, ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.rest import Client
from aiokube.discovery import (
    PROXIED_SERVICES,
    LiveService,
    ProxiedService,
    ServiceEndpoints,
    ServiceMap,
    watch_service,
    watch_services,
)
from aiokube.testing.builders import make_node
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, run_virtual

LONG = 200.0  # seconds: longer than any backoff


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time, and assert that it leaves no task behind."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        run_virtual(test(**fixtures))

    return run


def service(name: str = "svc1", *, ports: dict[str, int] | None = None, **spec: Any) -> ProxiedService:
    """Return service ns1/<name>, by default with port http 80."""
    spec = {
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ipFamilies": ["IPv4"],
        "ports": [{"name": name, "port": number} for name, number in (ports or {"http": 80}).items()],
        **spec,
    }
    document = {"metadata": {"namespace": "ns1", "name": name}, "spec": spec}
    return PROXIED_SERVICES.decode(msgspec.json.encode(document))


def web(name: str, *ips: str, service: str = "svc1", **more: Any) -> EndpointSlice:
    """Return a slice of ns1/<service> with ready endpoints."""
    return endpoint_slice(name, [endpoint(ip) for ip in ips], service=service, **more)


def ips_of(endpoints: ServiceEndpoints) -> list[str]:
    return [each.ip for each in endpoints.usable]


class World:
    """A cluster, and a client with the methods that discovery uses."""

    def __init__(self, *items: ProxiedService | EndpointSlice | Node) -> None:
        self.services: FakeSource[ProxiedService] = FakeSource()
        self.slices: FakeSource[EndpointSlice] = FakeSource()
        self.nodes: FakeSource[Node] = FakeSource()
        self._sources: dict[str, FakeSource[Any]] = {
            PROXIED_SERVICES.plural: self.services,
            ENDPOINT_SLICES.plural: self.slices,
            NODES.plural: self.nodes,
        }
        self.asked: list[tuple[str, str, str, str]] = []
        self.put(*items)

    def put(self, *items: ProxiedService | EndpointSlice | Node) -> None:
        """Create or change an object, and wait for the watches."""
        for item in items:
            source = self._source_of(item)
            key = ObjectKey(item.metadata.namespace, item.metadata.name)
            if key in source.objects:
                source.modify(item)
            else:
                source.create(item)

    def delete(self, item: ProxiedService | EndpointSlice | Node, *, silently: bool = False) -> None:
        key = ObjectKey(item.metadata.namespace, item.metadata.name)
        self._source_of(item).delete(key, silently=silently)

    def source(
        self,
        resource: Resource[Any],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> FakeSource[Any]:
        self.asked.append((resource.plural, namespace, label_selector, field_selector))
        return self._sources[resource.plural]

    def live(self, name: str = "ns1/svc1", **more: Any) -> LiveService:
        return watch_service(
            cast("Client", self), name, **{"clock": FakeClock(), "rng": random.Random(1), **more}
        )

    def map(self, **more: Any) -> ServiceMap:
        return watch_services(cast("Client", self), clock=FakeClock(), rng=random.Random(1), **more)

    def _source_of(self, item: object) -> FakeSource[Any]:
        if isinstance(item, ProxiedService):
            return self.services
        return self.slices if isinstance(item, EndpointSlice) else self.nodes


def node(zone: str = "zone-a", name: str = "node-1") -> Node:
    found = make_node(name)
    return msgspec.structs.replace(found, zone=zone, metadata=NarrowMeta(name=name))


async def settle() -> None:
    """Run everything that needs no time."""
    await asyncio.sleep(0.001)


__all__ = [
    "LONG",
    "World",
    "endpoint",
    "ips_of",
    "node",
    "endpoint_slice",
    "port",
    "service",
    "settle",
    "virtually",
    "web",
]
