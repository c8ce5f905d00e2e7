"""The history of one open watch, and its deadline for silence."""

from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.watch_states import WatchSummary

_BOOKMARKS_MISSED = 3
_END_SLACK_SECONDS = 1.0


class WatchRecord:
    """Records one watch since the server's 200; times are monotonic, in seconds."""

    __slots__ = (
        "_bookmark_at",
        "_bookmark_gap",
        "_opened_at",
        "_seen_before",
        "_timeout_seconds",
        "heard",
        "last_growth",
        "last_heard",
        "with_state",
    )

    def __init__(
        self, opened_at: float, timeout_seconds: int, seen_before: str, *, with_state: bool = False
    ) -> None:
        self._opened_at = opened_at
        self._timeout_seconds = timeout_seconds
        self._seen_before = seen_before
        self._bookmark_at: float | None = None
        self._bookmark_gap: float | None = None
        self.last_heard = opened_at
        self.last_growth = opened_at
        """When the initial events last brought a new object."""
        self.with_state = with_state
        """Whether it started with initial events."""
        self.heard = False
        """Whether it reported anything except failures."""

    def note_bookmark(self, at: float) -> None:
        """Record a bookmark: the server's interval determines how soon silence is detected."""
        if self._bookmark_at is not None:
            self._bookmark_gap = max(self._bookmark_gap or 0.0, at - self._bookmark_at)
        self._bookmark_at = at

    def deadline(self, settings: ReflectorSettings, *, streaming: bool) -> float:
        """Return when to give up the watch if it stays silent."""
        if streaming:
            return min(
                self._opened_at + settings.longest_stream_seconds, self.last_growth + settings.stall_seconds
            )
        silence_seconds = settings.shortest_watch_seconds if self.with_state else settings.silence_seconds
        if self._bookmark_gap is not None:
            paced_seconds = max(settings.paced_silence_seconds, _BOOKMARKS_MISSED * self._bookmark_gap)
            silence_seconds = min(silence_seconds, paced_seconds)
        return self.last_heard + silence_seconds

    def summary(self, seen: str, now: float, *, sends_bookmarks: bool = False) -> WatchSummary:
        """Return the summary of the watch at its end."""
        lived_seconds = now - self._opened_at
        had_its_time = lived_seconds >= self._timeout_seconds - _END_SLACK_SECONDS
        return WatchSummary(
            seen=seen,
            at_seconds=now,
            lived_seconds=lived_seconds,
            progressed=seen != self._seen_before,
            heard=self.heard,
            mute=sends_bookmarks and had_its_time and not self.heard,
        )
