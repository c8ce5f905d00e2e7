"""Whether one server can be reached: shared by all watches and writes of a client, so that they recover together."""

import asyncio
import logging
import random

from aiokube.clock import Clock
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.reconnect import ReconnectRules, ReconnectSchedule

log = logging.getLogger(__name__)

_FIRST_REMINDER_SECONDS = 10.0
_LONGEST_REMINDER_SECONDS = 300.0
# A failure so soon after a recovery belongs to the same outage, and is not announced again.
_SAME_OUTAGE_SECONDS = 10.0


class Reachability:
    """Makes the sources of one server wait for their turn after a failure, and wakes them when it answers.

    A source names itself; names are unique within one server. Whoever failed calls :meth:`wait_turn`, and tries again
    when it returns. Whoever is answered calls :meth:`answered`. The rules are those of
    :class:`~aiokube.runtime.reconnect.ReconnectSchedule`.

    An outage costs one warning when it begins, one at growing intervals (10 s to 5 min), and one line at its end,
    however many sources it has. Use it within one event loop, with the clock that keeps its timers.
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
        """The sources that have failed and not been answered since."""
        return tuple(self._failing)

    def attempting(self, source: str) -> None:
        """Take note that a source sends a request: its next one after a failure is at least a second away."""
        self._schedule.attempted(source, self._clock.monotonic())

    async def wait_turn(self, source: str, cause: str, *, at_least_seconds: float = 0.0) -> None:
        """Return when the source, which has failed, may try again; sooner if another one is answered meanwhile."""
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
        """Take note that the server has answered the source well, and wake those that wait."""
        if self._failing.pop(source, None) is not None and not self._failing:
            self._ended_at = self._clock.monotonic()
        if self._waiters:
            self._schedule.answered(self._clock.monotonic())
            self._reconsider()
        if self._announced and not self._failing:
            self._announced = False
            log.info(
                "the API server answers again: server=%s after_seconds=%.1f attempts=%d",
                self._server or "unnamed",
                self._ended_at - self._since,
                self._attempts,
            )

    def forget(self, source: str) -> None:
        """Take note that a source has nothing more to ask for: it neither fails nor waits."""
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
            "no answer from the API server, trying again each second: server=%s since_seconds=%.0f attempts=%d "
            "failing=%s cause=%s",
            self._server or "unnamed",
            now - self._since,
            self._attempts,
            ",".join(sorted(self._failing)),
            with_hint(cause),
        )
