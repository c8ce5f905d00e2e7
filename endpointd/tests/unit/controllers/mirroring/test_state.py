"""What is remembered of one Endpoints: names, and what was told (behaviour 3.3, M-25)."""

from endpointd.controllers.mirroring.plan import Problem
from endpointd.controllers.mirroring.state import MirrorState

ONE, TWO = Problem("One", "one"), Problem("Two", "two")


def test_news_is_what_was_not_so_the_last_time() -> None:
    state = MirrorState()
    assert state.new_problems("e-1", (ONE,)) == [ONE]
    assert state.new_problems("e-1", (ONE, TWO)) == [TWO]
    assert state.new_problems("e-1", (TWO,)) == []
    assert state.new_problems("e-1", ()) == []
    assert state.new_problems("e-1", (TWO,)) == [TWO]
    assert state.new_problems("e-2", (TWO,)) == [TWO]
