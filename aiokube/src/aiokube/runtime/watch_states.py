"""The vocabulary of the watch machine: its states, what happens to it, and what it asks for.

All are frozen values without behaviour. Times are seconds of the driver's monotonic clock.
"""

from typing import Literal, TypeAlias

import msgspec

from aiokube.runtime.watch_faults import Fault


class WatchRules(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that decide."""

    page_size: int = 500
    healthy_seconds: float = 20.0
    """A watch that lived so long ends a series of failures."""
    settled_seconds: float = 5.0
    """A watch that lived so long did not fail because of the list before it."""
    min_watch_seconds: float = 1.0
    """A watch that ended sooner is not opened again at once; if it told nothing new, it counts as failed."""
    slow_retry_seconds: float = 5.0
    """The shortest wait after what only people can mend: rights, credentials, a missing resource."""
    refusals: int = 4
    """So often in a row the server may say that it has not come to our version, before it is believed to have lost it."""
    interruptions: int = 3
    """So often the initial events may be cut off before they are listed instead."""
    failed_watches: int = 5
    """So many watches in a row may fail on the server's side, telling nothing new, before it is listed again."""
    silences: int = 2
    """So many watches in a row may say nothing at all before it is listed again."""
    repair_seconds: float = 60.0
    """How long after a relist for an undecodable event the next one may come; doubled each time, up to 32 times."""
    quick_denials: int = 3
    """So often in a row a synced resource may be denied before it is asked for slowly: a server that has just started
    denies everything until it has read its roles."""
    empty_pages: int = 10
    """So many pages of a list in a row may bring no new object before the list is taken for endless."""


class WatchContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine carries from state to state."""

    seen: str = ""
    """The newest version that was stored: nothing older is ever accepted from a server that has not lost history."""
    synced: bool = False
    watch_list: bool = True
    """Whether to take the state from a watch's initial events; false for good once that has failed."""
    failures: int = 0
    """Since the last healthy watch; what the backoff grows with."""
    reconnects: int = 0
    """Failures to reach the server since the last healthy watch; their pace does not grow."""
    refusals: int = 0
    interruptions: int = 0
    expiries: int = 0
    """Watches in a row that were told at once that their version is too old."""
    failed_watches: int = 0
    denials: int = 0
    silences: int = 0
    repairs: int = 0
    repair_not_before: float = float("-inf")
    repair_owed: bool = False


# ---------------------------------------------------------------------------------------------------- states


class Listing(msgspec.Struct, frozen=True):
    """A list is being read, page by page; ``resource_version`` is ``""`` where the newest was asked for."""

    context: WatchContext
    resource_version: str
    continue_token: str = ""
    paged: bool = True
    empty_pages: int = 0
    """Pages in a row that brought no new object."""


class Streaming(msgspec.Struct, frozen=True):
    """A watch with initial events is being opened or read, and they have not ended yet."""

    context: WatchContext
    resource_version: str
    opened: bool = False


class Watching(msgspec.Struct, frozen=True):
    """A watch from ``context.seen`` on is being opened or read."""

    context: WatchContext
    opened: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """Time passes before ``then``."""

    context: WatchContext
    then: Listing | Streaming | Watching


State: TypeAlias = Listing | Streaming | Watching | Waiting


# ---------------------------------------------------------------------------------------------------- inputs


class WatchSummary(msgspec.Struct, frozen=True):
    """What a watch was, seen from its end."""

    seen: str
    """The newest version stored by now."""
    at_seconds: float
    lived_seconds: float = 0.0
    """Since the server's 200; 0 where there was none."""
    progressed: bool = False
    """Whether it told of a newer version."""
    heard: bool = False
    """Whether it told anything."""
    mute: bool = False
    """Whether it lived to its end without the bookmark that this server otherwise sends before it."""


class PageReceived(msgspec.Struct, frozen=True):
    """A page of the list is there."""

    resource_version: str
    continue_token: str
    is_empty: bool = False
    """Whether it brought no object that earlier pages had not."""


class WatchOpened(msgspec.Struct, frozen=True):
    """The server has answered 200."""


class InitialEventsEnded(msgspec.Struct, frozen=True):
    """The bookmark that closes the initial events has come."""

    resource_version: str


class WatchEnded(msgspec.Struct, frozen=True):
    """The server ended the watch in good order."""

    summary: WatchSummary


class Failed(msgspec.Struct, frozen=True):
    """A list or a watch failed."""

    fault: Fault
    summary: WatchSummary


class WatchTimedOut(msgspec.Struct, frozen=True):
    """Nothing came for longer than a living connection is silent."""

    summary: WatchSummary


class FellBehind(msgspec.Struct, frozen=True):
    """The server's bookmarks keep naming versions older than ours."""

    summary: WatchSummary


class StoreInconsistent(msgspec.Struct, frozen=True):
    """What the watch told, and did not tell, contradicts what we know: the store needs a relist."""

    summary: WatchSummary


class RelistWanted(msgspec.Struct, frozen=True):
    """Somebody needs the state as it is now, and the watch has not been followed without a gap."""

    summary: WatchSummary


class InitialEventsStalled(msgspec.Struct, frozen=True):
    """The initial events did not end in time: the bookmark that closes them must have been dropped on its way."""


class EventUnreadable(msgspec.Struct, frozen=True):
    """One event of the open watch could not be decoded; the rest goes on."""

    summary: WatchSummary


class Waited(msgspec.Struct, frozen=True):
    """The time has passed."""


Input: TypeAlias = (
    PageReceived
    | WatchOpened
    | InitialEventsEnded
    | WatchEnded
    | Failed
    | WatchTimedOut
    | FellBehind
    | StoreInconsistent
    | RelistWanted
    | InitialEventsStalled
    | EventUnreadable
    | Waited
)


# ------------------------------------------------------------------------------------- effects, then an action


class DropGathered(msgspec.Struct, frozen=True):
    """Forget the objects gathered so far: a list begins anew."""


class ReplaceStore(msgspec.Struct, frozen=True):
    """Store the gathered objects in the place of everything."""

    resource_version: str


class LogMessage(msgspec.Struct, frozen=True):
    """Tell people."""

    level: Literal["info", "warning", "error"]
    text: str


Effect: TypeAlias = DropGathered | ReplaceStore | LogMessage


class ListPage(msgspec.Struct, frozen=True):
    """Ask for a page, gather what it holds, and give :class:`PageReceived` or :class:`Failed`."""

    resource_version: str | None
    resource_version_match: str | None
    limit: int | None
    continue_token: str = ""


class OpenWatch(msgspec.Struct, frozen=True):
    """Open a watch and give :class:`WatchOpened`, or :class:`Failed`."""

    resource_version: str | None
    initial_events: bool


class ReadWatch(msgspec.Struct, frozen=True):
    """Read on the open watch; any other action closes it."""


class Wait(msgspec.Struct, frozen=True):
    """Let time pass, but no less than asked, and give :class:`Waited`.

    A backoff grows with ``failures``. A reconnect is paced together with the other sources of the server, and ends
    early once one of them is answered (:mod:`aiokube.runtime.reconnect`).
    """

    failures: int
    at_least_seconds: float = 0.0
    why: str = ""
    pace: Literal["backoff", "reconnect"] = "backoff"


Action: TypeAlias = ListPage | OpenWatch | ReadWatch | Wait


class Transition(msgspec.Struct, frozen=True):
    """Where the machine is now, what is to be done at once, and what is to be done then."""

    state: State
    effects: tuple[Effect, ...]
    action: Action
