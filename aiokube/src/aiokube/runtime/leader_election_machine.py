"""Leader election on a Lease, as pure steps: what happened in, what to do next out.

The rules are client-go's (``tools/leaderelection``), so that electors of both kinds can compete for one Lease:

* Whoever holds the lease says so in its record and renews it every retry period. A candidate that has watched the
  record stay the same for as long as it claims to last (``leaseDurationSeconds``) may write itself into it. It is
  **when we saw the record change**, on our own clock, that counts; the times in the record are for people.
* Every write names the resource version that was read, so that of two who try at once one is refused.
* A lease without holder is free at once.

What is stricter here: a holder is leader until a **deadline**, counted from when the request of its last successful
renewal *was sent*, and for no moment longer, whatever becomes of it meanwhile. And it stops as soon as it reads that
somebody else holds the lease. A term that has ended is not taken up again: the machine is then at its end.
"""

from datetime import datetime
from typing import assert_never

import msgspec
from msgspec.structs import replace

from aiokube.api.coordination import Lease, LeaseSpec
from aiokube.api.times import format_micro_time

JITTER_FACTOR = 1.2
"""Pauses of candidates are between the retry period and so many times of it."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are, and the times of the election in seconds. See :func:`aiokube.runtime.leader_election.check`."""

    identity: str
    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class Moment(msgspec.Struct, frozen=True):
    """When a step is taken: on the clock that decides, and on the wall for people; and what chance says (0 to 1)."""

    now: float
    wall: datetime
    chance: float = 0.0


class Sighting(msgspec.Struct, frozen=True):
    """The record as last read, and when it was first seen to be so."""

    spec: LeaseSpec
    since: float

    def free_at(self, rules: Rules) -> float:
        """Return from when on the lease may be taken, if its record stays as it is."""
        if self.spec.holder in ("", rules.identity):
            return self.since
        return self.since + (self.spec.lease_duration_seconds or rules.lease_seconds)


# ---------------------------------------------------------------------------------------------------- states


class Standby(msgspec.Struct, frozen=True, tag=True):
    """Not the leader; looks again when it is time."""

    seen: Sighting | None
    due: float


class Looking(msgspec.Struct, frozen=True, tag=True):
    """Not the leader; the record is being read."""

    seen: Sighting | None


class Claiming(msgspec.Struct, frozen=True, tag=True):
    """Not the leader yet; our name is being written into the record."""

    seen: Sighting | None
    sent_at: float


class Leading(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; renews when it is time."""

    lease: Lease
    until: float
    due: float


class Renewing(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; the record is being renewed. ``looked`` where it was read right before."""

    lease: Lease
    until: float
    sent_at: float
    looked: bool = False


class Checking(msgspec.Struct, frozen=True, tag=True):
    """The leader until ``until``; a renewal went wrong, and the record is being read."""

    lease: Lease
    until: float


class Leaving(msgspec.Struct, frozen=True, tag=True):
    """Not the leader any more; the record is being read, in order to give the lease back."""


class Releasing(msgspec.Struct, frozen=True, tag=True):
    """Not the leader any more; the record is being written without our name."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Nothing follows. ``lost`` says why the lease was lost; ``""`` where the end was asked for."""

    lost: str = ""


State = Standby | Looking | Claiming | Leading | Renewing | Checking | Leaving | Releasing | Ended

# ---------------------------------------------------------------------------------------------------- events


class Due(msgspec.Struct, frozen=True, tag=True):
    """The time of the last :class:`Wait` has come."""


class Found(msgspec.Struct, frozen=True, tag=True):
    """The lease was read."""

    lease: Lease


class Missing(msgspec.Struct, frozen=True, tag=True):
    """There is no such lease."""


class Written(msgspec.Struct, frozen=True, tag=True):
    """Our write was taken; this is what is stored."""

    lease: Lease


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Our write was refused, because what it rests upon is no longer so."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """No proper answer; a write may have been taken or not, or may still be."""


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """We are to end. ``release`` where nothing is under way any more that the lease guards."""

    release: bool


Event = Due | Found | Missing | Written | Refused | Failed | Stopping

# --------------------------------------------------------------------------------------------------- actions


class Wait(msgspec.Struct, frozen=True, tag=True):
    """Do nothing until then; :class:`Due` follows."""

    until: float


class Read(msgspec.Struct, frozen=True, tag=True):
    """Read the lease; :class:`Found`, :class:`Missing` or :class:`Failed` follows."""


class Create(msgspec.Struct, frozen=True, tag=True):
    """Create the lease; :class:`Written`, :class:`Refused` or :class:`Failed` follows."""

    spec: LeaseSpec


class Replace(msgspec.Struct, frozen=True, tag=True):
    """Update the lease, at the version it carries; :class:`Written`, :class:`Refused` or :class:`Failed` follows."""

    lease: Lease


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Do nothing any more."""


Action = Wait | Read | Create | Replace | Finish


class Step(msgspec.Struct, frozen=True):
    """What a step leads to.

    ``leads_until`` is the deadline of the leader's right to write as it is now; None where it has none, from this
    moment on. ``slow`` where a renewal needed a second look.
    """

    state: State
    action: Action
    leads_until: float | None = None
    slow: bool = False


def begin() -> Step:
    """Return the first step: look who leads."""
    return Step(Looking(None), Read())


def step(state: State, event: Event, at: Moment, rules: Rules) -> Step:
    """Return what follows from an event, at a moment.

    Whatever comes, a step at or after the deadline of a leader ends its term. Raises ``ValueError`` for an event
    that cannot happen in the state.
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
    """Return who holds the lease as far as we know; ``""`` for nobody, or where nothing is known."""
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
        case Claiming(), Stopping():  # it may have been taken: nobody should have to wait for it to expire
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
            ):  # the answer is too old to build upon; the next look finds the lease to be ours
                return _pause(Sighting(lease.spec, at.now), at, rules)
            return Step(*_leading(lease, until, at, rules), leads_until=until)
        case (Looking() | Claiming(), Refused() | Failed()):
            return _pause(seen, at, rules)
        case _:
            raise _impossible(state, event)


def _pause(seen: Sighting | None, at: Moment, rules: Rules) -> Step:
    """Look again after a pause with jitter, or when the lease runs out, if that is sooner."""
    slack = (JITTER_FACTOR - 1.0) * rules.retry_seconds * at.chance
    due = at.now + rules.retry_seconds + slack
    if seen is not None and at.now < seen.free_at(rules):
        due = min(due, seen.free_at(rules) + slack)  # the same jitter, so that not all candidates try at once
    return Step(Standby(seen, due), Wait(due))


# --------------------------------------------------------------------------------------------------- a leader


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
                return _lost(f"held by {there.spec.holder or 'nobody'} now")
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


# -------------------------------------------------------------------------------------------------- on leaving


def _leave(state: Leaving | Releasing, event: Event, at: Moment, rules: Rules) -> Step:
    match state, event:
        case Leaving(), Found(lease) if lease.spec.holder == rules.identity:
            return Step(Releasing(), Replace(_released(lease, at)))
        case _:  # given back, or it never was ours, or it has to run out: nothing more can be done
            return Step(Ended(), Finish())


# ------------------------------------------------------------------------------------------------- the records


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
    """Write ourselves in; where it is ours already (an answer of ours was lost), that is a renewal."""
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
    """Name nobody, and a duration of a second, for those who do not know what an empty name means."""
    time = format_micro_time(at.wall)
    spec = replace(
        lease.spec, holder_identity="", lease_duration_seconds=1, acquire_time=time, renew_time=time
    )
    return replace(lease, spec=spec)


def _impossible(state: State, event: Event) -> ValueError:
    return ValueError(f"{type(event).__name__} cannot happen while {type(state).__name__}")
