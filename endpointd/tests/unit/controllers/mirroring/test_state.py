"""The memory of one Endpoints: rejections and reported problems (behaviour 3.3, M-25)."""

from endpointd.controllers.mirroring.plan import Problem
from endpointd.controllers.mirroring.state import MirrorState

ONE, TWO = Problem("One", "one"), Problem("Two", "two")


def test_new_problems_are_those_not_reported_last_time() -> None:
    state = MirrorState()
    assert state.new_problems("e-1", (ONE,)) == [ONE]
    assert state.new_problems("e-1", (ONE, TWO)) == [TWO]
    assert state.new_problems("e-1", (TWO,)) == []
    assert state.new_problems("e-1", ()) == []
    assert state.new_problems("e-1", (TWO,)) == [TWO]
    assert state.new_problems("e-2", (TWO,)) == [TWO]
