"""What keeps a leader whose time is up from writing, whatever it is in the middle of."""

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
    """A write was not sent, or cut off while it was under way, as we may not write any more."""


class FenceStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a fence has let through and what not."""

    is_open: bool
    under_way: int
    refused: int
    cut: int
    """Writes under way that were cut off when it closed: whether the server has acted is not known."""


class Fence:
    """Open until a moment that is moved on by renewals, then closed for good; closed at first.

    * :meth:`check` looks at the clock itself, at that very moment: no timer has to have run. So what runs first after
      the process was stopped (SIGSTOP), or the machine was suspended, is refused too.
    * When it closes, what is :meth:`passing` is cut off at once.
    * It never opens again: what was planned in a term that is over must not be written in another.

    What it cannot do: call back a request whose bytes have left. Such a write may take effect after the moment; it
    names the version it was planned from, so the server refuses it where somebody else has written meanwhile.

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
        """Return whether one may write at this moment."""
        return not self._closed and self._until is not None and self._clock() < self._until

    def open_until(self, moment: float) -> None:
        """Let writes through until then, a moment of the fence's clock; nothing happens where it was closed."""
        if self._closed:
            return
        self._until = moment
        self._arm()

    def close(self) -> None:
        """Let nothing through any more, and cut off what is under way. Closing twice is fine."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Those that are cut off already may take a moment to unwind, and be here still.
        going_on = [limit for limit in self._passing if not limit.expired()]
        if going_on:
            logger.warning("writes are cut off, the right to write has ended: writes=%d", len(going_on))
        now = asyncio.get_running_loop().time() if going_on else 0.0
        for limit in going_on:
            limit.reschedule(now)

    def check(self) -> None:
        """Return where one may write at this moment; raise FencedError where not."""
        if not self.is_open:
            self._refused += 1
            raise FencedError("not written: this process is not, or no longer, the leader")

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Do a write inside: it is cut off with FencedError when the fence closes. Raises that at once where it is."""
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
            raise FencedError("cut off: the lease ran out while it was being written") from None
        except asyncio.CancelledError:
            self._unanswered_at = self._clock()
            raise
        except ClientError as error:
            if error.may_have_acted:
                self._unanswered_at = self._clock()
            raise

    def is_settled(self, for_seconds: float) -> bool:
        """Return whether no write is under way, and none of the last so many seconds ended without an answer.

        What got no answer may still be on its way to the server.
        """
        if self._passing:
            return False
        return self._unanswered_at is None or self._clock() - self._unanswered_at >= for_seconds

    def statistics(self) -> FenceStatistics:
        """Return what it has let through and what not."""
        return FenceStatistics(
            is_open=self.is_open, under_way=len(self._passing), refused=self._refused, cut=self._cut
        )

    def _arm(self) -> None:
        """Have it closed at its moment; looked at again where the loop's clock is ahead."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._until is None or self._clock() >= self._until:
            self.close()
            return
        self._timer = asyncio.get_running_loop().call_later(self._until - self._clock(), self._arm)


class FencedWriter:
    """Writes through a fence: every verb but ``get`` raises FencedError where it is closed, or closes meanwhile.

    Give it a client that asks the fence once more before the bytes go out: ``client.guarded(fence.check)``.
    """

    def __init__(self, writing: Writer, fence: Fence) -> None:
        self._writing = writing
        self._fence = fence

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        """Read one object, whoever leads."""
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
        """Delete an object, if it is still the one with this uid."""
        async with self._fence.passing():
            await self._writing.delete(
                resource,
                key,
                uid=uid,
                resource_version=resource_version,
                grace_period_seconds=grace_period_seconds,
            )
