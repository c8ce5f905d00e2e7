"""The audit: what is kept incrementally is compared with what a look at everything says, slowly, for ever.

A state that went wrong (a bug, a bit) would otherwise be wrong until somebody noticed. Here it is counted, logged
and mended within one round.
"""

import logging
from collections.abc import Collection, Iterable
from typing import NoReturn, Protocol

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.clock import Clock
from aiokube.runtime.pacing import STEPS_A_YIELD, LoopPacer, Steps
from aiokube.runtime.relist_gate import RelistGate

log = logging.getLogger(__name__)


class Audited(Protocol):
    """State that can be checked key by key."""

    def audited_keys(self) -> Collection[ObjectKey]:
        """Return what there is to check now."""
        ...

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Check one key and repair it; return in a few words what was wrong, None if nothing was.

        Other work runs between the steps, so changes may come meanwhile. A key that has gone since is no error.
        """
        ...


def differences(mine: dict[str, object], rebuilt: dict[str, object]) -> Steps[list[str]]:
    """Compare copies of two states, part by part; return the names of the parts that differ."""
    found: list[str] = []
    for part, value in rebuilt.items():
        if (yield from _differ(mine.get(part), value)):
            found.append(part)
    return found


def _differ(mine: object, theirs: object) -> Steps[bool]:
    pairs: Iterable[tuple[object, object]]
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.keys() != theirs.keys():
            return True
        pairs = ((value, theirs[key]) for key, value in mine.items())
    elif isinstance(mine, list) and isinstance(theirs, list):
        if len(mine) != len(theirs):
            return True
        pairs = zip(mine, theirs, strict=True)
    else:
        return mine != theirs
    for count, (one, other) in enumerate(pairs, 1):
        if one is not other and one != other:
            return True
        if count % STEPS_A_YIELD == 0:
            yield STEPS_A_YIELD
    return False


class AuditCounts(msgspec.Struct, frozen=True):
    """What came of the audits of one part, since the start."""

    audits: int = 0
    mismatches: int = 0
    """Audits that found something wrong, and mended it."""
    errors: int = 0
    """Audits that failed themselves."""


class AuditStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How the audit is, at one moment."""

    parts: dict[str, AuditCounts]
    """By the name of the part; all are there from the start, at zero."""
    rounds: int
    """How often every key of every part has been looked at."""
    last_round_seconds: float | None
    """How long the last full round took; None before the first."""
    worked_seconds: float
    """Time spent in audits."""
    last_mismatch: str
    """The part, key and finding of the last mismatch, ``""`` where there was none."""


class Auditor:
    """A part for the manager that audits the keys of everything added, one after the other, round after round.

    It promises: of any stretch of time it spends at most about ``share`` in audits (after one that took ``t`` seconds it
    rests ``t * (1 / share - 1)``, and ``least_pause_seconds`` at least); the first round begins
    ``first_round_after_seconds`` after the start, when there is more urgent work, and any other ``round_seconds`` after the one
    before it at the earliest; parts are audited in the order in which they were added, so add first what others
    build on; and no failure of one audit ends it: it is logged, counted, and the next key is taken.
    """

    name = "audit"

    def __init__(
        self,
        *,
        clock: Clock,
        share: float = 0.01,
        least_pause_seconds: float = 0.1,
        round_seconds: float = 60.0,
        first_round_after_seconds: float = 0.0,
        pacer: LoopPacer | None = None,
        relists: RelistGate | None = None,
    ) -> None:
        if not 0 < share <= 1:
            raise ValueError(
                f"the share of an audit is a part of the time, above 0 and up to 1, not {share:g}"
            )
        self._clock = clock
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        self._rest_factor = 1 / share - 1
        self._least_pause_seconds = least_pause_seconds
        self._round_seconds = round_seconds
        self._first_round_after_seconds = first_round_after_seconds
        self._parts: dict[str, Audited] = {}
        self._counts: dict[str, AuditCounts] = {}
        self._rounds = 0
        self._last_round_seconds: float | None = None
        self._worked_seconds = 0.0
        self._last_mismatch = ""

    def add(self, name: str, audited: Audited) -> None:
        """Audit this too, from the next round on. Raises ``ValueError`` where the name is taken."""
        if name in self._parts:
            raise ValueError(f"the audit has a part {name!r} already")
        self._parts[name] = audited
        self._counts[name] = AuditCounts()

    async def run(self) -> NoReturn:
        """Audit until cancelled."""
        await self._clock.sleep(self._first_round_after_seconds)
        while True:
            started = self._clock.monotonic()
            for name, audited in list(self._parts.items()):
                for key in self._keys(name, audited):
                    await self._rest(await self._audit(name, audited, key))
            took = self._clock.monotonic() - started
            self._rounds += 1
            self._last_round_seconds = took
            await self._clock.sleep(max(self._round_seconds - took, self._least_pause_seconds))

    def statistics(self) -> AuditStatistics:
        """Return how the audit is now."""
        return AuditStatistics(
            parts=dict(self._counts),
            rounds=self._rounds,
            last_round_seconds=self._last_round_seconds,
            worked_seconds=self._worked_seconds,
            last_mismatch=self._last_mismatch,
        )

    def _keys(self, name: str, audited: Audited) -> Collection[ObjectKey]:
        try:
            return list(audited.audited_keys())
        except Exception:
            log.exception("the audit of %s could not begin", name)
            self._count(name, errors=1)
            return ()

    async def _audit(self, name: str, audited: Audited, key: ObjectKey) -> float:
        """Audit one key, in slices of loop turns; return the seconds spent on it."""
        await self._relists.wait_open()
        timed = _Timed(self._clock, audited.audit_steps(key), self._relists)
        try:
            finding = await self._pacer.run(timed.steps())
        except Exception:
            log.exception("the audit of %s failed on %s", name, key)
            self._count(name, audits=1, errors=1)
        else:
            self._count(name, audits=1, mismatches=finding is not None)
            if finding is not None:
                self._last_mismatch = f"{name} {key}: {finding}"
                log.error("the audit of %s found %s wrong and mended it: %s", name, key, finding)
        self._worked_seconds += timed.worked_seconds
        return timed.worked_seconds

    async def _rest(self, worked_seconds: float) -> None:
        await self._clock.sleep(max(worked_seconds * self._rest_factor, self._least_pause_seconds))

    def _count(self, name: str, *, audits: int = 0, mismatches: int = 0, errors: int = 0) -> None:
        counts = self._counts[name]
        self._counts[name] = AuditCounts(
            counts.audits + audits, counts.mismatches + mismatches, counts.errors + errors
        )


class _Timed:
    """Bulk work, and the time it took without that of other work between its steps."""

    def __init__(self, clock: Clock, steps: Steps[str | None], relists: RelistGate) -> None:
        self._clock = clock
        self._steps = steps
        self._relists = relists
        self.worked_seconds = 0.0

    def steps(self) -> Steps[str | None]:
        while True:
            if not self._relists.is_open:  # nothing can be compared now; the next round will
                self._steps.close()
                return None
            started = self._clock.monotonic()
            try:
                spent = next(self._steps)
            except StopIteration as end:
                finding: str | None = end.value
                return finding
            finally:
                self.worked_seconds += self._clock.monotonic() - started
            yield spent
