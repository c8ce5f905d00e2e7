"""When sources that lost their server may try again: pure decisions, shared by everything that talks to one server.

* Each source (a watch, the writes of a controller) sends at most one attempt a second.
* Sources take turns: while nothing is answered, one attempt leaves in 0.5 to 0.63 s, however many they are. The first
  retry after a failure comes within a second. Jitter keeps the clients of a fleet apart.
* The first answer wakes all others: each tries again within a quarter of a second, or as soon as its own second is
  over.
* What the server asked for (Retry-After) is the least to wait, up to a bound.
"""

import random

import msgspec


class ReconnectRules(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a reconnect, in seconds."""

    first_retry_seconds: float = 1.0
    """The first retry comes after a random part of this."""
    attempt_seconds: float = 1.0
    """The least between two attempts of one source."""
    turn_seconds: float = 0.5
    """The least between two attempts of all sources together."""
    jitter: float = 0.25
    """Each wait is longer by up to this share, at random."""
    wake_seconds: float = 0.25
    """Sources that are woken spread over so long."""
    longest_retry_after_seconds: float = 60.0
    """A server that asks for more is asked again after this."""


class _Waiting(msgspec.Struct):
    not_before: float
    asked_for: float
    is_woken: bool = False


class ReconnectSchedule:
    """Whose turn it is, and when. Without clock and I/O: ``now`` is given, and does not go back."""

    def __init__(self, rng: random.Random, rules: ReconnectRules | None = None) -> None:
        self._rng = rng
        self._rules = rules if rules is not None else ReconnectRules()
        self._waiting: dict[str, _Waiting] = {}  # the longest-waiting first
        self._last_attempt: dict[str, float] = {}
        self._next_turn = float("-inf")

    def attempted(self, source: str, now: float) -> None:
        """Take note of a request that leaves without having waited for a turn."""
        self._last_attempt[source] = now

    def wait(self, source: str, now: float, at_least_seconds: float = 0.0) -> None:
        """Put a source that has failed at the end of the line."""
        rules = self._rules
        if not self._waiting:
            self._next_turn = max(self._next_turn, now + rules.first_retry_seconds * self._rng.random())
        asked_for = now + self._jittered(min(at_least_seconds, rules.longest_retry_after_seconds))
        self._waiting[source] = _Waiting(max(asked_for, self._own_next(source)), asked_for)

    def leave(self, source: str) -> None:
        """Take a source out of the line; nothing happens where it is not in it."""
        self._waiting.pop(source, None)

    def answered(self, now: float) -> None:
        """Wake all who wait: the server answers."""
        for source, waiting in self._waiting.items():
            if not waiting.is_woken:
                soon = now + self._rules.wake_seconds * self._rng.random()
                waiting.is_woken = True
                waiting.not_before = max(soon, waiting.asked_for, self._own_next(source, jitter=False))

    def turn_at(self, source: str) -> float:
        """Return when the source may try; infinity where another one comes first."""
        waiting = self._waiting[source]
        if waiting.is_woken:
            return waiting.not_before
        in_line = {name: each.not_before for name, each in self._waiting.items() if not each.is_woken}
        turn = max(self._next_turn, min(in_line.values()))
        first = next(name for name, not_before in in_line.items() if not_before <= turn)
        return turn if first == source else float("inf")

    def take(self, source: str, now: float) -> None:
        """Let the source try now, and give the next turn to another one."""
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
