"""The watch machine: transitions, without I/O."""

from typing import assert_never

import pytest
from msgspec.structs import replace

from aiokube.runtime.watch_faults import Fault, FaultKind
from aiokube.runtime.watch_machine import UnexpectedInputError, begin, step
from aiokube.runtime.watch_states import (
    Action,
    AskVersion,
    CheckingVersion,
    DropGathered,
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

RULES = WatchRules()
FRESH = WatchContext()
SEEN = WatchContext(seen="1000", synced=True)
SEEN_LIST = WatchContext(seen="1000", synced=True, watch_list=False)
LIFE = WatchSummary(seen="1000", at_seconds=10_000.0)
LIVED = WatchSummary(seen="1005", at_seconds=10_000.0, lived_seconds=30.0, progressed=True, heard=True)
HEALTHY = WatchSummary(seen="1000", at_seconds=10_000.0, lived_seconds=300.0, heard=True)
HASTY = WatchSummary(seen="1000", at_seconds=10_000.0, lived_seconds=0.5)


def failed(kind: FaultKind, summary: WatchSummary = LIFE, retry_after_seconds: float = 0.0) -> Failed:
    return Failed(Fault(kind, f"it is {kind.value}", retry_after_seconds), summary)


def go(state: State, *events: Input) -> Transition:
    """Step through events; waits in between end immediately."""
    transition = Transition(state, (), ReadWatch())
    for event in events:
        if isinstance(transition.state, Waiting):
            transition = step(transition.state, Waited(), RULES)
        transition = step(transition.state, event, RULES)
    return transition


def then(transition: Transition) -> Transition:
    """Expect a wait, and let it pass."""
    assert isinstance(transition.action, Wait), "there is no wait"
    return step(transition.state, Waited(), RULES)


def words(action: Action) -> str:
    match action:
        case ListPage():
            kind = "page" if action.continue_token else "list"
            paged = "" if action.limit else " whole"
            return f"{kind} {action.resource_version or 'newest'}{paged}"
        case OpenWatch():
            return f"{'stream' if action.initial_events else 'watch'} {action.resource_version or 'newest'}"
        case AskVersion():
            return "ask version"
        case ReadWatch():
            return "read"
        case Wait():
            if action.pace == "reconnect":
                return f"turn {action.at_least_seconds:g}"
            return f"wait {action.failures} {action.at_least_seconds:g}"
        case _:
            assert_never(action)


# ------------------------------------------------------------------------------------------ reading the state


def test_the_first_request_is_for_the_newest_state() -> None:
    assert words(begin(FRESH, RULES).action) == "stream newest"
    assert begin(replace(FRESH, watch_list=False), RULES).action == ListPage(None, None, 500)


def test_later_requests_are_for_a_state_not_older_than_the_last_one_seen() -> None:
    assert words(begin(SEEN, RULES).action) == "stream 1000"
    assert begin(SEEN_LIST, RULES).action == ListPage("1000", "NotOlderThan", 500)


def test_initial_events_are_stored_at_their_end_and_the_watch_continues() -> None:
    transition = go(begin(FRESH, RULES).state, WatchOpened())
    assert transition == Transition(Streaming(FRESH, "", opened=True), (), ReadWatch())
    transition = go(transition.state, InitialEventsEnded("1200"))
    assert transition.effects == (ReplaceStore("1200"), DropGathered())
    assert transition.action == ReadWatch()
    assert transition.state == Watching(replace(FRESH, seen="1200", synced=True), opened=True)


def test_a_list_is_stored_after_its_last_page_and_the_watch_starts_at_its_version() -> None:
    listing = begin(replace(FRESH, watch_list=False), RULES).state
    transition = go(listing, PageReceived("1200", "more"))
    assert transition.effects == ()
    assert transition.action == ListPage(None, None, 500, "more")
    transition = go(transition.state, PageReceived("1200", ""))
    assert transition.effects == (ReplaceStore("1200"), DropGathered())
    assert words(transition.action) == "watch 1200"


def test_a_list_without_a_resource_version_is_retried() -> None:
    transition = go(Listing(FRESH, ""), PageReceived("", ""))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "list newest"


# ----------------------------------------------------------------------- a server that cannot send initial events


def test_a_server_without_watch_list_support_is_listed_immediately_and_from_then_on() -> None:
    transition = go(Streaming(SEEN, "1000"), failed(FaultKind.REFUSED))
    assert words(transition.action) == "list 1000"
    assert isinstance(transition.effects[0], LogMessage)
    assert not transition.state.context.watch_list


def test_endless_initial_events_are_replaced_by_a_list_and_logged() -> None:
    """k9s#4186: a proxy that drops bookmarks kept the cache empty forever, without a log line."""
    transition = go(Streaming(FRESH, ""), WatchOpened(), InitialEventsStalled())
    assert words(transition.action) == "list newest"
    [say, drop] = transition.effects
    assert isinstance(say, LogMessage)
    assert say.level == "warning"
    assert "bookmarks" in say.text
    assert drop == DropGathered()
    assert not transition.state.context.watch_list


def test_interrupted_initial_events_are_retried_and_then_replaced_by_one_list() -> None:
    state: State = Streaming(FRESH, "")
    said = []
    for _ in range(3):
        transition = then(go(state, WatchOpened(), failed(FaultKind.UNREACHABLE)))
        state = transition.state
        said.append(words(transition.action))
    assert said == ["stream newest", "stream newest", "list newest"]
    assert state.context.watch_list
    assert go(state, PageReceived("5", "")).state.context.interruptions == 0


def test_a_stream_that_ends_before_its_initial_events_do_counts_as_interrupted() -> None:
    transition = go(Streaming(FRESH, ""), WatchOpened(), WatchEnded(LIFE))
    assert words(transition.action) == "turn 0"
    assert transition.state.context.interruptions == 1


def test_a_server_that_fails_on_initial_events_is_listed_instead() -> None:
    transition = go(Streaming(FRESH, ""), failed(FaultKind.BROKEN))
    assert words(then(transition).action) == "list newest"
    assert transition.state.context.watch_list


@pytest.mark.parametrize(
    ("kind", "waits"),
    [(FaultKind.BUSY, "turn 0"), (FaultKind.UNREACHABLE, "turn 0"), (FaultKind.DENIED, "turn 0")],
)
def test_a_stream_that_cannot_be_opened_is_retried(kind: FaultKind, waits: str) -> None:
    transition = go(Streaming(SEEN, "1000"), failed(kind))
    assert words(transition.action) == waits
    assert words(then(transition).action) == "stream 1000"
    assert then(transition).effects == (DropGathered(),)


# ------------------------------------------------------------------------------------------------ failing lists


@pytest.mark.parametrize(
    ("kind", "waits"),
    [(FaultKind.BUSY, "turn 0"), (FaultKind.UNREACHABLE, "turn 0"), (FaultKind.BROKEN, "wait 0 0")],
)
def test_a_failed_page_is_retried_and_earlier_pages_are_kept(kind: FaultKind, waits: str) -> None:
    transition = go(Listing(SEEN_LIST, "1000", "token"), failed(kind))
    assert words(transition.action) == waits
    again = then(transition)
    assert again.action == ListPage(None, None, 500, "token")
    assert again.effects == ()


def test_a_list_that_expires_between_pages_is_requested_without_paging_immediately() -> None:
    transition = go(Listing(SEEN_LIST, "1000", "token"), failed(FaultKind.EXPIRED))
    assert transition.action == ListPage(None, None, None)
    assert transition.effects == (DropGathered(),)


def test_a_list_with_an_expired_version_is_requested_at_the_newest_version() -> None:
    transition = go(Listing(SEEN_LIST, "1000"), failed(FaultKind.EXPIRED))
    assert words(then(transition).action) == "list newest"
    transition = go(Streaming(SEEN, "1000"), failed(FaultKind.EXPIRED))
    assert words(then(transition).action) == "stream newest"


def test_a_list_rejected_as_invalid_is_retried_without_options() -> None:
    transition = go(Listing(SEEN_LIST, "1000"), failed(FaultKind.REFUSED))
    assert transition.action == ListPage(None, None, None)
    transition = go(transition.state, failed(FaultKind.REFUSED))
    assert words(transition.action) == "wait 0 5"


def test_a_denied_list_is_retried_slowly() -> None:
    transition = go(Listing(replace(SEEN_LIST, denials=3), "1000", "token"), failed(FaultKind.DENIED))
    assert words(transition.action) == "wait 0 5"
    assert words(then(transition).action) == "list 1000"
    transition = go(Listing(replace(FRESH, watch_list=False), ""), failed(FaultKind.DENIED))
    assert words(transition.action) == "wait 0 5", "nothing was ever read: the right is missing"


def test_an_undecodable_list_does_not_prevent_the_watch() -> None:
    """One undecodable object makes every list of its resource undecodable."""
    transition = go(Listing(SEEN_LIST, "1000"), failed(FaultKind.UNREADABLE))
    assert words(then(transition).action) == "watch 1000"


def test_an_undecodable_first_list_is_retried() -> None:
    transition = go(Listing(replace(FRESH, watch_list=False), "", "token"), failed(FaultKind.UNREADABLE))
    assert words(then(transition).action) == "list newest"


# ------------------------------------------------------------------------------------------ never back in time


@pytest.mark.parametrize("context", [SEEN, SEEN_LIST], ids=["stream", "list"])
def test_a_server_that_stays_behind_is_eventually_assumed_to_have_lost_history(
    context: WatchContext,
) -> None:
    """k/k#107133: a server that responds "too large resource version" forever."""
    state: State = begin(context, RULES).state
    said = []
    for _ in range(4):
        transition = go(state, failed(FaultKind.TOO_LARGE, retry_after_seconds=1))
        said.append(words(transition.action))
        state = transition.state
    verb = "stream" if context.watch_list else "list"
    assert said == ["wait 0 1", "wait 1 1", "wait 2 1", f"{verb} newest"]


def test_a_server_that_returns_an_older_state_than_requested_is_behind() -> None:
    transition = go(Listing(SEEN_LIST, "1000"), PageReceived("999", ""))
    assert words(transition.action) == "wait 0 0"
    assert transition.effects == ()
    transition = go(Streaming(SEEN, "1000"), WatchOpened(), InitialEventsEnded("999"))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "stream 1000"


def test_lost_history_is_accepted_once_with_a_warning() -> None:
    for transition in (
        go(Listing(SEEN_LIST, ""), PageReceived("900", "")),
        go(Streaming(SEEN, ""), WatchOpened(), InitialEventsEnded("900")),
    ):
        say = transition.effects[0]
        assert isinstance(say, LogMessage)
        assert say.level == "error"
        assert "900" in say.text
        assert "1000" in say.text
        assert transition.effects[1] == ReplaceStore("900")
        assert transition.state.context.seen == "900"


def test_a_stored_state_resets_the_counts_of_refusals_and_interruptions() -> None:
    doubting = replace(SEEN, refusals=3, interruptions=2)
    transition = go(Streaming(doubting, "1000"), WatchOpened(), InitialEventsEnded("1000"))
    assert (transition.state.context.refusals, transition.state.context.interruptions) == (0, 0)
    assert not any(isinstance(effect, LogMessage) for effect in transition.effects)


# ----------------------------------------------------------------------------------------------------- watching


def test_a_watch_that_ends_is_resumed_immediately() -> None:
    transition = go(Watching(SEEN), WatchOpened(), WatchEnded(LIVED))
    assert words(transition.action) == "watch 1005"
    assert transition.effects == ()


def test_a_watch_that_ends_immediately_without_an_event_is_reopened_with_a_delay() -> None:
    transition = go(Watching(SEEN), WatchOpened(), WatchEnded(HASTY))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "watch 1000"
    again = go(then(transition).state, WatchOpened(), WatchEnded(HASTY))
    assert words(again.action) == "wait 1 0"


def test_a_healthy_watch_resets_the_failure_count() -> None:
    tired = replace(SEEN, failures=7, failed_watches=3, expiries=1)
    transition = go(Watching(tired), WatchOpened(), WatchEnded(HEALTHY))
    context = transition.state.context
    assert (context.failures, context.failed_watches, context.expiries) == (0, 0, 0)
    short = replace(HEALTHY, lived_seconds=19.0)
    assert go(Watching(tired), WatchOpened(), WatchEnded(short)).state.context.failures == 7
    mute = replace(HEALTHY, heard=False)
    assert go(Watching(tired), WatchOpened(), WatchEnded(mute)).state.context.failures == 7


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        (FaultKind.BUSY, "turn 9"),
        (FaultKind.UNREACHABLE, "turn 9"),
        (FaultKind.BROKEN, "wait 0 9"),
        (FaultKind.UNREADABLE, "wait 0 9"),
        (FaultKind.DENIED, "turn 9"),
        (FaultKind.REFUSED, "wait 0 9"),
    ],
)
def test_a_failed_watch_is_reopened_without_a_relist(kind: FaultKind, waits: str) -> None:
    transition = go(Watching(SEEN), failed(kind, LIVED, retry_after_seconds=9))
    assert words(transition.action) == waits
    assert words(then(transition).action) == "watch 1005"


def test_a_watch_rejected_as_invalid_is_retried_slowly() -> None:
    assert words(go(Watching(SEEN), failed(FaultKind.REFUSED)).action) == "wait 0 5"


def test_a_denied_watch_is_retried_quickly_at_first_and_then_slowly() -> None:
    """A kube-apiserver that has just started denies everything until it has loaded its roles."""
    state: State = Watching(SEEN)
    said = []
    for _ in range(5):
        transition = go(state, failed(FaultKind.DENIED))
        said.append(words(transition.action))
        state = then(transition).state
    assert said == ["turn 0"] * 3 + ["wait 0 5", "wait 1 5"]
    transition = go(state, WatchOpened(), failed(FaultKind.UNREACHABLE, LIVED))
    assert transition.state.context.denials == 0


def test_throttling_never_causes_a_relist() -> None:
    state: State = Watching(SEEN)
    for _ in range(50):
        transition = then(go(state, failed(FaultKind.BUSY)))
        assert words(transition.action) == "watch 1000"
        state = transition.state


def test_an_unreachable_or_denying_server_never_causes_a_relist() -> None:
    for kind in (FaultKind.UNREACHABLE, FaultKind.DENIED):
        state: State = Watching(SEEN)
        for _ in range(50):
            transition = then(go(state, failed(kind)))
            assert words(transition.action) == "watch 1000"
            state = transition.state


def test_repeated_server_errors_of_a_watch_cause_a_relist() -> None:
    state: State = Watching(SEEN)
    said = []
    for _ in range(5):
        transition = then(go(state, failed(FaultKind.BROKEN)))
        said.append(words(transition.action))
        state = transition.state
    assert said == ["watch 1000"] * 4 + ["stream 1000"]


def test_an_event_before_each_expired_version_does_not_cause_a_hot_loop() -> None:
    """A watch that sent one event and then 410 was relisted 2,800 times a second."""
    state: State = Watching(SEEN)
    waits = []
    for number in range(1001, 1008):
        summary = WatchSummary(
            seen=str(number), at_seconds=1.0, lived_seconds=0.01, progressed=True, heard=True
        )
        transition = go(state, WatchOpened(), failed(FaultKind.EXPIRED, summary))
        if isinstance(transition.action, Wait):
            waits.append(words(transition.action))
            transition = then(transition)
        state = go(transition.state, WatchOpened(), InitialEventsEnded(str(number))).state
    assert waits == [f"wait {number} 0" for number in range(6)], "all except the first one"


def test_an_expired_version_after_a_watch_of_some_seconds_is_relisted_immediately() -> None:
    state: State = Watching(SEEN)
    for number in range(1001, 1008):
        summary = replace(LIVED, seen=str(number), lived_seconds=5.0)
        transition = go(state, WatchOpened(), failed(FaultKind.EXPIRED, summary))
        assert words(transition.action) == f"stream {number}"
        state = go(transition.state, WatchOpened(), InitialEventsEnded(str(number))).state


def test_a_watch_that_ends_within_a_second_is_reopened_with_a_delay_even_after_events() -> None:
    summary = replace(LIVED, lived_seconds=0.9)
    transition = go(Watching(SEEN), WatchOpened(), WatchEnded(summary))
    assert words(transition.action) == "turn 0"
    assert words(then(transition).action) == "watch 1005"


def test_a_list_with_a_repeated_token_is_endless_and_retried_without_paging() -> None:
    transition = go(Listing(SEEN_LIST, "1000"), PageReceived("1000", "again"), PageReceived("1000", "again"))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "list 1000 whole"


def test_a_list_with_pages_without_new_objects_is_considered_endless() -> None:
    """An endless continue token was followed 4,850 times a second."""
    state: State = Listing(SEEN_LIST, "1000")
    for number in range(9):
        transition = go(state, PageReceived("1000", f"token-{number}", is_empty=True))
        assert words(transition.action) == "page newest"
        state = transition.state
    ended = go(state, PageReceived("1000", "token-9", is_empty=True))
    assert words(ended.action) == "wait 0 0"
    good = go(state, PageReceived("1000", "token-9"), PageReceived("1000", "token-10", is_empty=True))
    assert words(good.action) == "page newest", "one that brings something new begins the count again"


def test_a_requested_relist_asks_for_the_newest_state() -> None:
    transition = go(Watching(SEEN_LIST), WatchOpened(), RelistWanted(LIFE))
    assert words(transition.action) == "list newest"
    transition = go(Watching(SEEN), WatchOpened(), RelistWanted(LIFE))
    assert words(transition.action) == "stream newest"


def test_an_expired_version_is_relisted_immediately() -> None:
    transition = go(Watching(SEEN), WatchOpened(), failed(FaultKind.EXPIRED, LIVED))
    assert words(transition.action) == "stream 1005"
    transition = go(Watching(SEEN_LIST), WatchOpened(), failed(FaultKind.EXPIRED, LIVED))
    assert words(transition.action) == "list 1005"


def test_a_version_expired_right_after_its_list_is_followed_by_a_delay_and_a_newest_list() -> None:
    """k/k#133810: "too old resource version" in a loop, relisting without a pause."""
    state = go(
        Watching(SEEN),
        failed(FaultKind.EXPIRED),
        WatchOpened(),
        InitialEventsEnded("1001"),
    ).state
    transition = go(state, failed(FaultKind.EXPIRED, replace(LIFE, seen="1001")))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "stream newest"


def test_a_too_large_resource_version_of_a_watch_causes_a_relist() -> None:
    transition = go(Watching(SEEN_LIST), failed(FaultKind.TOO_LARGE, retry_after_seconds=1))
    assert words(transition.action) == "wait 0 1"
    assert words(then(transition).action) == "list 1000"


def test_a_silent_watch_is_reopened() -> None:
    transition = go(Watching(SEEN), WatchOpened(), WatchTimedOut(HEALTHY))
    assert words(transition.action) == "turn 0"
    assert words(then(transition).action) == "watch 1000"


def test_repeatedly_silent_watches_cause_a_relist() -> None:
    """A server that lost history responds 200 to a version it has not reached, and then stays silent."""
    mute = WatchSummary(seen="1000", at_seconds=1.0, lived_seconds=300.0)
    transition = go(Watching(SEEN), WatchOpened(), WatchTimedOut(mute))
    assert words(then(transition).action) == "watch 1000"
    transition = go(transition.state, WatchOpened(), WatchTimedOut(mute))
    assert words(then(transition).action) == "stream 1000"


def test_a_server_that_stops_sending_bookmarks_is_relisted_after_two_watches() -> None:
    mute = WatchSummary(seen="1000", at_seconds=1.0, lived_seconds=30.0, mute=True)
    transition = go(Watching(SEEN), WatchOpened(), WatchEnded(mute))
    assert words(transition.action) == "watch 1000"
    transition = go(transition.state, WatchOpened(), WatchEnded(mute))
    assert words(then(transition).action) == "stream 1000"


def test_silent_watches_with_events_in_between_do_not_add_up() -> None:
    mute = WatchSummary(seen="1000", at_seconds=1.0, lived_seconds=300.0)
    transition = go(Watching(SEEN), WatchTimedOut(mute), WatchTimedOut(HEALTHY), WatchTimedOut(mute))
    assert words(then(transition).action) == "watch 1000"


def test_a_watch_that_fell_behind_causes_a_relist() -> None:
    transition = go(Watching(SEEN), WatchOpened(), FellBehind(HEALTHY))
    assert words(then(transition).action) == "stream 1000"


def test_an_inconsistent_store_is_relisted() -> None:
    transition = go(Watching(SEEN), WatchOpened(), StoreInconsistent(LIVED))
    assert words(transition.action) == "wait 0 0"
    assert words(then(transition).action) == "stream 1005"


# -------------------------------------------------------------------------------------- undecodable events


def test_an_undecodable_event_causes_an_immediate_relist() -> None:
    transition = go(Watching(SEEN), WatchOpened(), EventUnreadable(LIVED))
    assert words(transition.action) == "stream 1005"


def test_further_undecodable_events_are_skipped_until_the_next_relist_is_due() -> None:
    state = go(Watching(SEEN), WatchOpened(), EventUnreadable(LIVED)).state
    state = go(state, WatchOpened(), InitialEventsEnded("1010")).state
    later = replace(LIVED, at_seconds=LIVED.at_seconds + 59, seen="1011")
    for _ in range(20):
        transition = go(state, EventUnreadable(later))
        assert words(transition.action) == "read"
        state = transition.state
    assert words(go(state, WatchEnded(later)).action) == "watch 1011", "not yet"
    due = replace(later, at_seconds=LIVED.at_seconds + 60)
    assert words(go(state, WatchEnded(due)).action) == "stream 1011", "the owed repair is done"
    assert words(go(state, EventUnreadable(due)).action) == "stream 1011"


def test_an_undecodable_object_in_the_initial_events_also_causes_a_relist() -> None:
    state = go(
        Streaming(SEEN, "1000"), WatchOpened(), EventUnreadable(LIVED), InitialEventsEnded("1005")
    ).state
    assert words(go(state, WatchEnded(LIVED)).action) == "stream 1005"
    assert words(go(state, failed(FaultKind.UNREACHABLE, LIVED)).action) == "stream 1005"


def test_an_undecodable_list_keeps_the_repair_pending() -> None:
    state = go(Listing(SEEN_LIST, "1000"), failed(FaultKind.UNREADABLE)).state
    assert state.context.repair_owed
    state = go(Listing(SEEN_LIST, "1000"), PageReceived("1000", "")).state
    assert not state.context.repair_owed


def test_relists_for_undecodable_events_back_off_and_reset_after_a_quiet_period() -> None:
    context, at_seconds, waits = SEEN, 0.0, []
    for _ in range(8):
        summary = replace(LIVED, at_seconds=at_seconds)
        context = go(Watching(context, opened=True), EventUnreadable(summary)).state.context
        waits.append(context.repair_not_before - at_seconds)
        at_seconds = context.repair_not_before
    assert waits == [60, 120, 240, 480, 960, 1920, 1920, 1920]
    summary = replace(LIVED, at_seconds=at_seconds + 86_400)
    context = go(Watching(context, opened=True), EventUnreadable(summary)).state.context
    assert context.repair_not_before - summary.at_seconds == 60


# ------------------------------------------------------------------------- the version of a server after an outage


CHECKING_RULES = WatchRules(checks_version=True)


@pytest.mark.parametrize("kind", [FaultKind.UNREACHABLE, FaultKind.BUSY])
def test_the_server_version_is_checked_before_a_watch_continues_after_an_outage(kind: FaultKind) -> None:
    waiting = step(Watching(SEEN), failed(kind), CHECKING_RULES)
    assert words(waiting.action) == "turn 0"
    checking = step(waiting.state, Waited(), CHECKING_RULES)
    assert words(checking.action) == "ask version"
    assert words(step(checking.state, VersionReceived("1000"), CHECKING_RULES).action) == "watch 1000"


def test_a_server_that_lost_history_during_an_outage_is_listed_immediately() -> None:
    transition = step(CheckingVersion(SEEN), VersionReceived("900"), CHECKING_RULES)
    assert words(transition.action) == "stream newest"
    transition = step(CheckingVersion(SEEN_LIST), VersionReceived("900"), CHECKING_RULES)
    assert words(transition.action) == "list newest"


def test_the_server_version_is_checked_after_a_silent_watch() -> None:
    waiting = step(Watching(SEEN, opened=True), WatchTimedOut(LIVED), CHECKING_RULES)
    assert words(step(waiting.state, Waited(), CHECKING_RULES).action) == "ask version"


def test_the_version_check_is_retried_while_the_server_is_unreachable() -> None:
    waiting = step(CheckingVersion(SEEN), failed(FaultKind.UNREACHABLE), CHECKING_RULES)
    assert words(step(waiting.state, Waited(), CHECKING_RULES).action) == "ask version"


@pytest.mark.parametrize("kind", [FaultKind.DENIED, FaultKind.BROKEN, FaultKind.REFUSED, FaultKind.EXPIRED])
def test_a_failing_version_check_does_not_block_the_watch(kind: FaultKind) -> None:
    waiting = step(CheckingVersion(SEEN), failed(kind), CHECKING_RULES)
    assert words(step(waiting.state, Waited(), CHECKING_RULES).action) == "watch 1000"


def test_the_watch_continues_immediately_if_the_version_check_is_disabled() -> None:
    assert words(then(go(Watching(SEEN), failed(FaultKind.UNREACHABLE))).action) == "watch 1000"


# -------------------------------------------------------------------------------------------- whole sequences


def test_every_retry_increases_the_next_delay() -> None:
    state: State = Watching(SEEN)
    waits = []
    for _ in range(4):
        transition = go(state, failed(FaultKind.BROKEN))
        assert isinstance(transition.action, Wait)
        waits.append(transition.action.failures)
        state = transition.state
    assert waits == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize(
    "state",
    [
        Listing(FRESH, ""),
        Listing(SEEN_LIST, "1000"),
        Listing(SEEN_LIST, "1000", "token"),
        Streaming(FRESH, ""),
        Streaming(SEEN, "1000", opened=True),
        Watching(SEEN),
        Watching(SEEN_LIST, opened=True),
        CheckingVersion(SEEN),
    ],
    ids=repr,
)
def test_repeated_faults_never_cause_a_hot_loop(state: State, kind: FaultKind) -> None:
    hurried = 0
    transition = step(state, failed(kind), RULES)
    for _ in range(100):
        if isinstance(transition.action, Wait):
            hurried = 0
            transition = step(transition.state, Waited(), RULES)
        else:
            hurried += 1
            assert hurried <= 3
            transition = step(transition.state, failed(kind), RULES)
    context = transition.state.context
    assert context.failures + context.reconnects > 25


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (Listing(FRESH, ""), WatchOpened()),
        (Streaming(FRESH, ""), PageReceived("1", "")),
        (Watching(FRESH), InitialEventsStalled()),
        (Waiting(FRESH, Watching(FRESH)), WatchEnded(LIFE)),
        (Watching(FRESH), Waited()),
        (CheckingVersion(SEEN), PageReceived("1", "")),
    ],
)
def test_impossible_inputs_raise(state: State, event: Input) -> None:
    with pytest.raises(UnexpectedInputError, match="cannot happen"):
        step(state, event, RULES)
