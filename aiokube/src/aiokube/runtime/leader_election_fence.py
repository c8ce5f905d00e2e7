"""The fence: stops all writes of a leader when its lease expires."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.client.errors import ClientError
from aiokube.runtime.errors import ReconcileError
from aiokube.runtime.leader_election_clock import SinceBoot, since_boot
from aiokube.runtime.writer import Writer

T = TypeVar("T", bound=KubernetesObject)

logger = logging.getLogger(__name__)


class FencedError(ReconcileError):
    """A write was not sent, or was cancelled in progress, because the lease has expired."""


class FenceStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a fence's writes."""

    is_open: bool
    under_way: int
    refused: int
    cut: int
    """Writes that were cancelled when the fence closed; the server may or may not have acted on them."""


class Fence:
    """Open until a deadline that renewals extend, then closed permanently; initially closed.

    * :meth:`check` reads the clock itself and depends on no timer. The first write after a stopped process
      (SIGSTOP) or a suspended machine is therefore refused too.
    * Closing the fence cancels writes inside :meth:`passing` immediately.
    * It never opens again: a write planned in one term must not happen in another.

    A fence cannot recall a request that has been sent. Such a write may take effect after the deadline; it
    names the resource version it was planned from, so the server refuses it if another writer has changed
    the object.

    Use it within one event loop.
    """

    def __init__(self, *, clock: SinceBoot = since_boot) -> None:
        self._clock = clock
        self._until: float | None = None
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._passing: set[asyncio.Timeout] = set()
        self._refused = 0
        self._cut = 0
        self._unanswered_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether writes are allowed at this moment."""
        return not self._closed and self._until is not None and self._clock() < self._until

    def open_until(self, moment: float) -> None:
        """Allow writes until a time of the fence's clock; no effect after closing."""
        if self._closed:
            return
        self._until = moment
        self._arm()

    def close(self) -> None:
        """Refuse all further writes, and cancel those in progress. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Writes that were cancelled before may still be unwinding.
        in_progress = [limit for limit in self._passing if not limit.expired()]
        if in_progress:
            logger.warning("writes are cancelled, the lease has expired: writes=%d", len(in_progress))
        now = asyncio.get_running_loop().time() if in_progress else 0.0
        for limit in in_progress:
            limit.reschedule(now)

    def check(self) -> None:
        """Raise FencedError unless writes are allowed at this moment."""
        if not self.is_open:
            self._refused += 1
            raise FencedError("not written: this process is not the leader")

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wrap a write: raises FencedError if the fence is closed, and cancels the write when it closes."""
        self.check()
        try:
            async with asyncio.timeout(None) as limit:
                self._passing.add(limit)
                try:
                    yield
                finally:
                    self._passing.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            self._cut += 1
            self._unanswered_at = self._clock()
            raise FencedError("cancelled: the lease expired during the write") from None
        except asyncio.CancelledError:
            self._unanswered_at = self._clock()
            raise
        except ClientError as error:
            if error.may_have_acted:
                self._unanswered_at = self._clock()
            raise

    def is_settled(self, for_seconds: float) -> bool:
        """Return whether no write is in progress, and none in the given period ended without a response.

        A write without a response may still reach the server.
        """
        if self._passing:
            return False
        return self._unanswered_at is None or self._clock() - self._unanswered_at >= for_seconds

    def statistics(self) -> FenceStatistics:
        """Return a snapshot of the fence's counts."""
        return FenceStatistics(
            is_open=self.is_open, under_way=len(self._passing), refused=self._refused, cut=self._cut
        )

    def _arm(self) -> None:
        """Schedule closing at the deadline; the callback checks again if the loop's clock is ahead."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._until is None or self._clock() >= self._until:
            self.close()
            return
        self._timer = asyncio.get_running_loop().call_later(self._until - self._clock(), self._arm)


class FencedWriter:
    """Writes through a fence: every verb except ``get`` raises FencedError if the fence is or gets closed.

    Wrap a client that checks the fence again before sending: ``client.guarded(fence.check)``.
    """

    def __init__(self, writing: Writer, fence: Fence) -> None:
        self._writing = writing
        self._fence = fence

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object; allowed without the lease."""
        return await self._writing.get(resource, key)

    async def create(self, resource: Resource[T], body: msgspec.Struct, *, namespace: str = "") -> T:
        """Create an object; return it as stored."""
        async with self._fence.passing():
            return await self._writing.create(resource, body, namespace=namespace)

    async def update(
        self, resource: Resource[T], body: msgspec.Struct, *, key: ObjectKey, subresource: str = ""
    ) -> T:
        """Replace an object; return it as stored."""
        async with self._fence.passing():
            return await self._writing.update(resource, body, key=key, subresource=subresource)

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object if it has this uid."""
        async with self._fence.passing():
            await self._writing.delete(
                resource,
                key,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
            )
