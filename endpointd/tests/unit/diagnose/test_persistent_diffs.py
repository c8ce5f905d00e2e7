"""A difference is persistent after the grace period without writes, and is reported when it starts and is resolved."""

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.testing.builders import make_service, make_slice
from endpointd.diagnose.changes import ControllerName, ObjectChange, Operation
from endpointd.diagnose.persistent_diffs import Outcome, PersistentDiffs

WEB = ObjectKey("default", "web")
SERVICE = make_service()


def change(operation: Operation = "update", name: str = "web-abcde") -> ObjectChange:
    endpoint_slice = make_slice(SERVICE, name)
    before = None if operation == "create" else endpoint_slice
    return ObjectChange(
        "endpointslice", operation, WEB, before, None if operation == "delete" else endpoint_slice
    )


class Checks:
    """Checks of one service with a grace of 5 s."""

    def __init__(self) -> None:
        self.persistent_diffs = PersistentDiffs(5.0)

    def at(self, now: float, *found: ObjectChange, version: str = "1") -> Outcome:
        versions: dict[ControllerName, str] = {"endpointslice": version, "endpoints": str(now)}
        return self.persistent_diffs.record_check(WEB, found, versions, now)

    @property
    def updates(self) -> int:
        return self.persistent_diffs.count("endpointslice", "EndpointSlice", "update")


@pytest.fixture
def checks() -> Checks:
    return Checks()


def test_a_difference_resolved_within_the_grace_period_is_never_reported(checks: Checks) -> None:
    first = checks.at(0.0, change())
    assert (first.started, first.resolved, first.recheck_seconds) == ((), (), 5.0)
    second = checks.at(4.9)
    assert (second.started, second.resolved, second.recheck_seconds) == ((), (), None)
    assert checks.updates == 0


def test_a_difference_is_reported_once_after_the_grace_period(checks: Checks) -> None:
    checks.at(0.0, change())
    outcome = checks.at(5.0, change())
    assert [begun.difference.name for begun in outcome.started] == ["web-abcde"]
    assert outcome.recheck_seconds is None
    assert checks.updates == checks.persistent_diffs.disagreeing_services == 1
    assert checks.at(6.0, change()).started == ()
    assert checks.updates == 1


def test_a_resolved_difference_is_reported_with_its_duration(checks: Checks) -> None:
    checks.at(0.0, change())
    checks.at(5.0, change())
    outcome = checks.at(8.0)
    assert [(gone.difference.name, gone.seconds) for gone in outcome.resolved] == [("web-abcde", 8.0)]
    assert checks.updates == checks.persistent_diffs.disagreeing_services == 0
    assert checks.at(9.0).resolved == ()


def test_no_difference_is_persistent_while_its_controller_writes(checks: Checks) -> None:
    for second in range(0, 20, 2):
        outcome = checks.at(float(second), change(), version=str(second))
        assert outcome.started == ()
        assert outcome.recheck_seconds == 5.0
    assert len(checks.at(23.0, change(), version="18").started) == 1


def test_writes_of_another_controller_do_not_count(checks: Checks) -> None:
    checks.at(0.0, change())  # the version of endpoints changes with every check
    checks.at(3.0, change())
    assert len(checks.at(5.0, change()).started) == 1


def test_a_persistent_difference_stays_persistent_despite_writes(checks: Checks) -> None:
    checks.at(0.0, change())
    checks.at(5.0, change())
    outcome = checks.at(6.0, change(), version="2")
    assert (outcome.started, outcome.resolved) == ((), ())
    assert checks.updates == 1


def test_a_recurring_difference_starts_again(checks: Checks) -> None:
    checks.at(0.0, change())
    checks.at(3.0)
    checks.at(4.0, change())
    assert checks.at(6.0, change()).started == ()
    assert checks.at(6.0, change()).recheck_seconds == 3.0


def test_unnamed_missing_objects_are_counted(checks: Checks) -> None:
    missing = [change("create"), change("create"), change("create")]
    checks.at(0.0, *missing)
    checks.at(5.0, *missing)
    assert checks.persistent_diffs.count("endpointslice", "EndpointSlice", "create") == 3
    checks.at(6.0, *missing[:1])
    assert checks.persistent_diffs.count("endpointslice", "EndpointSlice", "create") == 1
    assert checks.persistent_diffs.disagreeing_services == 1


def test_services_are_counted_once(checks: Checks) -> None:
    other = ObjectKey("default", "other")
    both = [change("delete"), change("update", "web-2")]
    checks.at(0.0, *both)
    checks.at(5.0, *both)
    elsewhere = ObjectChange("endpointslice", "delete", other, make_slice(make_service("other")), None)
    checks.persistent_diffs.record_check(other, [elsewhere], {}, 0.0)
    checks.persistent_diffs.record_check(other, [elsewhere], {}, 5.0)
    assert checks.persistent_diffs.disagreeing_services == 2
    assert checks.persistent_diffs.count("endpointslice", "EndpointSlice", "delete") == 2
    checks.at(7.0)
    assert checks.persistent_diffs.disagreeing_services == 1


def test_time_without_current_caches_does_not_count(checks: Checks) -> None:
    checks.persistent_diffs.record_check(WEB, [change()], {}, 0.0)
    blind = checks.persistent_diffs.record_check(WEB, [change()], {}, 20.0, current_since=18.0)
    assert (blind.started, blind.recheck_seconds) == ((), 3.0)
    assert (
        len(checks.persistent_diffs.record_check(WEB, [change()], {}, 23.0, current_since=18.0).started) == 1
    )
