"""Settings and statistics of a reflector, and the error for a cache that has not synced."""

from typing import Literal, TypeAlias

import msgspec

from aiokube.backoff import ExponentialBackoff
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.watch_states import WatchRules

Phase: TypeAlias = Literal["stopped", "listing", "streaming", "connecting", "watching", "waiting"]


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a reflector. The defaults suit kube-apiserver and limit its load."""

    initial: Literal["watch-list", "list"] = "watch-list"
    """How the initial state is read: as the initial events of a watch (enabled by default since
    kube-apiserver 1.34; without support the reflector falls back to a list), or as a list: in one response if
    the source :class:`~aiokube.runtime.source.StreamsLists`, otherwise and after a broken response in pages.
    A list takes a server half the time and CPU; initial events need less memory on servers before 1.33."""
    backoff: ExponentialBackoff = ExponentialBackoff(base_seconds=0.8, cap_seconds=30.0, jitter=0.5)
    """For failures other than an unreachable server: 0.8 to 30 s as in client-go.
    :mod:`aiokube.runtime.reachability` paces the retries of an unreachable server."""
    shortest_watch_seconds: int = 28
    longest_watch_seconds: int = 34
    """The server ends a watch after a random time in this range. The next watch uses the same connection and
    costs the server one cheap request. A server sends a bookmark before the end, so a quiet watch shows twice
    a minute that it is alive; otherwise bookmarks come once a minute."""
    silence_seconds: float = 42.0
    """A watch without any data for this long, not even its end, is dead."""
    paced_silence_seconds: float = 15.0
    """The same limit for a server that sends bookmarks three times as often."""
    stall_seconds: float = 30.0
    """Initial events that bring no new object for this long are considered stuck."""
    longest_stream_seconds: float = 300.0
    """So are initial events that have not ended after this long."""
    max_objects: int = 500_000
    """A list, over all pages, or initial events with more objects fail, with backoff: a server that never ends its list
    must not exhaust memory. Kubernetes supports 150,000 pods."""
    request_seconds: float = 90.0
    """The limit for one response: a page of a list, or the status of a watch with initial events."""
    open_seconds: float = 20.0
    """The limit for the status of any other watch."""
    rules: WatchRules = WatchRules()


class ReflectorStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a reflector. Times are monotonic; counters count from its creation."""

    name: str
    phase: Phase
    since: float
    """The start of the phase."""
    last_contact: float | None
    """The time of the last successful response; None before the first."""
    resource_version: str
    synced: bool
    failures: int
    """Consecutive failures since the last healthy watch."""
    last_error: str
    """The last error, ``""`` before the first. It stays after a recovery; compare the times."""
    last_error_at: float | None
    errors: int
    lists: int
    """Lists and initial events, including failed ones; all except the first are relists."""
    watches: int
    """Watches that the server accepted with 200."""
    undecodable_events: int
    followed: bool = True
    """Whether a watch was ever open; a list alone goes stale."""
    following_since: float | None = None
    """Since when changes have been watched without a gap; None if no watch is open. A watch that ended
    normally and was reopened immediately leaves no gap."""


class NotSyncedError(Exception):
    """A store did not sync in time; the message has the cause, ``statistics`` the details.

    ``waited_seconds`` is None if it did not wait, because retrying cannot help.
    """

    def __init__(self, statistics: ReflectorStatistics, waited_seconds: float | None) -> None:
        if waited_seconds is None:
            text = f"{statistics.name}: cannot be read: {with_hint(statistics.last_error)}"
        else:
            cause = statistics.last_error or "no error, the server is just slow"
            text = (
                f"{statistics.name}: not synced after {waited_seconds:g} s, now {statistics.phase}: {cause}"
            )
        super().__init__(text)
        self.statistics = statistics
