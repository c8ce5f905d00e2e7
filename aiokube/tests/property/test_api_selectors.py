"""Selectors survive a round trip through text, and match according to their definition."""

from hypothesis import given
from hypothesis import strategies as st

from aiokube.api.selectors import (
    Operator,
    Requirement,
    Selector,
    SelectorError,
    matches,
    parse_selector,
)

KEYS = st.sampled_from(["a", "b", "app.kubernetes.io/name", "in", "notin", "x_1"])
VALUES = st.sampled_from(["", "1", "22", "web", "a.b", "in"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(list(Operator)))
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        values: list[str] = []
    elif operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        values = [str(draw(st.integers(0, 30)))]
    elif operator in (Operator.IN, Operator.NOT_IN):
        values = draw(st.lists(VALUES, min_size=1, max_size=3))
    else:
        values = [draw(VALUES)]
    return Requirement.of(draw(KEYS), operator, values)


@given(st.lists(requirements(), max_size=4))
def test_a_printed_selector_parses_to_the_same_selector(found: list[Requirement]) -> None:
    selector = Selector(tuple(sorted(found, key=lambda requirement: requirement.key)))
    assert parse_selector(str(selector)) == selector


@given(LABELS, LABELS)
def test_both_forms_of_an_equality_selector_match_the_same_labels(
    selector: dict[str, str], labels: dict[str, str]
) -> None:
    expected = selector.items() <= labels.items()
    assert matches(selector, labels) is expected
    assert Selector.from_labels(selector).matches(labels) is expected


@given(KEYS, st.lists(VALUES, min_size=1), LABELS)
def test_in_and_notin_are_complementary(key: str, values: list[str], labels: dict[str, str]) -> None:
    within = Requirement.of(key, Operator.IN, values).matches(labels)
    assert Requirement.of(key, Operator.NOT_IN, values).matches(labels) is not within


@given(st.text(alphabet="ab=!<>(), in/-", max_size=16))
def test_any_text_parses_as_a_selector_or_raises_a_selector_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError as error:
        message = str(error)
    else:
        assert parse_selector(str(selector)) == selector
        return
    assert repr(text) in message
