"""What one open watch has shown so far, and how long it may still be silent."""

from endpointd.api.meta import version_number
from endpointd.api.resource import Bookmark
from endpointd.runtime.reflector_settings import ReflectorSettings
from endpointd.runtime.watch_states import Life

BOOKMARKS_BEHIND = 3
"""So many bookmarks in a row may name older versions than ours, as from a replica that has yet to catch up."""


class WatchRecord:
    """The life of one watch since the server's 200; times are of the clock's monotonic kind, in seconds."""

    __slots__ = (
        "_behind",
        "_opened_at",
        "_seen_before",
        "_timeout_seconds",
        "heard",
        "last_growth",
        "last_heard",
    )

    def __init__(self, opened_at: float, timeout_seconds: int, seen_before: str) -> None:
        self._opened_at = opened_at
        self._timeout_seconds = timeout_seconds
        self._seen_before = seen_before
        self._behind = 0
        self.last_heard = opened_at
        self.last_growth = opened_at
        """When the initial events last brought a further object."""
        self.heard = False
        """Whether anything was told at all, failures aside."""

    def is_behind(self, bookmark: Bookmark, seen: str) -> bool:
        """Take in a bookmark; tell whether the server has been behind us for too long."""
        older = version_number(bookmark.resource_version) < version_number(seen)
        self._behind = self._behind + 1 if older else 0
        return self._behind >= BOOKMARKS_BEHIND

    def deadline(self, settings: ReflectorSettings, *, streaming: bool, sends_bookmarks: bool) -> float:
        """Return when the watch is to be given up if nothing more comes."""
        if streaming:
            return min(
                self._opened_at + settings.longest_stream_seconds, self.last_growth + settings.stall_seconds
            )
        if sends_bookmarks:
            return self.last_heard + settings.silence_seconds
        return max(self.last_heard, self._opened_at + self._timeout_seconds) + settings.end_margin_seconds

    def life(self, seen: str, now: float) -> Life:
        """Return what the watch was, now that it is over."""
        return Life(
            seen=seen,
            at_seconds=now,
            lived_seconds=now - self._opened_at,
            progressed=seen != self._seen_before,
            heard=self.heard,
        )
