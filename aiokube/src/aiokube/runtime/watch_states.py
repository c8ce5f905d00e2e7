"""The types of the watch machine: states, inputs, effects and actions.

All are frozen values without behaviour. Times are seconds of the driver's monotonic clock.
"""

from typing import Literal, TypeAlias

import msgspec

from aiokube.runtime.watch_faults import Fault


class WatchRules(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds of the watch machine."""

    page_size: int = 500
    healthy_seconds: float = 20.0
    """The lifetime after which a watch ends a series of failures."""
    settled_seconds: float = 5.0
    """The lifetime after which the failure of a watch is unrelated to the list before it."""
    min_watch_seconds: float = 1.0
    """A shorter watch is not reopened immediately; without news it counts as failed."""
    slow_retry_seconds: float = 5.0
    """The minimum wait after problems that people must fix: permissions, credentials, a missing resource."""
    refusals: int = 4
    """Consecutive reports that the server has not reached our version, before it counts as lost."""
    interruptions: int = 3
    """Interrupted initial events before the state is listed instead."""
    failed_watches: int = 5
    """Consecutive watches that fail on the server's side without news, before a relist."""
    silences: int = 2
    """Consecutive watches without any data, before a relist."""
    repair_seconds: float = 60.0
    """The minimum between relists for undecodable events; doubled each time, up to 32 times."""
    quick_denials: int = 3
    """Consecutive denials of a synced resource before retries slow down: a server that has just started
    denies everything until it has loaded its roles."""
    checks_version: bool = False
    """Whether a server that was away is asked for its version, with a list of one object, before a watch continues.

    A server that lost history (restored from a backup) does not refuse a watch from a version in its future; without
    the check its bookmarks reveal it after several watches."""
    empty_pages: int = 10
    """Consecutive list pages without a new object before the list counts as endless."""


class WatchContext(msgspec.Struct, frozen=True, kw_only=True):
    """The data that a machine carries from state to state."""

    seen: str = ""
    """The newest stored version: older state is accepted only from a server that has lost history."""
    synced: bool = False
    watch_list: bool = True
    """Whether to read the state from initial events; permanently false after that has failed."""
    failures: int = 0
    """Failures since the last healthy watch; they determine the backoff."""
    reconnects: int = 0
    """Failures to reach the server since the last healthy watch; retried at a constant pace."""
    refusals: int = 0
    interruptions: int = 0
    expiries: int = 0
    """Consecutive watches that were immediately refused because their version had expired."""
    failed_watches: int = 0
    denials: int = 0
    silences: int = 0
    repairs: int = 0
    repair_not_before: float = float("-inf")
    repair_owed: bool = False


# ---------------------------------------------------------------------------------------------------- states


class Listing(msgspec.Struct, frozen=True):
    """A list is being read page by page; ``resource_version`` is ``""`` if the newest was requested."""

    context: WatchContext
    resource_version: str
    continue_token: str = ""
    paged: bool = True
    empty_pages: int = 0
    """Consecutive pages without a new object."""


class Streaming(msgspec.Struct, frozen=True):
    """A watch with initial events is being opened or read, and they have not ended yet."""

    context: WatchContext
    resource_version: str
    opened: bool = False


class Watching(msgspec.Struct, frozen=True):
    """A watch from ``context.seen`` is being opened or read."""

    context: WatchContext
    opened: bool = False


class CheckingVersion(msgspec.Struct, frozen=True):
    """A server that was away is being asked for its version; the watch continues if that is not behind ours."""

    context: WatchContext


class Waiting(msgspec.Struct, frozen=True):
    """A wait before ``then``."""

    context: WatchContext
    then: Listing | Streaming | Watching | CheckingVersion


State: TypeAlias = Listing | Streaming | Watching | CheckingVersion | Waiting


# ---------------------------------------------------------------------------------------------------- inputs


class WatchSummary(msgspec.Struct, frozen=True):
    """A watch in retrospect."""

    seen: str
    """The newest stored version."""
    at_seconds: float
    lived_seconds: float = 0.0
    """The time since the server's 200; 0 without one."""
    progressed: bool = False
    """Whether it reported a newer version."""
    heard: bool = False
    """Whether it reported anything."""
    mute: bool = False
    """Whether it reached its end without the bookmark that this server normally sends before it."""


class PageReceived(msgspec.Struct, frozen=True):
    """A page of the list was received."""

    resource_version: str
    continue_token: str
    is_empty: bool = False
    """Whether it had no object beyond those of earlier pages."""


class VersionReceived(msgspec.Struct, frozen=True):
    """The server's newest version is known; ``""`` if it does not say."""

    resource_version: str


class WatchOpened(msgspec.Struct, frozen=True):
    """The server responded with 200."""


class InitialEventsEnded(msgspec.Struct, frozen=True):
    """The bookmark that ends the initial events was received."""

    resource_version: str


class WatchEnded(msgspec.Struct, frozen=True):
    """The server ended the watch normally."""

    summary: WatchSummary


class Failed(msgspec.Struct, frozen=True):
    """A list or a watch failed."""

    fault: Fault
    summary: WatchSummary


class WatchTimedOut(msgspec.Struct, frozen=True):
    """No data arrived within the limit for a live connection."""

    summary: WatchSummary


class FellBehind(msgspec.Struct, frozen=True):
    """The server's bookmarks repeatedly have versions older than ours."""

    summary: WatchSummary


class StoreInconsistent(msgspec.Struct, frozen=True):
    """The watch contradicts our own writes: the store needs a relist."""

    summary: WatchSummary


class RelistWanted(msgspec.Struct, frozen=True):
    """A caller needs the current state, and the watch has had a gap."""

    summary: WatchSummary


class InitialEventsStalled(msgspec.Struct, frozen=True):
    """The initial events did not end in time: their final bookmark was probably lost on the way."""


class EventUnreadable(msgspec.Struct, frozen=True):
    """One event of the open watch could not be decoded; the watch continues."""

    summary: WatchSummary


class Waited(msgspec.Struct, frozen=True):
    """The wait has ended."""


Input: TypeAlias = (
    PageReceived
    | VersionReceived
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
    """Discard the objects received so far: a new list starts."""


class ReplaceStore(msgspec.Struct, frozen=True):
    """Replace the store's content with the received objects."""

    resource_version: str


class LogMessage(msgspec.Struct, frozen=True):
    """Log a message."""

    level: Literal["info", "warning", "error"]
    text: str


Effect: TypeAlias = DropGathered | ReplaceStore | LogMessage


class ListPage(msgspec.Struct, frozen=True):
    """Request a page, collect its items, and return :class:`PageReceived` or :class:`Failed`."""

    resource_version: str | None
    resource_version_match: str | None
    limit: int | None
    continue_token: str = ""


class AskVersion(msgspec.Struct, frozen=True):
    """Ask for the server's newest version and give :class:`VersionReceived` or :class:`Failed`."""


class OpenWatch(msgspec.Struct, frozen=True):
    """Open a watch and return :class:`WatchOpened` or :class:`Failed`."""

    resource_version: str | None
    initial_events: bool


class ReadWatch(msgspec.Struct, frozen=True):
    """Continue to read the open watch; any other action closes it."""


class Wait(msgspec.Struct, frozen=True):
    """Wait at least the given time, and return :class:`Waited`.

    A backoff grows with ``failures``. A reconnect is scheduled together with the other sources of the
    server, and ends early if one of them succeeds (:mod:`aiokube.runtime.reconnect`).
    """

    failures: int
    at_least_seconds: float = 0.0
    why: str = ""
    pace: Literal["backoff", "reconnect"] = "backoff"


Action: TypeAlias = ListPage | AskVersion | OpenWatch | ReadWatch | Wait


class Transition(msgspec.Struct, frozen=True):
    """The machine's new state, its immediate effects, and the action that follows them."""

    state: State
    effects: tuple[Effect, ...]
    action: Action
