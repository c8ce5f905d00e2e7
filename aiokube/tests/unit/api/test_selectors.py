"""Label selectors: matching, text and JSON forms, and errors."""

import msgspec
import pytest

from aiokube.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    matches,
    parse_selector,
    selector_of,
)


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({}, {}, True),
        ({}, {"a": "1"}, True),
        ({"a": "1"}, {}, False),
        ({"a": "1"}, {"a": "1", "b": "2"}, True),
        ({"a": "1"}, {"a": "2"}, False),
        ({"a": "1", "b": "2"}, {"a": "1"}, False),
        ({"a": ""}, {}, False),
        ({"a": ""}, {"a": ""}, True),
    ],
)
def test_an_equality_selector_matches_labels_that_contain_all_its_pairs(
    selector: dict[str, str], labels: dict[str, str], expected: bool
) -> None:
    assert matches(selector, labels) is expected
    assert Selector.from_labels(selector).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {"x": "y"}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {"a": "2"}, False),
        ("a notin (1,2)", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": ""}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a>5", {"a": "six"}, False),
        ("a>5", {}, False),
        ("a<5", {"a": "-6"}, True),
        ("a<5", {"a": "5"}, False),
        ("a<5", {"a": "99999999999999999999"}, False),
        ("a>5", {"a": "99999999999999999999"}, False),
        ("a=1,b!=2, c in (x, y) ,!d", {"a": "1", "b": "3", "c": "y"}, True),
        ("a=1,b!=2, c in (x, y) ,!d", {"a": "1", "b": "3", "c": "y", "d": ""}, False),
    ],
)
def test_a_requirement_matches_by_a_single_label(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("  ", ""),
        ("b = 2 , a=1", "a=1,b=2"),
        ("a==1", "a==1"),
        ("a in (z,b,b)", "a in (b,z)"),
        ("a notin(b)", "a notin (b)"),
        ("! a", "!a"),
        ("a>1,a<9", "a>1,a<9"),
        ("example.com/name=x", "example.com/name=x"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a in (,b)", "a in (,b)"),
        ("a=,b", "a=,b"),
    ],
)
def test_a_printed_selector_parses_back_to_itself(text: str, printed: str) -> None:
    selector = parse_selector(text)
    assert str(selector) == printed
    assert parse_selector(printed) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "selector 'a=b,': a label key after ',' expected, the end found"),
        (",a", "selector ',a': a label key expected, ',' found"),
        ("a b", "'=', '==', '!=', 'in', 'notin', '<', '>', ',' or the end expected, 'b' found"),
        ("a in b", "'(' expected, 'b' found"),
        ("a in (b", "',' or ')' expected, the end found"),
        ("a in (b c)", "',' or ')' expected, 'c' found"),
        ("!a=b", "',' or the end expected, '=' found"),
        ("a=b=c", "',' or the end expected, '=' found"),
        ("a=(", "a value expected, '(' found"),
        ("!", "a label key expected, the end found"),
        ("a>x", "Gt on label 'a' compares with a whole number, not 'x'"),
        ("a>", "Gt on label 'a' compares with a whole number, not ''"),
        ("-a", "label key '-a': the name must be"),
        ("Bad_/a", "label key 'Bad_/a': the part before the slash must be"),
        ("a/b/c", "label key 'a/b/c': the part before the slash must be"),
        ("/a", "label key '/a': the part before the slash must be"),
        (f"{'a.' * 126}aa/b", "the part before the slash must be"),
        ("a=-", "value '-' of label 'a' must be empty, or"),
        (f"a={'x' * 64}", "of label 'a' must be empty, or at most 63"),
    ],
)
def test_an_invalid_selector_reports_the_expected_token_and_its_position(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert message in str(caught.value)
    assert repr(text) in str(caught.value)


def test_the_json_form_combines_labels_and_expressions() -> None:
    form = msgspec.json.decode(
        b"""{"matchLabels": {"b": "2"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"}, {"key": "e", "operator": "NotIn", "values": ["z"]}]}""",
        type=LabelSelector,
    )
    assert str(selector_of(form)) == "a in (x,y),b=2,c,!d,e notin (z)"


def test_a_missing_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert selector_of(None) is NOTHING
    assert Selector.from_labels(None) is NOTHING
    assert not NOTHING.matches({})
    assert selector_of(LabelSelector()) == EVERYTHING
    assert EVERYTHING.matches({})
    assert str(NOTHING) == "<nothing>"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (LabelSelectorRequirement("a", "Gt", ("1",)), "unknown operator 'Gt' for label 'a'"),
        (LabelSelectorRequirement("a", "In"), "In on label 'a' needs at least one value"),
        (LabelSelectorRequirement("a", "Exists", ("x",)), "Exists on label 'a' takes no values"),
        (LabelSelectorRequirement("", "Exists"), "label key ''"),
    ],
)
def test_the_json_form_rejects_requirements_that_the_api_server_rejects(
    entry: LabelSelectorRequirement, message: str
) -> None:
    with pytest.raises(SelectorError, match=message.replace("(", r"\(")):
        selector_of(LabelSelector(match_expressions=(entry,)))


def test_an_equality_requirement_takes_exactly_one_value() -> None:
    with pytest.raises(SelectorError, match="takes exactly one value, not 2"):
        Requirement.of("a", Operator.EQUALS, ("x", "y"))
