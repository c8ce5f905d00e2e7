"""JSON and YAML bodies: duplicates, and kube-apiserver 1.36's error messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinykube.server.errors import StatusError
from tinykube.server.schema.decoder import TypedDecoder
from tinykube.server.schema.go_json import syntax_error
from tinykube.server.schema.json_text import SyntaxProblemError, decode_json, in_document_order
from tinykube.server.schema.yaml_text import YamlProblemError, decode_yaml


def test_duplicate_keys_are_reported_with_their_path_and_the_last_value_wins() -> None:
    text = b'{"metadata":{"name":"x","name":"y","labels":{"a":"1","a":"2","a":"3"}},"l":[{"p":80,"p":81}]}'
    value, duplicates = decode_json(text)
    assert value == {"metadata": {"name": "y", "labels": {"a": "3"}}, "l": [{"p": 81}]}
    assert duplicates == (
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.a"',
        'duplicate field "l[0].p"',
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a":1', "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
        ('{"a":{"b":"x"},}', "invalid character '}' looking for beginning of object key string"),
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ('{"a":1} {"b":2}', "invalid character '{' after top-level value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
    ],
)
def test_malformed_json_is_rejected_with_the_message_of_go(text: str, problem: str) -> None:
    with pytest.raises(SyntaxProblemError) as caught:
        decode_json(text.encode())
    assert str(caught.value) == problem


@given(st.text(alphabet='{}[]":,0123456789.eE+-truefalsn\\ \n', max_size=12))
def test_syntax_errors_are_reported_exactly_for_undecodable_texts(text: str) -> None:
    problem = syntax_error(text.encode())
    try:
        decode_json(text.encode())
    except SyntaxProblemError:
        # Go accepts only a lone surrogate.
        assert problem or "\\u" in text
    else:
        assert problem == ""


_members: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["1", '"a"', "null", '"<\\u00e9"', "1e3"]).map(lambda text: (text, False)),
    lambda inner: st.lists(st.tuples(st.sampled_from(["a", "b", "<"]), inner), max_size=3).map(
        lambda pairs: (
            "{" + ", ".join(f'"{name}": {text}' for name, (text, _) in pairs) + "}",
            len({name for name, _ in pairs}) < len(pairs) or any(twice for _, (_, twice) in pairs),
        )
    ),
    max_leaves=8,
)


@given(_members)
def test_duplicates_are_reported_exactly_for_bodies_that_have_some(made: tuple[str, bool]) -> None:
    text, has_duplicates = made
    assert bool(decode_json(text.encode())[1]) is has_duplicates


def test_deeply_nested_bodies_are_rejected() -> None:
    for opening in (b"[", b'{"a":'):
        with pytest.raises(SyntaxProblemError, match="exceeded max depth"):
            decode_json(opening * 100_000)
        with pytest.raises(YamlProblemError):
            decode_yaml(opening * 100_000)


def test_a_decode_error_quotes_the_start_of_the_body() -> None:
    decoder = TypedDecoder()
    for body, quoted in (
        (b"", "(<empty>)"),
        (b"nope", "(6e6f7065)"),
        (b'{"a":1', '({"a":1)'),
        (b'{"metadata":{"name":"x"}} {"a":1}', '({"metadata":{"name":"x"}} {"a" ...)'),
    ):
        with pytest.raises(StatusError) as caught:
            decoder.json(body)
        assert caught.value.code == 400
        assert caught.value.message.startswith("couldn't get version/kind; json parse error: ")
        assert caught.value.message.endswith(quoted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", {"a": True}),
        ("a: y", {"a": True}),
        ("a: Off", {"a": False}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 12:30:45", {"a": "12:30:45"}),
        ("a: =", {"a": "="}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 0777", {"a": 511}),
        ("a: 0o7", {"a": 7}),
        ("a: 0x1f", {"a": 31}),
        ("a: 1_000", {"a": 1000}),
        ("a: .5", {"a": 0.5}),
        ("a: ~", {"a": None}),
        ("a: !!binary YQ==", {"a": "a"}),
        ("{5: a, true: b, 1.5: c}", {"5": "a", "true": "b", "1.5": "c"}),
        ("x: &x {a: b}\nz: {<<: *x, c: d}", {"x": {"a": "b"}, "z": {"a": "b", "c": "d"}}),
        ("x: &x {a: b}\nz: {a: c, <<: *x}", {"x": {"a": "b"}, "z": {"a": "b"}}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("- a", ["a"]),
        ("", None),
        ('{"a": [1, null]}', {"a": [1, None]}),
    ],
)
def test_yaml_values_are_those_of_the_go_library(text: str, value: Any) -> None:
    assert decode_yaml(text.encode()) == (value, ())


def test_duplicates_in_yaml_are_reported_with_line_numbers() -> None:
    text = 'metadata:\n  name: x\n  name: z\ndata:\n  a: "1"\n  a: "2"\n'
    value, duplicates = decode_yaml(text.encode())
    assert value == {"metadata": {"name": "z"}, "data": {"a": "2"}}
    assert duplicates == (
        'yaml: unmarshal errors:\n  line 3: key "name" already set in map\n  line 6: key "a" already set in map',
    )


def test_aliases_of_an_anchor_share_no_data() -> None:
    value, _ = decode_yaml(b"x: &x {a: [1]}\nz: *x")
    value["x"]["a"].append(2)
    assert value["z"] == {"a": [1]}


def test_recursive_and_exponential_aliases_are_rejected() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    with pytest.raises(YamlProblemError, match="excessive aliasing"):
        decode_yaml("\n".join(lines).encode())
    with pytest.raises(YamlProblemError, match="contains itself"):
        decode_yaml(b"a: &a [*a]")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metadata: {name: x\ndata", "yaml: line 3: did not find expected ',' or '}'"),
        ("a: b: c\n", "yaml: line 1: mapping values are not allowed in this context"),
        ("\tx: 1\n", "yaml: line 1: found character that cannot start any token"),
        ("a: .inf", "yaml: line 1: json: unsupported value: .inf"),
        ("? [a]\n: b", "yaml: line 1: a key must be a string"),
        ("a: *b", "undefined alias"),
        ("\x00", "yaml: "),
    ],
)
def test_invalid_yaml_is_rejected_in_one_line_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(YamlProblemError) as caught:
        decode_yaml(text.encode())
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_with_a_yaml_content_type_is_decoded_as_json() -> None:
    assert TypedDecoder().yaml(b'{"a":"1","a":"2"}') == ({"a": "2"}, ('duplicate field "a"',))
    with pytest.raises(StatusError, match="yaml: line 1: mapping values"):
        TypedDecoder().yaml(b"a: b: c")


def test_deeply_nested_yaml_is_rejected_before_composing() -> None:
    # The C library composes recursively, and would crash the process.
    for text in (b"[" * 200_000, b"- " * 200_000, b"? " * 100_000, b"{a: " * 100_000):
        with pytest.raises(YamlProblemError):
            decode_yaml(text)
    assert decode_yaml(b"[" * 200 + b"]" * 200)[1] == ()


def test_duplicate_and_unknown_fields_are_reported_in_document_order() -> None:
    body = b'{"spec": {"odd": 1, "replicas": 2, "replicas": 3, "late": 4, "odd2": [{"x": 1, "x": 2}]}}'
    _, duplicates = decode_json(body)
    unknown = ('unknown field "spec.odd"', 'unknown field "spec.late"', 'unknown field "spec.odd2"')
    assert list(in_document_order((*duplicates, *unknown))) == [
        'unknown field "spec.odd"',
        'duplicate field "spec.replicas"',
        'unknown field "spec.late"',
        'unknown field "spec.odd2"',
        'duplicate field "spec.odd2[0].x"',
    ]
    assert in_document_order(unknown) is unknown
