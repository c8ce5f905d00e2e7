"""What is remembered of one Endpoints: names, answers, and what was told (behaviour 3.3, M-25)."""

from tests.unit.mirroring.world import change

from endpointd.api.discovery import Endpoint, EndpointSlice
from endpointd.api.meta import ObjectMeta
from endpointd.controllers.mirroring.plan import Answer, Problem
from endpointd.controllers.mirroring.state import MirrorState

SENT = EndpointSlice(
    metadata=ObjectMeta(generate_name="web-", labels={"a": "b"}),
    address_type="IPv4",
    endpoints=(Endpoint(addresses=("10.0.0.1",)),),
    ports=(),
)
ANSWER = change(SENT, name="web-1", uid="u", resource_version="7", ports=None, endpoints=SENT.endpoints)
OTHERWISE = change(ANSWER, labels={"a": "b", "mesh": "on"})
ONE, TWO = Problem("One", "one"), Problem("Two", "two")


def test_an_answer_that_says_what_was_sent_is_not_kept() -> None:
    state = MirrorState()
    state.note_answer(SENT, ANSWER)
    assert state.answers == {}


def test_an_answer_that_says_something_else_is_kept_until_another_one_comes() -> None:
    state = MirrorState()
    state.note_answer(SENT, OTHERWISE)
    assert state.answers == {"web-1": Answer("7", SENT)}
    state.note_answer(SENT, ANSWER)
    assert state.answers == {}


def test_of_a_slice_that_went_nothing_is_kept() -> None:
    state = MirrorState()
    state.slice_names.add("web-1")
    state.note_answer(SENT, OTHERWISE)
    state.forget_slice("web-1")
    assert (state.slice_names, state.answers) == (set(), {})


def test_news_is_what_was_not_so_the_last_time() -> None:
    state = MirrorState()
    assert state.news("e-1", (ONE,)) == [ONE]
    assert state.news("e-1", (ONE, TWO)) == [TWO]
    assert state.news("e-1", (TWO,)) == []
    assert state.news("e-1", ()) == []
    assert state.news("e-1", (TWO,)) == [TWO]
    assert state.news("e-2", (TWO,)) == [TWO]
