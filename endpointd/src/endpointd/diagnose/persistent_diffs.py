"""Which differences stand: those that nobody who writes has been busy with for a while. Pure but for what it remembers."""

from collections.abc import Hashable, Iterable, Mapping

import msgspec

from aiokube.api.meta import ObjectKey
from endpointd.diagnose.changes import ControllerName, ObjectChange, Operation


class Difference(msgspec.Struct, frozen=True):
    """One object that is not what endpointd would make of it."""

    controller: ControllerName
    operation: Operation
    """What endpointd would do about it."""
    kind: str
    service: ObjectKey
    name: str
    """Of the object; for one that is missing the base of the name that the server would make up: ``web-*``."""
    number: int = 0
    """Counts several missing objects of one service."""


class Started(msgspec.Struct, frozen=True):
    """A difference that stands from now on, and the write that would end it."""

    difference: Difference
    change: ObjectChange


class Resolved(msgspec.Struct, frozen=True):
    """A difference that stood, and for how long it was there."""

    difference: Difference
    seconds: float


class Outcome(msgspec.Struct, frozen=True):
    """What a look at one service has changed."""

    started: tuple[Started, ...]
    resolved: tuple[Resolved, ...]
    look_again_seconds: float | None
    """After which time the next difference stands if nothing happens; None where none is about to."""


class _Seen(msgspec.Struct):
    since: float
    """The first look that found it."""
    quiet_since: float
    """The first look that found it with the objects as they are now."""
    stands: bool = False


class _Service(msgspec.Struct):
    versions: Mapping[ControllerName, Hashable]
    seen: dict[Difference, _Seen]


class PersistentDiffs:
    """Tells the differences that stand from those that somebody is about to end.

    A difference stands once looks have found it for ``grace_seconds`` without a break in which nobody wrote any of the objects
    that its controller keeps for the service. So a controller that lags behind but works is not reported; one that has stopped
    is, as is one that is content with something else. What stands goes on doing so until a look does not find it.

    Memory: O(services with differences). Times are monotonic seconds, and must not go back.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._services: dict[ObjectKey, _Service] = {}
        self._counts: dict[tuple[ControllerName, str, Operation], int] = {}
        self._disagreeing: dict[ObjectKey, int] = {}

    def look(
        self,
        service: ObjectKey,
        found: Iterable[ObjectChange],
        versions: Mapping[ControllerName, Hashable],
        now: float,
        current_since: float = 0.0,
    ) -> Outcome:
        """Take in what a look at a service has found, all of it; O(what it found).

        ``versions`` of each controller has to differ from the one before if any of the service's objects was written. Time before
        ``current_since`` does not count: what was written then could not be seen.
        """
        before = self._services.pop(service, None) or _Service({}, {})
        seen: dict[Difference, _Seen] = {}
        started: list[Started] = []
        due: list[float] = []
        for difference, change in _identified(found):
            record = before.seen.pop(difference, None) or _Seen(now, now)
            seen[difference] = record
            if record.stands:
                continue
            if before.versions.get(difference.controller) != versions.get(difference.controller):
                record.quiet_since = now
            stands_at = max(record.quiet_since, current_since) + self._grace_seconds
            if now < stands_at:
                due.append(stands_at - now)
                continue
            record.stands = True
            self._count(difference, 1)
            started.append(Started(difference, change))
        resolved = [
            Resolved(difference, now - record.since)
            for difference, record in before.seen.items()
            if record.stands
        ]
        for each in resolved:
            self._count(each.difference, -1)
        if seen:
            self._services[service] = _Service(dict(versions), seen)
        return Outcome(tuple(started), tuple(resolved), min(due, default=None))

    def count(self, controller: ControllerName, kind: str, operation: Operation) -> int:
        """Return how many differences of a sort stand."""
        return self._counts.get((controller, kind, operation), 0)

    @property
    def disagreeing_services(self) -> int:
        """Services of which at least one difference stands."""
        return len(self._disagreeing)

    def _count(self, difference: Difference, change: int) -> None:
        sort = (difference.controller, difference.kind, difference.operation)
        self._counts[sort] = self._counts.get(sort, 0) + change
        of_service = self._disagreeing.get(difference.service, 0) + change
        if of_service:
            self._disagreeing[difference.service] = of_service
        else:
            self._disagreeing.pop(difference.service, None)


def _identified(found: Iterable[ObjectChange]) -> Iterable[tuple[Difference, ObjectChange]]:
    numbers: dict[tuple[str, str, str], int] = {}
    for change in found:
        sort = (change.controller, change.operation, change.name)
        number = numbers[sort] = numbers.get(sort, -1) + 1
        yield (
            Difference(
                controller=change.controller,
                operation=change.operation,
                kind=change.kind,
                service=change.service,
                name=change.name,
                number=number,
            ),
            change,
        )
