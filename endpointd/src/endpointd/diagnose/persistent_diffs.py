"""Track which differences persist while no client writes the objects. Pure except for its own state."""

from collections.abc import Hashable, Iterable, Mapping

import msgspec

from aiokube.api.meta import ObjectKey
from endpointd.diagnose.changes import ControllerName, ObjectChange, Operation


class Difference(msgspec.Struct, frozen=True):
    """One object that differs from endpointd's plan."""

    controller: ControllerName
    operation: Operation
    """The operation that endpointd would perform."""
    kind: str
    service: ObjectKey
    name: str
    """The object's name; for a missing object, the base of the server-generated name: ``web-*``."""
    number: int = 0
    """Distinguishes several missing objects of one service."""


class Started(msgspec.Struct, frozen=True):
    """A difference that now counts as persistent, and the write that would resolve it."""

    difference: Difference
    change: ObjectChange


class Resolved(msgspec.Struct, frozen=True):
    """A persistent difference that was resolved, and how long it existed."""

    difference: Difference
    seconds: float


class Outcome(msgspec.Struct, frozen=True):
    """The result of one check of a service."""

    started: tuple[Started, ...]
    resolved: tuple[Resolved, ...]
    recheck_seconds: float | None
    """Seconds until the next difference becomes persistent if nothing changes; None if there is no
    candidate."""


class _Seen(msgspec.Struct):
    since: float
    """The first check that found it."""
    quiet_since: float
    """The first check that found it since the objects were last written."""
    is_persistent: bool = False


class _Service(msgspec.Struct):
    versions: Mapping[ControllerName, Hashable]
    seen: dict[Difference, _Seen]


class PersistentDiffs:
    """Separates persistent differences from those that a controller is about to resolve.

    A difference is persistent once checks have found it for ``grace_seconds`` without interruption, during
    which no client wrote any object that its controller keeps for the service. So a slow but working
    controller is not reported; a stopped one is, and so is one that settles on another result. A difference
    stays persistent until a check no longer finds it. Memory: O(services with differences). Times are
    monotonic seconds and must not decrease.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._services: dict[ObjectKey, _Service] = {}
        self._counts: dict[tuple[ControllerName, str, Operation], int] = {}
        self._disagreeing: dict[ObjectKey, int] = {}

    def record_check(
        self,
        service: ObjectKey,
        found: Iterable[ObjectChange],
        versions: Mapping[ControllerName, Hashable],
        now: float,
        current_since: float = 0.0,
    ) -> Outcome:
        """Record all differences found by one check of a service. O(differences).

        A controller's value in ``versions`` must change whenever any of its objects of this service is
        written. Time before ``current_since`` does not count: writes could not be observed then.
        """
        before = self._services.pop(service, None) or _Service({}, {})
        seen: dict[Difference, _Seen] = {}
        started: list[Started] = []
        due: list[float] = []
        for difference, change in _identified(found):
            record = before.seen.pop(difference, None) or _Seen(now, now)
            seen[difference] = record
            if record.is_persistent:
                continue
            if before.versions.get(difference.controller) != versions.get(difference.controller):
                record.quiet_since = now
            persistent_at = max(record.quiet_since, current_since) + self._grace_seconds
            if now < persistent_at:
                due.append(persistent_at - now)
                continue
            record.is_persistent = True
            self._count(difference, 1)
            started.append(Started(difference, change))
        resolved = [
            Resolved(difference, now - record.since)
            for difference, record in before.seen.items()
            if record.is_persistent
        ]
        for each in resolved:
            self._count(each.difference, -1)
        if seen:
            self._services[service] = _Service(dict(versions), seen)
        return Outcome(tuple(started), tuple(resolved), min(due, default=None))

    def count(self, controller: ControllerName, kind: str, operation: Operation) -> int:
        """Return the number of persistent differences of this kind."""
        return self._counts.get((controller, kind, operation), 0)

    @property
    def disagreeing_services(self) -> int:
        """The number of services with at least one persistent difference."""
        return len(self._disagreeing)

    def _count(self, difference: Difference, change: int) -> None:
        label = (difference.controller, difference.kind, difference.operation)
        self._counts[label] = self._counts.get(label, 0) + change
        count = self._disagreeing.get(difference.service, 0) + change
        if count:
            self._disagreeing[difference.service] = count
        else:
            self._disagreeing.pop(difference.service, None)


def _identified(found: Iterable[ObjectChange]) -> Iterable[tuple[Difference, ObjectChange]]:
    numbers: dict[tuple[str, str, str], int] = {}
    for change in found:
        label = (change.controller, change.operation, change.name)
        number = numbers[label] = numbers.get(label, -1) + 1
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
