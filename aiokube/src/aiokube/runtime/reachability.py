"""Reachability of one server, shared by a client's watches and writes, so that they recover together."""

import asyncio
import logging
import random

from aiokube.clock import Clock
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.reconnect import ReconnectRules, ReconnectSchedule

log = logging.getLogger(__name__)

_FIRST_REMINDER_SECONDS = 10.0
_LONGEST_REMINDER_SECONDS = 300.0
# A failure this soon after a recovery belongs to the same outage, and is not logged again.
_SAME_OUTAGE_SECONDS = 10.0


class Reachability:
    """Makes the sources of one server take turns after failures, and wakes them when it responds.

    Each source has a name that is unique within the server. A failed source calls :meth:`wait_turn` and
    retries when it returns; a successful one calls :meth:`answered`. The rules are those of
    :class:`~aiokube.runtime.reconnect.ReconnectSchedule`.

    An outage costs one warning at its start, one at growing intervals (10 s to 5 min), and one line at its
    end, for any number of sources. Use it within one event loop, with the clock of that loop.
    """

    def __init__(
        self, *, clock: Clock, rng: random.Random, server: str = "", rules: ReconnectRules | None = None
    ) -> None:
        self._clock = clock
        self._server = server
        self._schedule = ReconnectSchedule(rng, rules)
        self._waiters: dict[str, asyncio.Event] = {}
        self._failing: dict[str, str] = {}
        self._since = 0.0
        self._ended_at = float("-inf")
        self._attempts = 0
        self._remind_at = float("-inf")
        self._reminder_seconds = _FIRST_REMINDER_SECONDS
        self._announced = False

    @property
    def failing(self) -> tuple[str, ...]:
        """The sources that have failed and not succeeded since."""
        return tuple(self._failing)

    def attempting(self, source: str) -> None:
        """Record a request of a source: its next one after a failure is at least a second later."""
        self._schedule.attempted(source, self._clock.monotonic())

    async def wait_turn(self, source: str, cause: str, *, at_least_seconds: float = 0.0) -> None:
        """Wait until a failed source may retry; sooner if another source succeeds."""
        self._note_failure(source, cause)
        now = self._clock.monotonic()
        self._schedule.wait(source, now, at_least_seconds)
        waiter = self._waiters[source] = asyncio.Event()
        self._reconsider()
        try:
            while (turn := self._schedule.turn_at(source)) > (now := self._clock.monotonic()):
                waiter.clear()
                try:
                    async with asyncio.timeout(None if turn == float("inf") else turn - now):
                        await waiter.wait()
                except TimeoutError:
                    pass
            self._schedule.take(source, now)
            self._attempts += 1
        finally:
            self._schedule.leave(source)
            self._waiters.pop(source, None)
            self._reconsider()

    def answered(self, source: str) -> None:
        """Record a successful response to the source, and wake the waiting ones."""
        if self._failing.pop(source, None) is not None and not self._failing:
            self._ended_at = self._clock.monotonic()
        if self._waiters:
            self._schedule.answered(self._clock.monotonic())
            self._reconsider()
        if self._announced and not self._failing:
            self._announced = False
            log.info(
                "the API server is reachable again: server=%s after_seconds=%.1f attempts=%d",
                self._server or "unnamed",
                self._ended_at - self._since,
                self._attempts,
            )

    def forget(self, source: str) -> None:
        """Remove a source that will send no further requests: it neither fails nor waits."""
        self._failing.pop(source, None)

    def _reconsider(self) -> None:
        for waiter in self._waiters.values():
            waiter.set()

    def _note_failure(self, source: str, cause: str) -> None:
        now = self._clock.monotonic()
        begins = not self._failing
        self._failing[source] = cause
        if begins and not self._announced and now - self._ended_at >= _SAME_OUTAGE_SECONDS:
            self._since, self._attempts = now, 0
            self._remind_at, self._reminder_seconds = now, _FIRST_REMINDER_SECONDS
        if now < self._remind_at:
            return
        self._remind_at = now + self._reminder_seconds
        self._reminder_seconds = min(2 * self._reminder_seconds, _LONGEST_REMINDER_SECONDS)
        self._announced = True
        log.warning(
            "the API server is unreachable, retrying every second: server=%s since_seconds=%.0f attempts=%d "
            "failing=%s cause=%s",
            self._server or "unnamed",
            now - self._since,
            self._attempts,
            ",".join(sorted(self._failing)),
            with_hint(cause),
        )
