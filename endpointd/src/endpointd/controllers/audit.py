"""The audit: continuously compares incremental state with state rebuilt from the caches, in the background.

State corrupted by a bug or a bit flip would otherwise stay wrong. Here a mismatch is counted, logged and
repaired within one round.
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
    """State that can be audited key by key."""

    def audited_keys(self) -> Collection[ObjectKey]:
        """Return the keys that exist now."""
        ...

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Check and repair one key; return a short description of the mismatch, or None.

        Other work runs between the steps, so the state may change. A key that no longer exists is not an
        error.
        """
        ...


def differences(current: dict[str, object], rebuilt: dict[str, object]) -> Steps[list[str]]:
    """Compare snapshots of two states part by part; return the names of the parts that differ."""
    found: list[str] = []
    for part, value in rebuilt.items():
        if (yield from _differ(current.get(part), value)):
            found.append(part)
    return found


def _differ(current: object, rebuilt: object) -> Steps[bool]:
    pairs: Iterable[tuple[object, object]]
    if isinstance(current, dict) and isinstance(rebuilt, dict):
        if current.keys() != rebuilt.keys():
            return True
        pairs = ((value, rebuilt[key]) for key, value in current.items())
    elif isinstance(current, list) and isinstance(rebuilt, list):
        if len(current) != len(rebuilt):
            return True
        pairs = zip(current, rebuilt, strict=True)
    else:
        return current != rebuilt
    for count, (one, other) in enumerate(pairs, 1):
        if one is not other and one != other:
            return True
        if count % STEPS_A_YIELD == 0:
            yield STEPS_A_YIELD
    return False


class AuditCounts(msgspec.Struct, frozen=True):
    """The audit results of one component since the start."""

    audits: int = 0
    mismatches: int = 0
    """Audits that found and repaired a mismatch."""
    errors: int = 0
    """Audits that raised an error."""


class AuditStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the audit's results."""

    parts: dict[str, AuditCounts]
    """By component name; all components are present from the start."""
    rounds: int
    """Completed rounds over all keys of all components."""
    last_round_seconds: float | None
    """The duration of the last round; None before the first has completed."""
    worked_seconds: float
    """Total time spent in audits."""
    last_mismatch: str
    """The component, key and finding of the last mismatch, or ``""``."""


class Auditor:
    """A runnable that audits all keys of all added components, one at a time, round after round.

    Guarantees: audits take at most about ``share`` of any stretch of time (after an audit of ``t`` seconds it
    sleeps ``t * (1 / share - 1)`` seconds, at least ``min_pause_seconds``). The first round starts
    ``first_round_after_seconds`` after the start, and further rounds start at least ``round_seconds`` apart.
    Components are audited in the order in which they were added, so add dependencies first. An audit that
    raises is logged and counted, and the next key follows.
    """

    name = "audit"

    def __init__(
        self,
        *,
        clock: Clock,
        share: float = 0.01,
        min_pause_seconds: float = 0.1,
        round_seconds: float = 60.0,
        first_round_after_seconds: float = 0.0,
        pacer: LoopPacer | None = None,
        relists: RelistGate | None = None,
    ) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"the share of an audit must be above 0 and at most 1, not {share:g}")
        self._clock = clock
        self._pacer = pacer or LoopPacer(clock)
        self._relists = relists or RelistGate()
        self._rest_factor = 1 / share - 1
        self._min_pause_seconds = min_pause_seconds
        self._round_seconds = round_seconds
        self._first_round_after_seconds = first_round_after_seconds
        self._parts: dict[str, Audited] = {}
        self._counts: dict[str, AuditCounts] = {}
        self._rounds = 0
        self._last_round_seconds: float | None = None
        self._worked_seconds = 0.0
        self._last_mismatch = ""

    def add(self, name: str, audited: Audited) -> None:
        """Add a component, starting with the next round. Raises ``ValueError`` if the name is taken."""
        if name in self._parts:
            raise ValueError(f"the audit already has a component {name!r}")
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
            await self._clock.sleep(max(self._round_seconds - took, self._min_pause_seconds))

    def statistics(self) -> AuditStatistics:
        """Return the current results."""
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
            log.exception("cannot list the keys to audit: component=%s", name)
            self._count(name, errors=1)
            return ()

    async def _audit(self, name: str, audited: Audited, key: ObjectKey) -> float:
        """Audit one key, sliced over loop turns; return the seconds of work."""
        await self._relists.wait_open()
        timed = _Timed(self._clock, audited.audit_steps(key), self._relists)
        try:
            finding = await self._pacer.run(timed.steps())
        except Exception:
            log.exception("audit failed: component=%s key=%s", name, key)
            self._count(name, audits=1, errors=1)
        else:
            self._count(name, audits=1, mismatches=finding is not None)
            if finding is not None:
                self._last_mismatch = f"{name} {key}: {finding}"
                log.error("audit mismatch repaired: component=%s key=%s finding=%s", name, key, finding)
        self._worked_seconds += timed.worked_seconds
        return timed.worked_seconds

    async def _rest(self, worked_seconds: float) -> None:
        await self._clock.sleep(max(worked_seconds * self._rest_factor, self._min_pause_seconds))

    def _count(self, name: str, *, audits: int = 0, mismatches: int = 0, errors: int = 0) -> None:
        counts = self._counts[name]
        self._counts[name] = AuditCounts(
            counts.audits + audits, counts.mismatches + mismatches, counts.errors + errors
        )


class _Timed:
    """Steps of work, timed without other work that runs between them."""

    def __init__(self, clock: Clock, steps: Steps[str | None], relists: RelistGate) -> None:
        self._clock = clock
        self._steps = steps
        self._relists = relists
        self.worked_seconds = 0.0

    def steps(self) -> Steps[str | None]:
        while True:
            if (
                not self._relists.is_open
            ):  # a relist is in progress, so states cannot be compared; the next round will
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
