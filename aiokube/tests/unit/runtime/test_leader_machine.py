"""Each rule of the election as one step: state, event, result."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from aiokube.api.coordination import LEASES, Lease, LeaseSpec
from aiokube.api.meta import ObjectMeta
from aiokube.runtime.leader_election_machine import (
    Action,
    Checking,
    Claiming,
    Create,
    Due,
    Ended,
    Event,
    Failed,
    Finish,
    Found,
    Leading,
    Leaving,
    Looking,
    Missing,
    Moment,
    Read,
    Refused,
    Releasing,
    Renewing,
    Replace,
    Rules,
    Sighting,
    Standby,
    State,
    Step,
    Stopping,
    Wait,
    Written,
    begin,
    holder,
    step,
)

WALL = datetime(2026, 1, 1, 12, 0, 0, 42, tzinfo=UTC)
TIME = "2026-01-01T12:00:00.000042Z"
EARLIER = "2026-01-01T11:00:00.000000Z"
RULES = Rules(identity="us", lease_seconds=15.0, renew_deadline_seconds=10.0, retry_seconds=2.0)


def at(now: float, chance: float = 0.0) -> Moment:
    return Moment(now, WALL, chance)


def lease(holder_identity: str | None = "them", version: str = "7", **spec: Any) -> Lease:
    record = LeaseSpec(
        holder_identity=holder_identity,
        lease_duration_seconds=15,
        acquire_time=EARLIER,
        renew_time=EARLIER,
        lease_transitions=3,
    )
    meta = ObjectMeta(
        name="endpointd", namespace="kube-system", uid="u", resource_version=version, labels={"a": "b"}
    )
    return Lease(metadata=meta, spec=replace(record, **spec))


OURS, THEIRS = lease("us"), lease("them")


def follows(state: State, event: Event, now: float, chance: float = 0.0) -> Step:
    return step(state, event, at(now, chance), RULES)


def written(action: Action) -> LeaseSpec:
    assert isinstance(action, Replace)
    return action.lease.spec


# ------------------------------------------------------------------------------------------- candidates


def test_the_elector_starts_by_reading_the_lease() -> None:
    assert begin() == Step(Looking(None), Read())


def test_a_missing_lease_is_created_with_our_identity() -> None:
    found = follows(Looking(None), Missing(), 5.0)
    record = LeaseSpec(
        holder_identity="us",
        lease_duration_seconds=15,
        acquire_time=TIME,
        renew_time=TIME,
        lease_transitions=0,
    )
    assert found == Step(Claiming(None, 5.0), Create(record))


def test_a_held_lease_is_left_alone_regardless_of_its_timestamps() -> None:
    """The renew time is an hour old; only the time of our observation counts."""
    found = follows(Looking(None), Found(THEIRS), 100.0)
    assert found == Step(Standby(Sighting(THEIRS.spec, 100.0), 102.0), Wait(102.0))
    assert holder(found.state) == "them"


def test_a_lease_unchanged_for_its_own_duration_is_claimed() -> None:
    seen = Sighting(THEIRS.spec, 100.0)
    assert isinstance(follows(Looking(seen), Found(THEIRS), 114.999).state, Standby)
    found = follows(Looking(seen), Found(THEIRS), 115.0)
    assert found.state == Claiming(seen, 115.0)
    assert written(found.action) == LeaseSpec(
        holder_identity="us",
        lease_duration_seconds=15,
        acquire_time=TIME,
        renew_time=TIME,
        lease_transitions=4,
    )


def test_a_claim_uses_the_observed_resource_version_and_keeps_other_fields() -> None:
    strange = lease("them", strategy="OldestEmulationVersion", preferred_holder="x")
    action = follows(Looking(Sighting(strange.spec, 0.0)), Found(strange), 20.0).action
    assert isinstance(action, Replace)
    assert action.lease.metadata == strange.metadata
    assert (action.lease.spec.strategy, action.lease.spec.preferred_holder) == ("OldestEmulationVersion", "x")


def test_a_changed_lease_restarts_the_observation_period() -> None:
    renewed = lease("them", "8", renew_time=TIME)
    found = follows(Looking(Sighting(THEIRS.spec, 100.0)), Found(renewed), 115.0)
    assert found.state == Standby(Sighting(renewed.spec, 115.0), 117.0)


def test_an_edit_without_renewal_does_not_extend_the_lease() -> None:
    labelled = replace(THEIRS, metadata=replace(THEIRS.metadata, resource_version="9", labels={"x": "y"}))
    found = follows(Looking(Sighting(THEIRS.spec, 100.0)), Found(labelled), 115.0)
    assert isinstance(found.state, Claiming)


def test_the_duration_in_the_lease_takes_precedence_over_ours() -> None:
    long = lease("them", lease_duration_seconds=60)
    assert isinstance(follows(Looking(Sighting(long.spec, 0.0)), Found(long), 59.0).state, Standby)
    assert isinstance(follows(Looking(Sighting(long.spec, 0.0)), Found(long), 60.0).state, Claiming)
    without = lease("them", lease_duration_seconds=None)
    assert isinstance(follows(Looking(Sighting(without.spec, 0.0)), Found(without), 14.0).state, Standby)


def test_a_lease_without_holder_is_claimed_immediately() -> None:
    for nobody in ("", None):
        free = lease(nobody, lease_duration_seconds=1)
        found = follows(Looking(None), Found(free), 5.0)
        assert written(found.action).holder == "us"
        assert written(found.action).lease_transitions == 4


def test_a_lease_that_we_already_hold_is_resumed_without_a_transition() -> None:
    """The response to our claim was lost."""
    spec = written(follows(Looking(None), Found(OURS), 5.0).action)
    assert (spec.lease_transitions, spec.acquire_time, spec.renew_time) == (3, EARLIER, TIME)


def test_candidates_reread_the_lease_after_the_retry_period_plus_up_to_a_fifth() -> None:
    for chance, due in ((0.0, 102.0), (1.0, 102.4)):
        assert follows(Looking(None), Failed(), 100.0, chance).action == Wait(due)
        assert follows(Claiming(None, 99.0), Refused(), 100.0, chance).action == Wait(due)


def test_a_candidate_wakes_at_lease_expiry_even_before_its_next_retry() -> None:
    seen = Sighting(THEIRS.spec, 100.0)
    assert follows(Looking(seen), Found(THEIRS), 114.5).action == Wait(115.0)
    assert follows(Looking(seen), Found(THEIRS), 114.5, 1.0).action == Wait(115.4)


def test_a_rejected_or_failed_claim_does_not_make_a_leader() -> None:
    for event in (Refused(), Failed()):
        found = follows(Claiming(None, 99.0), event, 100.0)
        assert isinstance(found.state, Standby)
        assert found.leads_until is None


# --------------------------------------------------------------------------------------------- leaders


def test_a_term_is_counted_from_the_time_the_request_was_sent() -> None:
    found = follows(Claiming(None, 100.0), Written(OURS), 104.0)
    assert found == Step(Leading(OURS, 110.0, 106.0), Wait(106.0), leads_until=110.0)
    later = lease("us", "8")
    found = follows(Renewing(OURS, 110.0, 106.0), Written(later), 109.0)
    assert found == Step(Leading(later, 116.0, 111.0), Wait(111.0), leads_until=116.0)


def test_a_response_after_its_deadline_does_not_make_a_leader() -> None:
    found = follows(Claiming(None, 100.0), Written(OURS), 110.0)
    assert isinstance(found.state, Standby)
    assert found.leads_until is None


def test_a_renewal_sends_the_resource_version_and_changes_only_the_renew_time() -> None:
    found = follows(Leading(OURS, 110.0, 102.0), Due(), 102.0)
    assert found.state == Renewing(OURS, 110.0, 102.0)
    assert found.action == Replace(replace(OURS, spec=replace(OURS.spec, renew_time=TIME)))
    assert found.leads_until == 110.0


@pytest.mark.parametrize("event", [Refused(), Failed()])
def test_a_failed_renewal_is_followed_by_an_immediate_read(event: Event) -> None:
    found = follows(Renewing(OURS, 110.0, 102.0), event, 103.0)
    assert found == Step(Checking(OURS, 110.0), Read(), leads_until=110.0)


def test_the_read_after_a_failed_renewal_renews_a_lease_that_is_still_ours() -> None:
    touched = lease("us", "12", lease_transitions=5)
    found = follows(Checking(OURS, 110.0), Found(touched), 104.0)
    assert found.state == Renewing(touched, 110.0, 104.0, looked=True)
    assert (written(found.action).lease_transitions, written(found.action).acquire_time) == (5, EARLIER)
    assert (found.leads_until, found.slow) == (110.0, True)


def test_a_deleted_lease_is_recreated() -> None:
    found = follows(Checking(OURS, 110.0), Missing(), 104.0)
    assert isinstance(found.action, Create)
    assert found.action.spec.holder == "us"
    assert found.leads_until == 110.0


@pytest.mark.parametrize("event", [Refused(), Failed()])
def test_a_second_failure_waits_for_the_retry_period_with_the_old_deadline(event: Event) -> None:
    found = follows(Renewing(OURS, 110.0, 104.0, looked=True), event, 105.0)
    assert found == Step(Leading(OURS, 110.0, 107.0), Wait(107.0), leads_until=110.0)
    found = follows(Checking(OURS, 110.0), Failed(), 109.0)
    assert found == Step(Leading(OURS, 110.0, 110.0), Wait(110.0), leads_until=110.0)


@pytest.mark.parametrize("held_by", ["them", ""])
def test_a_leader_that_observes_another_holder_ends_its_term_immediately(held_by: str) -> None:
    found = follows(Checking(OURS, 110.0), Found(lease(held_by)), 104.0)
    assert found == Step(Ended(f"held by {held_by or 'no one'} now"), Finish())


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (Leading(OURS, 110.0, 102.0), Due()),
        (Renewing(OURS, 110.0, 102.0), Written(OURS)),
        (Renewing(OURS, 110.0, 102.0), Failed()),
        (Checking(OURS, 110.0), Found(OURS)),
        (Checking(OURS, 110.0), Missing()),
    ],
)
def test_any_event_at_the_deadline_ends_the_term(state: State, event: Event) -> None:
    """The first event after a pause, for example. A successful renewal is too late as well."""
    assert follows(state, event, 110.0) == Step(Ended("not renewed within 10 s"), Finish())
    assert follows(state, event, 109.999).leads_until is not None


# --------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("state", [Standby(None, 3.0), Looking(None)])
def test_a_stopping_candidate_ends_without_a_release(state: State) -> None:
    assert follows(state, Stopping(release=True), 1.0) == Step(Ended(), Finish())


@pytest.mark.parametrize(
    "state",
    [Claiming(None, 1.0), Leading(OURS, 9.0, 3.0), Renewing(OURS, 9.0, 1.0), Checking(OURS, 9.0)],
)
def test_a_stopping_leader_stops_leading_before_it_releases_the_lease(state: State) -> None:
    found = follows(state, Stopping(release=True), 2.0)
    assert found == Step(Leaving(), Read(), leads_until=None)
    found = follows(found.state, Found(OURS), 2.5)
    assert found.state == Releasing()
    assert found.action == Replace(
        replace(
            OURS,
            spec=replace(
                OURS.spec,
                holder_identity="",
                lease_duration_seconds=1,
                acquire_time=TIME,
                renew_time=TIME,
            ),
        )
    )
    assert follows(found.state, Written(OURS), 3.0) == Step(Ended(), Finish())


def test_a_release_writes_an_empty_holder() -> None:
    body = follows(Leaving(), Found(OURS), 2.5).action
    assert isinstance(body, Replace)
    assert b'"holderIdentity":""' in msgspec.json.encode(body.lease)


def test_the_lease_is_left_to_expire_while_a_write_is_unconfirmed() -> None:
    assert follows(Leading(OURS, 9.0, 3.0), Stopping(release=False), 2.0) == Step(Ended(), Finish())


@pytest.mark.parametrize("event", [Found(THEIRS), Missing(), Failed(), Refused()])
def test_a_lease_of_another_holder_is_not_released(event: Event) -> None:
    assert follows(Leaving(), event, 2.0) == Step(Ended(), Finish())


@pytest.mark.parametrize("event", [Refused(), Failed()])
def test_a_release_is_attempted_once(event: Event) -> None:
    assert follows(Releasing(), event, 2.0) == Step(Ended(), Finish())


def test_inputs_after_the_end_are_ignored() -> None:
    assert follows(Ended("why"), Found(OURS), 2.0) == Step(Ended("why"), Finish())


def test_impossible_inputs_raise() -> None:
    with pytest.raises(ValueError, match="Written cannot happen while Looking"):
        follows(Looking(None), Written(OURS), 1.0)
    with pytest.raises(ValueError, match="Missing cannot happen while Leading"):
        follows(Leading(OURS, 9.0, 3.0), Missing(), 1.0)


# ------------------------------------------------------------------------------------------- the record


def test_a_lease_round_trips_unchanged() -> None:
    body = (
        b'{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"5"},'
        b'"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00.000001Z",'
        b'"renewTime":"2026-01-01T00:00:00.000002Z","leaseTransitions":2,"strategy":"S","preferredHolder":"P"},'
        b'"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}'
    )
    assert msgspec.json.encode(LEASES.decode(body)) == body
