"""Limits how often external edits are repaired, so that two disagreeing controllers do not fight at network speed."""

from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock


class RepairThrottle:
    """Spaces the repairs of each key: the first is due immediately, each further one an interval later.

    Keys are independent. A key is forgotten once it no longer matters.
    """

    __slots__ = ("_at", "_clock", "_interval_seconds")

    def __init__(self, clock: Clock, interval_seconds: float) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._at: dict[ObjectKey, float] = {}  # the last repair of a key, or the next one if it is pending

    def __len__(self) -> int:
        """Return the number of remembered keys."""
        return len(self._at)

    def delay_seconds(self, key: ObjectKey) -> float:
        """Return the delay of a key's next repair; repeated calls before it is due return the same repair."""
        now = self._clock.monotonic()
        self._forget_before(now - self._interval_seconds)
        at = self._at.pop(key, None)
        if at is None:
            at = now
        elif at <= now:
            at = max(now, at + self._interval_seconds)
        self._at[key] = at
        return at - now

    def _forget_before(self, moment: float) -> None:
        """Drop entries that no longer matter.

        They are in the order of last use, so stop at the first that matters.
        """
        while self._at:
            key = next(iter(self._at))
            if self._at[key] > moment:
                return
            del self._at[key]
