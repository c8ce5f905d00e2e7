"""Channels to the pods of a selector for grpc.aio clients, which have no public resolver API.

gRPC for Python has no interface for adding a name resolver. A channel accepts a fixed list of addresses
(``ipv4:10.0.0.1:50051,10.0.0.2:50051`` with the policy round_robin), so every change would need a new channel.
This module therefore keeps one channel per endpoint and picks one for each call.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Self

import grpc.aio

from aiokube.discovery import ServiceEndpoints
from docs.guide.examples.consumer_picker import LeastUsed

GRACE_SECONDS = 30.0


class EndpointChannels:
    """One channel for each usable endpoint; use it with ``async with``.

    A removed endpoint immediately stops receiving new calls. Its calls in flight have ``grace_seconds`` to end.
    """

    def __init__(
        self,
        picker: LeastUsed | None = None,
        *,
        open_channel: Callable[[str], grpc.aio.Channel] = grpc.aio.insecure_channel,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._picker = picker or LeastUsed()
        self._open_channel = open_channel
        self._grace_seconds = grace_seconds
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._closing = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._closing.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        for address in list(self._channels):
            self._close(address)
        await self._closing.__aexit__(None, None, None)

    def use(self, endpoints: ServiceEndpoints) -> None:
        """Send new calls to these endpoints from now on."""
        self._picker.use(endpoints)
        addresses = {each.address for each in endpoints.usable}
        for address in self._channels.keys() - addresses:
            self._close(address)

    @contextlib.asynccontextmanager
    async def channel(
        self, *, avoid: frozenset[str] = frozenset()
    ) -> AsyncIterator[tuple[str, grpc.aio.Channel]]:
        """Give the channel of the least used endpoint, and its address, for one call. Raises NoEndpointError.

        A call that fails with UNAVAILABLE may be repeated with ``avoid`` if it is idempotent.
        """
        with self._picker.pick(avoid=avoid) as endpoint:
            address = endpoint.address
            if address not in self._channels:
                self._channels[address] = self._open_channel(address)
            yield address, self._channels[address]

    def _close(self, address: str) -> None:
        channel = self._channels.pop(address)
        self._closing.create_task(channel.close(self._grace_seconds), name=f"close {address}")
