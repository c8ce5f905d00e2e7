"""A namespace with services of every kind, steady and constantly changing pods, and a watcher of the published objects."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokube.api.core import PODS
from aiokube.api.discovery import ENDPOINT_SLICES, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey
from aiokube.client.rest import MERGE_PATCH, Client
from aiokube.runtime.informer import Informer
from endpointd.controllers.indexes import service_name_of
from tests.cluster.leader_support import CLOCK, until
from tests.differential.example import pod, pod_runs
from tinykube.testing.control_plane import ControlPlane

NODE = "shop-node"
STEADY, FLIPPING = range(6), range(6, 12)
STILL = range(20, 23)
BY_HAND = "192.0.2.80"
FLIP_SECONDS = 0.03
TIMES_OF_TRIGGERS = "endpoints.kubernetes.io/last-change-trigger-time"


def ip_of(number: int) -> str:
    return f"10.77.1.{number + 1}"


def ips_of(number: int) -> list[str]:
    return [ip_of(number), f"fd00:77::{number + 1:x}"]


class Shop:
    """Services ``web`` (steady and flipping pods), ``still`` (headless, both families, steady pods), ``hand`` (mirrored)."""

    def __init__(self, plane: ControlPlane, client: Client, namespace: str) -> None:
        self._plane = plane
        self.client = client
        self.namespace = namespace
        self._ready = dict.fromkeys([*STEADY, *FLIPPING], True)
        self.flips = 0
        self._going = False

    async def open(self) -> None:
        """Create all objects."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}, node)
        ports: dict[str, Any] = {"ports": [{"port": 80, "targetPort": 8080}]}
        both = {"ipFamilyPolicy": "RequireDualStack", "clusterIP": "None", "selector": {"app": "still"}}
        subsets = [{"addresses": [{"ip": BY_HAND}], "ports": [{"port": 80}]}]
        self._apply(
            self._object("Service", "web", spec={**ports, "selector": {"app": "web"}}),
            self._object("Service", "still", spec={**ports, **both}),
            self._object("Service", "hand", spec=ports),
            self._object("Endpoints", "hand", subsets=subsets),
        )
        for number in (*STEADY, *FLIPPING, *STILL):
            app = "still" if number in STILL else "web"
            created, runs = pod(
                self.namespace, f"{app}-{number}", {"app": app}, node=NODE, ips=ips_of(number)
            )
            await self.client.request("POST", PODS.path(self.namespace), body=created.body.encode())
            await self._say(f"{app}-{number}", runs.body)

    @asynccontextmanager
    async def churning(self) -> AsyncIterator[None]:
        """Change the readiness of ``web``'s pods one after the other during the block."""
        self._going = True
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._churn(), name="churn")
            try:
                yield
            finally:
                self._going = False
            await asyncio.wait([task])

    async def flips_more(self, count: int = 30) -> None:
        """Wait for ``count`` more readiness changes."""
        enough = self.flips + count
        await until(lambda: self.flips >= enough, within=30, what="flipping")

    async def published(self, within: float = 15.0) -> None:
        """Wait until slices and Endpoints match the pods."""
        web = {ip_of(number): ready for number, ready in self._ready.items()}
        still = {address: True for number in STILL for address in ips_of(number)}
        wanted = {"web": web, "still": still, "hand": {BY_HAND: True}}
        deadline = CLOCK.monotonic() + within
        while (found := await self._in_slices()) != wanted or await self._in_endpoints() != web:
            assert CLOCK.monotonic() < deadline, (wanted, found)
            await CLOCK.sleep(0.1)

    def _apply(self, *items: dict[str, Any]) -> None:
        both = {"apiVersion": "v1", "kind": "List", "items": items}
        self._plane.kubectl("apply", "-f", "-", document=json.dumps(both))

    def _object(self, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}

    async def _say(self, name: str, body: str) -> None:
        key = ObjectKey(self.namespace, name)
        await self.client.patch(PODS, key, body.encode(), patch_type=MERGE_PATCH, subresource="status")

    async def _churn(self) -> None:
        while self._going:
            number = FLIPPING[self.flips % len(FLIPPING)]
            self._ready[number] = not self._ready[number]
            runs = pod_runs(self.namespace, f"web-{number}", ips_of(number), ready=self._ready[number])
            await self._say(f"web-{number}", runs.body)
            self.flips += 1
            await CLOCK.sleep(FLIP_SECONDS)

    async def _in_slices(self) -> dict[str, dict[str, bool]]:
        page = await self.client.list_page(ENDPOINT_SLICES, namespace=self.namespace)
        found: dict[str, dict[str, bool]] = {}
        for endpoint_slice in page.items:
            service = service_name_of(endpoint_slice)
            assert service is not None
            addresses = found.setdefault(service.name, {})
            for endpoint in endpoint_slice.endpoints or ():
                assert endpoint.addresses[0] not in addresses, f"{endpoint.addresses} is in two slices"
                addresses[endpoint.addresses[0]] = endpoint.conditions.ready is not False
        return found

    async def _in_endpoints(self) -> dict[str, bool]:
        item = await self.client.get(ENDPOINTS, ObjectKey(self.namespace, "web"))
        found: dict[str, bool] = {}
        for subset in item.subsets or ():
            found |= {address.ip: True for address in subset.addresses or ()}
            found |= {address.ip: False for address in subset.not_ready_addresses or ()}
        return found


class Watcher:
    """Observes every change of slices and Endpoints in order, and records violations.

    ``vanished``: after a change, a continuously ready address was missing from all slices of its service, or from its
    Endpoints. ``needless``: a write that changed nothing a client reads.
    """

    def __init__(self, shop: Shop) -> None:
        self._slices: dict[str, EndpointSlice] = {}
        steady = frozenset(ip_of(number) for number in STEADY)
        still = frozenset(address for number in STILL for address in ips_of(number))
        self._wanted = {"web": steady, "still": still, "hand": frozenset([BY_HAND])}
        self._informers: tuple[Informer[Any], ...] = (
            self._informer(shop, ENDPOINT_SLICES, self._slice_changed),
            self._informer(shop, ENDPOINTS, self._endpoints_changed),
        )
        self._is_begun = False
        self.changes = 0
        self.vanished: list[str] = []
        self.needless: list[str] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Watcher"]:
        """Watch during the block; everything must be published before."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run(), name=informer.name) for informer in self._informers]
            for informer in self._informers:
                await informer.wait_synced(timeout_seconds=20)
            self._is_begun = True
            self._look("the beginning")
            yield self
            for task in tasks:
                task.cancel()

    def _informer(self, shop: Shop, resource: Any, handler: Callable[[Any, Any], None]) -> Informer[Any]:
        source = shop.client.source(resource, namespace=shop.namespace)
        informer: Informer[Any] = Informer(source, name=resource.full_name, clock=CLOCK, rng=random.Random(1))
        informer.add_handler(handler)
        return informer

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        item = new if new is not None else old
        assert item is not None
        if new is None:
            self._slices.pop(item.metadata.name)
        else:
            self._slices[item.metadata.name] = new
        self._note(old, new, item.metadata.name)
        self._look(item.metadata.name)

    def _endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        item = new if new is not None else old
        assert item is not None
        self._note(old, new, item.metadata.name)
        subsets = (new.subsets or ()) if new is not None else ()
        ready = {address.ip for subset in subsets for address in subset.addresses or ()}
        wanted = self._wanted[item.metadata.name]
        if missing := {address for address in wanted if ":" not in address} - ready:
            self.vanished.append(f"Endpoints {item.metadata.name} lacks {sorted(missing)}")

    def _note(self, old: Any, new: Any, name: str) -> None:
        self.changes += 1
        if old is not None and new is not None and _content(old) == _content(new):
            self.needless.append(f"{type(new).__name__} {name}")

    def _look(self, after: str) -> None:
        if not self._is_begun:
            return
        for service, wanted in self._wanted.items():
            ready = {
                address
                for endpoint_slice in self._slices.values()
                if (of := service_name_of(endpoint_slice)) is not None and of.name == service
                for endpoint in endpoint_slice.endpoints or ()
                if endpoint.conditions.ready is not False
                for address in endpoint.addresses
            }
            if missing := wanted - ready:
                self.vanished.append(f"after {after} no slice of {service} has {sorted(missing)}")


def _content(item: Any) -> Any:
    """Return the content that clients read: without versions and trigger times."""
    fields = {name: getattr(item, name) for name in item.__struct_fields__ if name != "metadata"}
    annotations = dict(item.metadata.annotations or {})
    annotations.pop(TIMES_OF_TRIGGERS, None)
    return fields, item.metadata.labels, annotations, item.metadata.owner_references
