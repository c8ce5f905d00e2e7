"""Change the cluster: create a workload's objects, flip readiness, delete published objects."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol, TypeVar

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES
from aiokube.client.errors import ServerTimeoutError
from aiokube.client.http import JSON
from aiokube.client.rest import STRATEGIC_MERGE_PATCH
from aiokube.clock import Clock
from benchmarks.objects import (
    BenchmarkPod,
    Workload,
    node_documents,
    readiness_body,
    service_body,
    status_body,
)
from benchmarks.observer import Observer
from benchmarks.published import OBSERVED_ENDPOINTS, OBSERVED_SLICES, Published

T = TypeVar("T")

_AT_ONCE = 48
_CLEARING_SECONDS = 300.0


class LoadError(RuntimeError):
    """The initial state of a scenario could not be reached."""


class Change(msgspec.Struct, frozen=True):
    """Times of one readiness change, in seconds of the clock."""

    sent: float
    """Just before the request."""
    answered: float
    """When the API server's response arrived."""
    seen: float
    """When a watcher saw the change in a slice; possibly before the response."""


class Requester(Protocol):
    """The part of a client that the load needs."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Send a request and return the body of a successful response; raise an error for any other."""
        ...


class Load:
    """Create and change the objects of one workload, updating the judge's expectations first."""

    def __init__(self, workload: Workload, client: Requester, observer: Observer, clock: Clock) -> None:
        self.workload = workload
        self.client = client
        self._observer = observer
        self._clock = clock
        self._ready: dict[BenchmarkPod, bool] = {}

    async def populate(self) -> None:
        """Create nodes, namespaces, services and pods, all ready."""
        for namespace in self.workload.namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self.client.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))
        await _at_once(list(node_documents()), self._make_node)
        for service in self.workload.services:
            self._observer.judge.expect_service(service)
        await _at_once(
            self.workload.services,
            lambda service: self.client.request(
                "POST", SERVICES.path(service.namespace), body=service_body(service)
            ),
        )
        await _at_once(self.workload.pods, self._make_pod)

    async def clear(self) -> None:
        """Delete all slices and Endpoints and wait until none exist; no controller may be running.

        Raises LoadError on timeout.
        """
        try:
            async with asyncio.timeout(_CLEARING_SECONDS):
                for namespace in self.workload.namespaces:
                    for resource in (OBSERVED_SLICES, OBSERVED_ENDPOINTS):
                        await self._delete_all(resource.path(namespace))
                await self._observer.until_empty()
        except TimeoutError:
            raise LoadError(
                f"slices and Endpoints were not gone {_CLEARING_SECONDS:g} s after asking"
            ) from None

    async def restore(self) -> None:
        """Make every pod ready again."""
        await _at_once([pod for pod, ready in self._ready.items() if not ready], self._make_ready)

    async def flip(
        self, pod: BenchmarkPod, writing: AbstractAsyncContextManager[object] | None = None
    ) -> Change:
        """Change a pod's readiness and wait until a watcher sees it in a slice.

        Call only once at a time per pod. The request is sent inside ``writing``, which may limit concurrency; waiting for it
        is not part of the measurement.
        """
        ready = not self._ready[pod]
        async with writing if writing is not None else nullcontext():
            self._expect(pod, ready)
            self._observer.look_again()
            seen = self._observer.seen(pod.key)
            sent = self._clock.monotonic()
            await self._set_ready(pod, ready)
            answered = self._clock.monotonic()
        return Change(sent, answered, await seen)

    async def _delete_all(self, path: str) -> None:
        while True:
            try:
                await self.client.request("DELETE", path, timeout_seconds=_CLEARING_SECONDS)
            except (
                ServerTimeoutError
            ):  # the server's default timeout is a minute; ten thousand deletions may take longer
                continue
            return

    async def _make_node(self, documents: tuple[str, bytes, bytes]) -> None:
        name, body, status = documents
        await self.client.request("POST", NODES.path(), body=body)
        await self.client.request(
            "PATCH", NODES.path("", name, "status"), body=status, content_type=STRATEGIC_MERGE_PATCH
        )

    async def _make_pod(self, pod: BenchmarkPod) -> None:
        await self.client.request("POST", PODS.path(pod.key.namespace), body=self.workload.pod_body(pod))
        await self._patch_status(pod, status_body(pod))
        self._expect(pod, True)
        self._ready[pod] = True

    async def _make_ready(self, pod: BenchmarkPod) -> None:
        self._expect(pod, True)
        await self._set_ready(pod, True)

    async def _set_ready(self, pod: BenchmarkPod, ready: bool) -> None:
        self._ready[pod] = ready
        now = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._patch_status(pod, readiness_body(ready=ready, at=now))

    async def _patch_status(self, pod: BenchmarkPod, body: bytes) -> None:
        path = PODS.path(pod.key.namespace, pod.key.name, "status")
        await self.client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)

    def _expect(self, pod: BenchmarkPod, ready: bool) -> None:
        self._observer.judge.expect(pod.key, Published(pod.service, pod.address, ready))


async def _at_once(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """Process all items with bounded concurrency."""
    todo = iter(items)

    async def worker(rest: Iterator[T]) -> None:
        for item in rest:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(worker(todo), name=f"load {number}")
