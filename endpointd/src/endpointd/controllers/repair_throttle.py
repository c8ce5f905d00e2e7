"""How soon what somebody else changed is put right: two controllers that disagree must not fight at network speed."""

from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock


class RepairThrottle:
    """Spaces the repairs of each key: the first is due at once, each further one an interval after the one before.

    Keys do not wait for each other. What is remembered of a key is forgotten once nothing depends on it.
    """

    __slots__ = ("_at", "_clock", "_interval_seconds")

    def __init__(self, clock: Clock, interval_seconds: float) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._at: dict[
            ObjectKey, float
        ] = {}  # the last repair of a key, or the next one where that is to come

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._at)

    def delay_seconds(self, key: ObjectKey) -> float:
        """Return how long the repair that a key needs now has to wait; asked again before that, it is the same one."""
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
        """Drop what no longer counts: entries are in the order of their last use, so the first that counts is the end."""
        while self._at:
            key = next(iter(self._at))
            if self._at[key] > moment:
                return
            del self._at[key]
