"""A difference stands when nobody has been busy with it for the grace time, and is told once when it comes and goes."""

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


class Looks:
    """Looks at one service with a grace of 5 s."""

    def __init__(self) -> None:
        self.persistent_diffs = PersistentDiffs(5.0)

    def at(self, now: float, *found: ObjectChange, version: str = "1") -> Outcome:
        versions: dict[ControllerName, str] = {"endpointslice": version, "endpoints": str(now)}
        return self.persistent_diffs.record_check(WEB, found, versions, now)

    @property
    def updates(self) -> int:
        return self.persistent_diffs.count("endpointslice", "EndpointSlice", "update")


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_what_is_gone_before_the_grace_is_over_is_never_told(looks: Looks) -> None:
    first = looks.at(0.0, change())
    assert (first.started, first.resolved, first.recheck_seconds) == ((), (), 5.0)
    second = looks.at(4.9)
    assert (second.started, second.resolved, second.recheck_seconds) == ((), (), None)
    assert looks.updates == 0


def test_it_stands_when_the_grace_is_over_and_is_told_once(looks: Looks) -> None:
    looks.at(0.0, change())
    outcome = looks.at(5.0, change())
    assert [begun.difference.name for begun in outcome.started] == ["web-abcde"]
    assert outcome.recheck_seconds is None
    assert looks.updates == looks.persistent_diffs.disagreeing_services == 1
    assert looks.at(6.0, change()).started == ()
    assert looks.updates == 1


def test_when_it_is_gone_it_is_told_how_long_it_was_there(looks: Looks) -> None:
    looks.at(0.0, change())
    looks.at(5.0, change())
    outcome = looks.at(8.0)
    assert [(gone.difference.name, gone.seconds) for gone in outcome.resolved] == [("web-abcde", 8.0)]
    assert looks.updates == looks.persistent_diffs.disagreeing_services == 0
    assert looks.at(9.0).resolved == ()


def test_as_long_as_its_controller_writes_nothing_stands(looks: Looks) -> None:
    for second in range(0, 20, 2):
        outcome = looks.at(float(second), change(), version=str(second))
        assert outcome.started == ()
        assert outcome.recheck_seconds == 5.0
    assert len(looks.at(23.0, change(), version="18").started) == 1


def test_writes_of_another_controller_do_not_count(looks: Looks) -> None:
    looks.at(0.0, change())  # the version of endpoints changes with every look
    looks.at(3.0, change())
    assert len(looks.at(5.0, change()).started) == 1


def test_what_stands_goes_on_though_something_is_written(looks: Looks) -> None:
    looks.at(0.0, change())
    looks.at(5.0, change())
    outcome = looks.at(6.0, change(), version="2")
    assert (outcome.started, outcome.resolved) == ((), ())
    assert looks.updates == 1


def test_what_comes_again_begins_anew(looks: Looks) -> None:
    looks.at(0.0, change())
    looks.at(3.0)
    looks.at(4.0, change())
    assert looks.at(6.0, change()).started == ()
    assert looks.at(6.0, change()).recheck_seconds == 3.0


def test_missing_objects_are_counted_though_they_have_no_names(looks: Looks) -> None:
    missing = [change("create"), change("create"), change("create")]
    looks.at(0.0, *missing)
    looks.at(5.0, *missing)
    assert looks.persistent_diffs.count("endpointslice", "EndpointSlice", "create") == 3
    looks.at(6.0, *missing[:1])
    assert looks.persistent_diffs.count("endpointslice", "EndpointSlice", "create") == 1
    assert looks.persistent_diffs.disagreeing_services == 1


def test_services_are_counted_once_whatever_differs(looks: Looks) -> None:
    other = ObjectKey("default", "other")
    both = [change("delete"), change("update", "web-2")]
    looks.at(0.0, *both)
    looks.at(5.0, *both)
    elsewhere = ObjectChange("endpointslice", "delete", other, make_slice(make_service("other")), None)
    looks.persistent_diffs.record_check(other, [elsewhere], {}, 0.0)
    looks.persistent_diffs.record_check(other, [elsewhere], {}, 5.0)
    assert looks.persistent_diffs.disagreeing_services == 2
    assert looks.persistent_diffs.count("endpointslice", "EndpointSlice", "delete") == 2
    looks.at(7.0)
    assert looks.persistent_diffs.disagreeing_services == 1


def test_time_in_which_nothing_could_be_seen_does_not_count(looks: Looks) -> None:
    looks.persistent_diffs.record_check(WEB, [change()], {}, 0.0)
    blind = looks.persistent_diffs.record_check(WEB, [change()], {}, 20.0, current_since=18.0)
    assert (blind.started, blind.recheck_seconds) == ((), 3.0)
    assert (
        len(looks.persistent_diffs.record_check(WEB, [change()], {}, 23.0, current_since=18.0).started) == 1
    )
