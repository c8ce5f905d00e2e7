"""How a reflector can be set, what it says of itself, and the error that carries the cause."""

from typing import Literal, TypeAlias

import msgspec

from aiokube.backoff import ExponentialBackoff
from aiokube.runtime.permissions import with_hint
from aiokube.runtime.watch_states import WatchRules

Phase: TypeAlias = Literal["stopped", "listing", "streaming", "connecting", "watching", "waiting"]


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to watch. The defaults are for kube-apiserver, and for not wearying it."""

    initial: Literal["watch-list", "list"] = "watch-list"
    """Where the state comes from: the initial events of a watch (on by default from kube-apiserver 1.34 on; where they
    do not work it is listed, without being told), or a list: in one answer where the source
    :class:`~aiokube.runtime.source.StreamsLists`, in pages elsewhere and after one was cut off. A list takes a server
    half the time and CPU; initial events are kinder to the memory of servers before 1.33."""
    backoff: ExponentialBackoff = ExponentialBackoff(base_seconds=0.8, cap_seconds=30.0, jitter=0.5)
    """Between tries after failures that are not the network's: 0.8 to 30 s as in client-go. How soon a server that
    cannot be reached is asked again is the business of :mod:`aiokube.runtime.reachability`."""
    shortest_watch_seconds: int = 28
    longest_watch_seconds: int = 34
    """A watch is asked to end after a random time in between. The next one uses the same connection and costs the
    server one cheap request. A server sends a bookmark before the end, so a quiet watch proves twice a minute that it
    is alive, where bookmarks otherwise come once a minute."""
    silence_seconds: float = 42.0
    """A watch that says nothing for so long, not even that it has ended, is dead."""
    paced_silence_seconds: float = 15.0
    """The same where the server sends bookmarks three times as often."""
    stall_seconds: float = 30.0
    """Initial events that brought no further object for so long will not end any more."""
    longest_stream_seconds: float = 300.0
    """Nor will those that have not ended after so long."""
    request_seconds: float = 90.0
    """How long one answer may take: a page of a list, or the 200 of a watch with initial events."""
    open_seconds: float = 20.0
    """How long the 200 of any other watch may take."""
    rules: WatchRules = WatchRules()


class ReflectorStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How a reflector is, at one moment. Times are of the clock's monotonic kind; counters run from its making."""

    name: str
    phase: Phase
    since: float
    """When the phase began."""
    last_contact: float | None
    """When the server last said anything good: the last proof of life. None where it never did."""
    resource_version: str
    synced: bool
    failures: int
    """In a row, since the last healthy watch."""
    last_error: str
    """What went wrong last, ``""`` where nothing did. It stays when all is well again; compare the times."""
    last_error_at: float | None
    errors: int
    lists: int
    """States taken, by list or by initial events: all but the first one are relists, done or tried."""
    watches: int
    """Watches that the server answered with 200."""
    undecodable_events: int
    followed: bool = True
    """Whether a watch was ever answered: what was only listed goes stale."""
    following_since: float | None = None
    """Since when changes have been followed without a gap; None while no watch is open. A watch that ended in good
    order and was opened again at once leaves no gap."""


class NotSyncedError(Exception):
    """A store was not complete in time; the text says why, ``statistics`` says the rest.

    ``waited_seconds`` None: it did not wait, because retrying cannot help.
    """

    def __init__(self, statistics: ReflectorStatistics, waited_seconds: float | None) -> None:
        if waited_seconds is None:
            text = f"{statistics.name}: cannot be read: {with_hint(statistics.last_error)}"
        else:
            cause = statistics.last_error or "nothing went wrong, the server is only slow"
            text = (
                f"{statistics.name}: not complete after {waited_seconds:g} s, now {statistics.phase}: {cause}"
            )
        super().__init__(text)
        self.statistics = statistics
