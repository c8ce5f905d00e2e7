"""The watch machine: the next action of a reflector, as a pure function.

``step(state, input)`` returns the next state, effects and one action; the driver
(:mod:`aiokube.runtime.reflector`) does all I/O, timing and randomness. Its rules:

* The initial state comes from a watch's initial events if the server supports them, else from a paged list.
  Both request the newest version at first, and later no older one than is stored: never back in time.
* A watch resumes where the last one ended. Only a few causes require a relist: the version has expired, the
  server lost it, watches keep failing or staying silent, an event could not be decoded, or the store is
  inconsistent.
* A server that is unreachable or overloaded is retried every second, in turns with the client's other
  sources. Other failures are retried with a backoff that grows until a watch has been healthy. Retries never
  stop.
* No loop is without a wait: a watch that ends immediately without news is followed by a wait.
"""

from typing import TypeVar, assert_never

from msgspec.structs import replace

from aiokube.api.meta import version_number
from aiokube.runtime.watch_faults import Fault, FaultKind
from aiokube.runtime.watch_states import (
    Action,
    AskVersion,
    CheckingVersion,
    DropGathered,
    Effect,
    EventUnreadable,
    Failed,
    FellBehind,
    InitialEventsEnded,
    InitialEventsStalled,
    Input,
    Listing,
    ListPage,
    LogMessage,
    OpenWatch,
    PageReceived,
    ReadWatch,
    RelistWanted,
    ReplaceStore,
    State,
    StoreInconsistent,
    Streaming,
    Transition,
    VersionReceived,
    Wait,
    Waited,
    Waiting,
    WatchContext,
    WatchEnded,
    Watching,
    WatchOpened,
    WatchRules,
    WatchSummary,
    WatchTimedOut,
)

NOT_OLDER_THAN = "NotOlderThan"

_MAX_REPAIR_DOUBLINGS = 5

StreamOrWatch = TypeVar("StreamOrWatch", Streaming, Watching)


class UnexpectedInputError(Exception):
    """The driver passed an event that cannot happen in the machine's state."""

    def __init__(self, state: State, event: Input) -> None:
        super().__init__(f"{type(event).__name__} cannot happen while {type(state).__name__}")


def begin(context: WatchContext, rules: WatchRules) -> Transition:
    """Return the first transition: read the state, no older than ``context.seen``."""
    return _take_state(context, context.seen, rules)


def step(state: State, event: Input, rules: WatchRules) -> Transition:
    """Return the next transition. Raises :class:`UnexpectedInputError` for an impossible event."""
    match state:
        case Listing():
            return _while_listing(state, event, rules)
        case Streaming():
            return _while_streaming(state, event, rules)
        case Watching():
            return _while_watching(state, event, rules)
        case CheckingVersion():
            return _while_checking_version(state, event, rules)
        case Waiting():
            if isinstance(event, Waited):
                return _enter(state.then, rules)
            raise UnexpectedInputError(state, event)
        case _:
            assert_never(state)


# --------------------------------------------------------------------------------------------------- listing


def _while_listing(state: Listing, event: Input, rules: WatchRules) -> Transition:
    match event:
        case PageReceived():
            return _page_received(state, event, rules)
        case Failed():
            return _list_failed(state, event.fault, rules)
        case _:
            raise UnexpectedInputError(state, event)


def _page_received(state: Listing, page: PageReceived, rules: WatchRules) -> Transition:
    if not page.resource_version:
        return _again(
            state.context, _restarted(state), Fault(FaultKind.BROKEN, "the list has no resourceVersion")
        )
    if state.resource_version and _is_older(page.resource_version, state.context.seen):
        return _not_there_yet(state, _stale(page.resource_version, state.context.seen), rules)
    if page.continue_token:
        empty_pages = state.empty_pages + 1 if page.is_empty else 0
        if page.continue_token == state.continue_token or empty_pages >= rules.empty_pages:
            fault = Fault(FaultKind.BROKEN, "the list does not end: its pages contain no new objects")
            return _again(state.context, Listing(state.context, state.resource_version, paged=False), fault)
        return _enter(replace(state, continue_token=page.continue_token, empty_pages=empty_pages), rules)
    context, effects = _accept(state.context, page.resource_version)
    watching = Watching(context)
    return Transition(watching, effects, _action_of(watching, rules))


def _list_failed(state: Listing, fault: Fault, rules: WatchRules) -> Transition:
    context = state.context
    match fault.kind:
        case FaultKind.EXPIRED if state.continue_token:
            # The server offers a token to continue at a newer version. A list of two versions is not a
            # snapshot, and paging could fail in the same way again: read it in one response.
            return _enter(Listing(context, "", paged=False), rules)
        case FaultKind.EXPIRED:
            return _again(context, Listing(context, "", paged=state.paged), fault)
        case FaultKind.TOO_LARGE:
            return _not_there_yet(state, fault, rules)
        case FaultKind.REFUSED if state.resource_version:
            return _enter(Listing(context, "", paged=False), rules)
        case FaultKind.UNREADABLE if context.synced:
            return _again(replace(context, repair_owed=True), Watching(context), fault)
        case FaultKind.UNREADABLE:
            return _again(context, _restarted(state), fault)
        case FaultKind.DENIED:
            return _denied(context, _restarted(state), fault, rules)
        case FaultKind.REFUSED:
            return _again(context, _restarted(state), fault, rules.slow_retry_seconds)
        case FaultKind.BUSY | FaultKind.UNREACHABLE:
            return _reconnect(context, state, fault)  # the same page: the items so far stay
        case FaultKind.BROKEN:
            return _again(context, state, fault)
        case _:
            assert_never(fault.kind)


def _restarted(state: Listing) -> Listing:
    return replace(state, continue_token="", empty_pages=0)


# ------------------------------------------------------------------------------------------------- streaming


def _while_streaming(state: Streaming, event: Input, rules: WatchRules) -> Transition:
    match event:
        case WatchOpened():
            return Transition(replace(state, opened=True), (), ReadWatch())
        case InitialEventsEnded():
            if state.resource_version and _is_older(event.resource_version, state.context.seen):
                return _not_there_yet(state, _stale(event.resource_version, state.context.seen), rules)
            context, effects = _accept(state.context, event.resource_version)
            return Transition(Watching(context, opened=True), effects, ReadWatch())
        case EventUnreadable():
            return Transition(_owing_repair(state), (), ReadWatch())
        case InitialEventsStalled():
            return _list_instead(
                state.context,
                state.resource_version,
                rules,
                LogMessage(
                    "warning",
                    "the initial events of the watch did not end: a proxy between here and the server drops "
                    "bookmarks, so the state is listed from now on",
                ),
            )
        case WatchEnded():
            fault = Fault(FaultKind.UNREACHABLE, "the watch ended within its initial events")
            return _stream_failed(state, fault, rules)
        case Failed():
            return _stream_failed(state, event.fault, rules)
        case _:
            raise UnexpectedInputError(state, event)


def _stream_failed(state: Streaming, fault: Fault, rules: WatchRules) -> Transition:
    context = state.context
    again = replace(state, opened=False)
    match fault.kind:
        case FaultKind.REFUSED:
            return _list_instead(
                context,
                state.resource_version,
                rules,
                LogMessage(
                    "info", f"the server sends no initial events, so the state is listed: {fault.text}"
                ),
            )
        case FaultKind.EXPIRED:
            return _again(context, Streaming(context, ""), fault)
        case FaultKind.TOO_LARGE:
            return _not_there_yet(again, fault, rules)
        case FaultKind.DENIED:
            return _denied(context, again, fault, rules)
        case FaultKind.BUSY:
            return _reconnect(context, again, fault)
        case FaultKind.UNREACHABLE if not state.opened:
            return _reconnect(context, again, fault)
        case FaultKind.UNREACHABLE | FaultKind.BROKEN | FaultKind.UNREADABLE:
            # A server that can list may still be unable to stream, or a proxy limits the duration: list this
            # time.
            context = replace(context, interruptions=context.interruptions + 1)
            retry = _reconnect if fault.kind is FaultKind.UNREACHABLE else _again
            if state.opened and context.interruptions < rules.interruptions:
                return retry(context, again, fault)
            return retry(context, Listing(context, state.resource_version), fault)
        case _:
            assert_never(fault.kind)


def _list_instead(
    context: WatchContext, resource_version: str, rules: WatchRules, say: LogMessage
) -> Transition:
    transition = _take_state(replace(context, watch_list=False), resource_version, rules)
    return replace(transition, effects=(say, *transition.effects))


# -------------------------------------------------------------------------------------------------- watching


def _while_watching(state: Watching, event: Input, rules: WatchRules) -> Transition:
    match event:
        case WatchOpened():
            return Transition(replace(state, opened=True), (), ReadWatch())
        case WatchEnded():
            return _watch_ended(_learn(state.context, event.summary, rules), event.summary, rules)
        case Failed():
            return _watch_failed(_learn(state.context, event.summary, rules), event, rules)
        case WatchTimedOut():
            context = _learn(state.context, event.summary, rules)
            context = replace(context, silences=context.silences + 1 if not event.summary.heard else 0)
            fault = Fault(FaultKind.UNREACHABLE, "the watch is silent")
            if context.silences >= rules.silences:
                return _relist(context, rules, fault)
            return _reconnect(context, _after_absence(context, rules), fault)
        case RelistWanted():
            return _take_state(_learn(state.context, event.summary, rules), "", rules)
        case FellBehind():
            context = _learn(state.context, event.summary, rules)
            fault = Fault(FaultKind.TOO_LARGE, f"the server is behind version {context.seen}")
            return _relist(context, rules, fault)
        case StoreInconsistent():
            context = _learn(state.context, event.summary, rules)
            return _relist(context, rules, Fault(FaultKind.BROKEN, "the watch omitted a known change"))
        case EventUnreadable():
            return _event_unreadable(state, event.summary, rules)
        case _:
            raise UnexpectedInputError(state, event)


def _watch_ended(context: WatchContext, summary: WatchSummary, rules: WatchRules) -> Transition:
    if context.repair_owed and summary.at_seconds >= context.repair_not_before:
        return _repair(context, summary.at_seconds, rules)
    if summary.mute:
        context = replace(context, silences=context.silences + 1)
        if context.silences >= rules.silences:
            return _relist(context, rules, Fault(FaultKind.BROKEN, "the watch no longer sends bookmarks"))
    if summary.lived_seconds >= rules.min_watch_seconds:
        return _enter(Watching(context), rules)
    if summary.progressed:
        return _reconnect(context, Watching(context), Fault(FaultKind.BROKEN, "the watch ended immediately"))
    fault = Fault(FaultKind.BROKEN, "the watch ended immediately without an event")
    return _again(context, Watching(context), fault)


def _watch_failed(context: WatchContext, failed: Failed, rules: WatchRules) -> Transition:
    fault = failed.fault
    if context.repair_owed and failed.summary.at_seconds >= context.repair_not_before:
        return _repair(context, failed.summary.at_seconds, rules)
    match fault.kind:
        case FaultKind.EXPIRED:
            context = replace(context, expiries=context.expiries + 1)
            if context.expiries > 1:  # the new list has expired too: wait, and request the newest
                return _relist(context, rules, fault, newest=True)
            return _take_state(context, context.seen, rules)
        case FaultKind.TOO_LARGE:
            return _relist(context, rules, fault)  # the list shows whether the server just lags
        case FaultKind.BUSY | FaultKind.UNREACHABLE:
            return _reconnect(context, _after_absence(context, rules), fault)
        case FaultKind.DENIED:
            return _denied(context, Watching(context), fault, rules)
        case FaultKind.BROKEN | FaultKind.UNREADABLE | FaultKind.REFUSED:
            context = replace(context, failed_watches=context.failed_watches + 1)
            at_least_seconds = rules.slow_retry_seconds if fault.kind is FaultKind.REFUSED else 0.0
            if context.failed_watches >= rules.failed_watches:
                return _relist(context, rules, fault)
            return _again(context, Watching(context), fault, at_least_seconds)
        case _:
            assert_never(fault.kind)


def _after_absence(context: WatchContext, rules: WatchRules) -> Watching | CheckingVersion:
    """Return what to do first when a server that was away can be reached again."""
    return CheckingVersion(context) if rules.checks_version else Watching(context)


def _while_checking_version(state: CheckingVersion, event: Input, rules: WatchRules) -> Transition:
    context = state.context
    match event:
        case VersionReceived() if _is_older(event.resource_version, context.seen):
            return _take_state(context, "", rules)
        case VersionReceived():
            return _enter(Watching(context), rules)
        case Failed() if event.fault.kind in (FaultKind.BUSY, FaultKind.UNREACHABLE):
            return _reconnect(context, state, event.fault)
        case Failed() if event.fault.kind is FaultKind.DENIED:
            return _denied(context, Watching(context), event.fault, rules)
        case Failed():
            return _again(context, Watching(context), event.fault)
        case _:
            raise UnexpectedInputError(state, event)


def _event_unreadable(state: Watching, summary: WatchSummary, rules: WatchRules) -> Transition:
    context = state.context
    if summary.at_seconds >= context.repair_not_before:
        return _repair(_learn(context, summary, rules), summary.at_seconds, rules)
    # One undecodable object must not keep all others from being watched.
    return Transition(_owing_repair(state), (), ReadWatch())


def _owing_repair(state: StreamOrWatch) -> StreamOrWatch:
    return replace(state, context=replace(state.context, repair_owed=True))


def _repair(context: WatchContext, at_seconds: float, rules: WatchRules) -> Transition:
    """Relist because of an undecodable event; with growing intervals while it stays undecodable."""
    quiet = at_seconds - context.repair_not_before > rules.repair_seconds * 2**_MAX_REPAIR_DOUBLINGS
    repairs = 0 if quiet else context.repairs
    wait_seconds = rules.repair_seconds * 2 ** min(repairs, _MAX_REPAIR_DOUBLINGS)
    context = replace(
        context, repairs=repairs + 1, repair_not_before=at_seconds + wait_seconds, repair_owed=False
    )
    return _take_state(context, context.seen, rules)


def _learn(context: WatchContext, summary: WatchSummary, rules: WatchRules) -> WatchContext:
    """Update the context from a watch that has ended."""
    context = replace(context, seen=summary.seen)
    if summary.heard:
        context = replace(context, silences=0, denials=0)
    if summary.progressed:
        context = replace(context, failed_watches=0)
        # One event before the next "expired" is no sign of health: consecutive relists must back off.
        if summary.lived_seconds >= rules.settled_seconds:
            context = replace(context, expiries=0)
    if summary.lived_seconds >= rules.healthy_seconds and summary.heard:
        context = replace(context, failures=0, reconnects=0, expiries=0, failed_watches=0)
    return context


# ---------------------------------------------------------------------------------------------------- common


def _take_state(context: WatchContext, resource_version: str, rules: WatchRules) -> Transition:
    if context.watch_list:
        return _enter(Streaming(context, resource_version), rules)
    return _enter(Listing(context, resource_version), rules)


def _relist(context: WatchContext, rules: WatchRules, fault: Fault, *, newest: bool = False) -> Transition:
    context = replace(context, failed_watches=0, silences=0)
    version = "" if newest else context.seen
    then: Listing | Streaming = (
        Streaming(context, version) if context.watch_list else Listing(context, version)
    )
    return _again(context, then, fault)


def _not_there_yet(state: Listing | Streaming, fault: Fault, rules: WatchRules) -> Transition:
    """Wait for a server that is behind our version: a lagging replica will catch up."""
    context = replace(state.context, refusals=state.context.refusals + 1)
    if context.refusals < rules.refusals or not state.resource_version:
        state = (
            replace(state, context=context, opened=False)
            if isinstance(state, Streaming)
            else _restarted(state)
        )
        return _again(context, state, fault)
    return _take_state(context, "", rules)


def _accept(context: WatchContext, resource_version: str) -> tuple[WatchContext, tuple[Effect, ...]]:
    """Accept the received objects as the state."""
    effects: tuple[Effect, ...] = (ReplaceStore(resource_version), DropGathered())
    if _is_older(resource_version, context.seen):
        text = (
            f"the server has lost history: it is at version {resource_version}, but version {context.seen} was seen "
            "before; its state replaces the stored one"
        )
        effects = (LogMessage("error", text), *effects)
    return replace(
        context, seen=resource_version, synced=True, refusals=0, interruptions=0, denials=0
    ), effects


def _again(
    context: WatchContext,
    then: Listing | Streaming | Watching | CheckingVersion,
    fault: Fault,
    at_least_seconds: float = 0.0,
) -> Transition:
    counted = replace(context, failures=context.failures + 1)
    wait = Wait(context.failures, max(at_least_seconds, fault.retry_after_seconds), fault.text, "backoff")
    return Transition(Waiting(counted, replace(then, context=counted)), (), wait)


def _denied(
    context: WatchContext, then: Listing | Streaming | Watching, fault: Fault, rules: WatchRules
) -> Transition:
    context = replace(context, denials=context.denials + 1)
    if context.synced and context.denials <= rules.quick_denials:
        return _reconnect(context, then, fault)
    return _again(context, then, fault, rules.slow_retry_seconds)


def _reconnect(
    context: WatchContext, then: Listing | Streaming | Watching | CheckingVersion, fault: Fault
) -> Transition:
    """Retry in turn with the other sources of the server."""
    counted = replace(context, reconnects=context.reconnects + 1)
    wait = Wait(context.reconnects, fault.retry_after_seconds, fault.text, "reconnect")
    return Transition(Waiting(counted, replace(then, context=counted)), (), wait)


def _enter(state: Listing | Streaming | Watching | CheckingVersion, rules: WatchRules) -> Transition:
    begins = isinstance(state, Streaming) or (isinstance(state, Listing) and not state.continue_token)
    if not begins:
        return Transition(state, (), _action_of(state, rules))
    state = replace(state, context=replace(state.context, repair_owed=False))  # this relist is the repair
    return Transition(state, (DropGathered(),), _action_of(state, rules))


def _action_of(state: Listing | Streaming | Watching | CheckingVersion, rules: WatchRules) -> Action:
    match state:
        case Listing():
            first = not state.continue_token
            version = state.resource_version if first else ""
            return ListPage(
                resource_version=version or None,
                resource_version_match=NOT_OLDER_THAN if version else None,
                limit=rules.page_size if state.paged else None,
                continue_token=state.continue_token,
            )
        case Streaming():
            return OpenWatch(state.resource_version or None, initial_events=True)
        case Watching():
            return OpenWatch(state.context.seen, initial_events=False)
        case CheckingVersion():
            return AskVersion()
        case _:
            assert_never(state)


def _is_older(resource_version: str, than: str) -> bool:
    return 0 < version_number(resource_version) < version_number(than)


def _stale(resource_version: str, seen: str) -> Fault:
    text = f"the server returned version {resource_version}, older than the requested {seen}"
    return Fault(FaultKind.TOO_LARGE, text)
