"""A slice written by the benchmark itself: the latency of a slice write on this server at this moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from aiokube.clock import Clock
from benchmarks.load import Requester
from benchmarks.objects import ZONES, node_name
from benchmarks.published import MAX_ENDPOINTS_PER_SLICE, OBSERVED_SLICES
from benchmarks.summary import percentile

_NAMESPACE = "default"  # outside the workload's namespaces, so clearing a workload does not affect it
_NAME = "benchmark-own"
_PAUSE_SECONDS = 0.5


class ControlWrite:
    """One slice of 100 endpoints without a service, which no controller reconciles.

    It has the size of a controller's full slice and changes in the same way: readiness of one endpoint.
    """

    def __init__(self, client: Requester, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._took_ms: list[float] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Create the slice, write it twice a second until the block ends, and delete it.

        Raises client errors in an exception group.
        """
        await self._client.request(
            "POST", OBSERVED_SLICES.path(_NAMESPACE), body=control_slice_body(ready=True)
        )
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(), name="own slice")
                yield
                writing.cancel()
        finally:
            await self._client.request("DELETE", OBSERVED_SLICES.path(_NAMESPACE, _NAME))

    def values(self) -> dict[str, float]:
        """Return the latencies of the writes so far; empty without writes."""
        if not self._took_ms:
            return {}
        return {
            "own_slice_write_p50_ms": percentile(self._took_ms, 50),
            "own_slice_write_p99_ms": percentile(self._took_ms, 99),
        }

    async def _write(self) -> None:
        path = OBSERVED_SLICES.path(_NAMESPACE, _NAME)
        ready = True
        while True:
            ready = not ready  # the API server does not store a write without changes
            body = control_slice_body(ready=ready)
            sent = self._clock.monotonic()
            await self._client.request("PUT", path, body=body)
            self._took_ms.append((self._clock.monotonic() - sent) * 1000.0)
            await self._clock.sleep(_PAUSE_SECONDS)


def control_slice_body(*, ready: bool) -> bytes:
    """Return the slice; ``ready`` is the readiness of its first endpoint."""
    endpoints = [
        {
            "addresses": [f"198.51.100.{number + 1}"],
            "conditions": {
                "ready": number > 0 or ready,
                "serving": number > 0 or ready,
                "terminating": False,
            },
            "nodeName": node_name(number % len(ZONES)),
            "zone": ZONES[number % len(ZONES)],
            "targetRef": {
                "kind": "Pod",
                "namespace": _NAMESPACE,
                "name": f"{_NAME}-7f9c6d5b48-{number:05d}",
                "uid": f"00000000-0000-4000-8000-{number:012d}",
            },
        }
        for number in range(MAX_ENDPOINTS_PER_SLICE)
    ]
    return msgspec.json.encode(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": _NAME, "namespace": _NAMESPACE},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "metrics", "port": 9102, "protocol": "TCP"},
            ],
        }
    )
