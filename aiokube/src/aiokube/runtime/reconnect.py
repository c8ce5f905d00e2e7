"""The retry schedule of the sources of one server, as pure decisions.

* Each source (a watch, the writes of a controller) makes at most one attempt per second.
* Sources take turns: during an outage, one attempt is made every 0.5 to 0.63 s, for any number of sources.
  The first retry after a failure follows within a second. Jitter spreads the clients of a fleet.
* The first response wakes all sources: each retries within a quarter of a second, or as soon as its own
  second has passed.
* A Retry-After delay of the server is the minimum, up to a limit.
"""

import random

import msgspec


class ReconnectRules(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of the retry schedule, in seconds."""

    first_retry_seconds: float = 1.0
    """The first retry follows after a random part of this."""
    attempt_seconds: float = 1.0
    """The minimum between two attempts of one source."""
    turn_seconds: float = 0.5
    """The minimum between two attempts of any sources."""
    jitter: float = 0.25
    """Each wait is extended by a random part of up to this share."""
    wake_seconds: float = 0.25
    """Woken sources spread their retries over this time."""
    longest_retry_after_seconds: float = 60.0
    """The upper limit of a delay that the server asks for."""


class _Waiting(msgspec.Struct):
    not_before: float
    asked_for: float
    is_woken: bool = False


class ReconnectSchedule:
    """Decides whose turn it is, and when, without clock and I/O: ``now`` is a monotonic argument."""

    def __init__(self, rng: random.Random, rules: ReconnectRules | None = None) -> None:
        self._rng = rng
        self._rules = rules if rules is not None else ReconnectRules()
        self._waiting: dict[str, _Waiting] = {}  # in the order of waiting
        self._last_attempt: dict[str, float] = {}
        self._next_turn = float("-inf")

    def attempted(self, source: str, now: float) -> None:
        """Record a request that was sent without waiting for a turn."""
        self._last_attempt[source] = now

    def wait(self, source: str, now: float, at_least_seconds: float = 0.0) -> None:
        """Add a failed source to the end of the line."""
        rules = self._rules
        if not self._waiting:
            self._next_turn = max(self._next_turn, now + rules.first_retry_seconds * self._rng.random())
        asked_for = now + self._jittered(min(at_least_seconds, rules.longest_retry_after_seconds))
        self._waiting[source] = _Waiting(max(asked_for, self._own_next(source)), asked_for)

    def leave(self, source: str) -> None:
        """Remove a source from the line, if it is there."""
        self._waiting.pop(source, None)

    def answered(self, now: float) -> None:
        """Wake all waiting sources: the server responds."""
        for source, waiting in self._waiting.items():
            if not waiting.is_woken:
                soon = now + self._rules.wake_seconds * self._rng.random()
                waiting.is_woken = True
                waiting.not_before = max(soon, waiting.asked_for, self._own_next(source, jitter=False))

    def turn_at(self, source: str) -> float:
        """Return when the source may retry; infinity if another source is first."""
        waiting = self._waiting[source]
        if waiting.is_woken:
            return waiting.not_before
        in_line = {name: each.not_before for name, each in self._waiting.items() if not each.is_woken}
        turn = max(self._next_turn, min(in_line.values()))
        first = next(name for name, not_before in in_line.items() if not_before <= turn)
        return turn if first == source else float("inf")

    def take(self, source: str, now: float) -> None:
        """Take the source's turn now; the next turn is another source's."""
        if not self._waiting.pop(source).is_woken:
            self._next_turn = now + self._jittered(self._rules.turn_seconds)
        self._last_attempt[source] = now

    def _own_next(self, source: str, *, jitter: bool = True) -> float:
        last = self._last_attempt.get(source)
        if last is None:
            return float("-inf")
        seconds = self._rules.attempt_seconds
        return last + (self._jittered(seconds) if jitter else seconds)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + self._rules.jitter * self._rng.random())
