"""Leader election on a Lease, as a pure state machine: events in, actions out.

The rules are client-go's (``tools/leaderelection``), so that both kinds of electors can compete for one
Lease:

* The holder writes its name into the lease and renews it every retry period. A candidate that has seen the
  lease unchanged for the duration it claims (``leaseDurationSeconds``) may take it over. The time of **our
  observation**, on our own clock, counts; the times in the lease are for people.
* Every write names the resource version that was read, so of two simultaneous writers one is refused.
* A lease without holder is free.

This machine is stricter: a holder leads until a **deadline** that counts from when its last successful
renewal request *was sent*, and never longer. It also stops as soon as it reads that another process holds
the lease. A term that has ended is never resumed: the machine then stays in its final state.
"""

from datetime import datetime
from typing import assert_never

import msgspec
from msgspec.structs import replace

from aiokube.api.coordination import Lease, LeaseSpec
from aiokube.api.times import format_micro_time

JITTER_FACTOR = 1.2
"""Candidates wait between one retry period and this multiple of it."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Our identity, and the times in seconds; see :func:`aiokube.runtime.leader_election.check`."""

    identity: str
    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class Moment(msgspec.Struct, frozen=True):
    """The time of a step, monotonic and wall-clock, and a random number from 0 to 1 for jitter."""

    now: float
    wall: datetime
    chance: float = 0.0


class Sighting(msgspec.Struct, frozen=True):
    """The lease as last read, and since when it has been unchanged."""

    spec: LeaseSpec
    since: float

    def free_at(self, rules: Rules) -> float:
        """Return when the lease may be taken over if it stays unchanged."""
        if self.spec.holder in ("", rules.identity):
            return self.since
        return self.since + (self.spec.lease_duration_seconds or rules.lease_seconds)


# ---------------------------------------------------------------------------------------------------- states


class Standby(msgspec.Struct, frozen=True, tag=True):
    """Not the leader; reads the lease at ``due``."""

    seen: Sighting | None
    due: float


class Looking(msgspec.Struct, frozen=True, tag=True):
    """Not the leader; the lease is being read."""

    seen: Sighting | None


class Claiming(msgspec.Struct, frozen=True, tag=True):
    """Not the leader yet; the lease is being written with our name."""

    seen: Sighting | None
    sent_at: float


class Leading(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; renews at ``due``."""

    lease: Lease
    until: float
    due: float


class Renewing(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; the lease is being renewed. ``looked`` if it was read just before."""

    lease: Lease
    until: float
    sent_at: float
    looked: bool = False


class Checking(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; a renewal failed, and the lease is being read."""

    lease: Lease
    until: float


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """No longer the leader; the lease is being read in order to release it."""


class Releasing(msgspec.Struct, frozen=True, tag=True):
    """No longer the leader; the lease is being released."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The final state. ``lost`` is the reason for losing the lease; ``""`` after a requested stop."""

    lost: str = ""


State = Standby | Looking | Claiming | Leading | Renewing | Checking | Leaving | Releasing | Ended

# ---------------------------------------------------------------------------------------------------- events


class Due(msgspec.Struct, frozen=True, tag=True):
    """The time of the last :class:`Wait` has come."""


class Found(msgspec.Struct, frozen=True, tag=True):
    """The lease was read."""

    lease: Lease


class Missing(msgspec.Struct, frozen=True, tag=True):
    """The lease does not exist."""


class Written(msgspec.Struct, frozen=True, tag=True):
    """Our write succeeded; this is the stored lease."""

    lease: Lease


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Our write was refused, because the lease has changed."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A request failed; a write may or may not have taken effect, or may still do so."""


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """A stop was requested. ``release`` if no guarded write is in progress."""

    release: bool


Event = Due | Found | Missing | Written | Refused | Failed | Stopping

# --------------------------------------------------------------------------------------------------- actions


class Wait(msgspec.Struct, frozen=True, tag=True):
    """Wait until then; :class:`Due` follows."""

    until: float


class Read(msgspec.Struct, frozen=True, tag=True):
    """Read the lease; :class:`Found`, :class:`Missing` or :class:`Failed` follows."""


class Create(msgspec.Struct, frozen=True, tag=True):
    """Create the lease; :class:`Written`, :class:`Refused` or :class:`Failed` follows."""

    spec: LeaseSpec


class Replace(msgspec.Struct, frozen=True, tag=True):
    """Update the lease at its version; :class:`Written`, :class:`Refused` or :class:`Failed` follows."""

    lease: Lease


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Do nothing more."""


Action = Wait | Read | Create | Replace | Finish


class Step(msgspec.Struct, frozen=True):
    """The result of a step.

    ``leads_until`` is the current deadline of the leader's right to write; None means that it has
    ended. ``slow`` if a renewal had to read the lease again.
    """

    state: State
    action: Action
    leads_until: float | None = None
    slow: bool = False


def begin() -> Step:
    """Return the first step: read the lease."""
    return Step(Looking(None), Read())


def step(state: State, event: Event, at: Moment, rules: Rules) -> Step:
    """Return the step that follows from an event.

    Any step at or after a leader's deadline ends its term. Raises ``ValueError`` for an event that cannot
    happen in the state.
    """
    match state:
        case Standby() | Looking() | Claiming():
            return _as_candidate(state, event, at, rules)
        case Leading() | Renewing() | Checking():
            if isinstance(event, Stopping):
                return Step(Leaving(), Read()) if event.release else Step(Ended(), Finish())
            if at.now >= state.until:
                return _lost(f"not renewed within {rules.renew_deadline_seconds:g} s")
            return _as_leader(state, event, at, rules)
        case Leaving() | Releasing():
            return _leave(state, event, at, rules)
        case Ended():
            return Step(state, Finish())
        case _:
            assert_never(state)


def holder(state: State) -> str:
    """Return the last known holder; ``""`` if the lease is free or unknown."""
    match state:
        case Standby() | Looking() | Claiming():
            return state.seen.spec.holder if state.seen is not None else ""
        case Leading() | Renewing() | Checking():
            return state.lease.spec.holder
        case Leaving() | Releasing() | Ended():
            return ""
        case _:
            assert_never(state)


# ------------------------------------------------------------------------------------------------- candidates


def _as_candidate(state: Standby | Looking | Claiming, event: Event, at: Moment, rules: Rules) -> Step:
    seen = state.seen
    match state, event:
        case (Standby() | Looking(), Stopping()):
            return Step(Ended(), Finish())
        case (
            Claiming(),
            Stopping(),
        ):  # the claim may have succeeded: release it, so that no candidate waits for its expiry
            return Step(Leaving(), Read())
        case Standby(), Due():
            return Step(Looking(seen), Read())
        case Looking(), Missing():
            return Step(Claiming(None, at.now), Create(_new(at, rules)))
        case Looking(), Found(lease):
            if seen is None or seen.spec != lease.spec:
                seen = Sighting(lease.spec, at.now)
            if at.now < seen.free_at(rules):
                return _pause(seen, at, rules)
            return Step(Claiming(seen, at.now), Replace(_claimed(lease, at, rules)))
        case Claiming(seen=_, sent_at=sent_at), Written(lease):
            until = sent_at + rules.renew_deadline_seconds
            if (
                at.now >= until
            ):  # the response is too old to rely on; the next read shows that we hold the lease
                return _pause(Sighting(lease.spec, at.now), at, rules)
            return Step(*_leading(lease, until, at, rules), leads_until=until)
        case (Looking() | Claiming(), Refused() | Failed()):
            return _pause(seen, at, rules)
        case _:
            raise _impossible(state, event)


def _pause(seen: Sighting | None, at: Moment, rules: Rules) -> Step:
    """Read again after a pause with jitter, or when the lease expires if that is sooner."""
    slack = (JITTER_FACTOR - 1.0) * rules.retry_seconds * at.chance
    due = at.now + rules.retry_seconds + slack
    if seen is not None and at.now < seen.free_at(rules):
        due = min(
            due, seen.free_at(rules) + slack
        )  # the same jitter, so that candidates do not all try simultaneously
    return Step(Standby(seen, due), Wait(due))


# ----------------------------------------------------------------------------------------------------- leader


def _as_leader(state: Leading | Renewing | Checking, event: Event, at: Moment, rules: Rules) -> Step:
    lease, until = state.lease, state.until
    match state, event:
        case Leading(), Due():
            return Step(Renewing(lease, until, at.now), Replace(_renewed(lease, at, rules)), until)
        case Renewing(sent_at=sent_at), Written(stored):
            until = sent_at + rules.renew_deadline_seconds
            return Step(*_leading(stored, until, at, rules), leads_until=until)
        case Renewing(looked=False), Refused() | Failed():
            return Step(Checking(lease, until), Read(), until)
        case Checking(), Found(there):
            if there.spec.holder != rules.identity:
                return _lost(f"held by {there.spec.holder or 'no one'} now")
            renewing = Renewing(there, until, at.now, looked=True)
            return Step(renewing, Replace(_renewed(there, at, rules)), until, slow=True)
        case Checking(), Missing():
            return Step(
                Renewing(lease, until, at.now, looked=True), Create(_new(at, rules)), until, slow=True
            )
        case (Checking() | Renewing(), Refused() | Failed()):
            return Step(*_leading(lease, until, at, rules), leads_until=until)
        case _:
            raise _impossible(state, event)


def _leading(lease: Lease, until: float, at: Moment, rules: Rules) -> tuple[Leading, Wait]:
    due = min(at.now + rules.retry_seconds, until)
    return Leading(lease, until, due), Wait(due)


def _lost(why: str) -> Step:
    return Step(Ended(why), Finish())


# ---------------------------------------------------------------------------------------------------- leaving


def _leave(state: Leaving | Releasing, event: Event, at: Moment, rules: Rules) -> Step:
    match state, event:
        case Leaving(), Found(lease) if lease.spec.holder == rules.identity:
            return Step(Releasing(), Replace(_released(lease, at)))
        case _:  # released, never ours, or left to expire: no action is left
            return Step(Ended(), Finish())


# ----------------------------------------------------------------------------------------------------- leases


def _new(at: Moment, rules: Rules) -> LeaseSpec:
    time = format_micro_time(at.wall)
    return LeaseSpec(
        holder_identity=rules.identity,
        lease_duration_seconds=int(rules.lease_seconds),
        acquire_time=time,
        renew_time=time,
        lease_transitions=0,
    )


def _claimed(lease: Lease, at: Moment, rules: Rules) -> Lease:
    """Write our name into the lease; if it is ours already (a response was lost), renew it."""
    if lease.spec.holder == rules.identity:
        return _renewed(lease, at, rules)
    transitions = (lease.spec.lease_transitions or 0) + 1
    fresh = _new(at, rules)
    kept = {"strategy": lease.spec.strategy, "preferred_holder": lease.spec.preferred_holder}
    return replace(lease, spec=replace(fresh, lease_transitions=transitions, **kept))


def _renewed(lease: Lease, at: Moment, rules: Rules) -> Lease:
    spec = replace(
        lease.spec, lease_duration_seconds=int(rules.lease_seconds), renew_time=format_micro_time(at.wall)
    )
    return replace(lease, spec=spec)


def _released(lease: Lease, at: Moment) -> Lease:
    """Remove the holder; the duration of a second is for clients that do not know an empty holder."""
    time = format_micro_time(at.wall)
    spec = replace(
        lease.spec, holder_identity="", lease_duration_seconds=1, acquire_time=time, renew_time=time
    )
    return replace(lease, spec=spec)


def _impossible(state: State, event: Event) -> ValueError:
    return ValueError(f"{type(event).__name__} cannot happen while {type(state).__name__}")
