"""For any bytes, each parser of the server returns a value or a bad request, at bounded cost.

A bounded run is part of ``make test``; ``make fuzz`` runs FUZZ_EXAMPLES examples. Hypothesis targets bodies
with the most calls per byte.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings, target
from hypothesis import strategies as st

from tinykube.server.custom.definition_limits import limit_errors
from tinykube.server.custom.jsonpath import JsonPathError, json_path
from tinykube.server.custom.patterns import PatternError, go_pattern
from tinykube.server.custom.structural_schema import drop_nulls, fill_defaults, prune
from tinykube.server.custom.values import value_errors
from tinykube.server.errors import StatusError
from tinykube.server.fields.elements import ElementError, canonical_set
from tinykube.server.fields.managed_fields import Tracked, Writer, apply
from tinykube.server.fields.structural import structural_node
from tinykube.server.fields.updater import Version
from tinykube.server.patch.service import TypedPatches
from tinykube.server.schema.decoder import TypedDecoder
from tinykube.server.schema.quantities import canonical_quantity
from tinykube.server.schema.service import TypeSchema

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "20"))
MOST_CALLS, MOST_CALLS_PER_BYTE = 6_000, 80
"""Call limits: a constant for any body, plus a number per byte."""
MOST_CALLS_OF_ALIASES = 2_000_000
"""Aliases may expand to 100,000 values, however short the body is."""

bounded = settings(
    max_examples=EXAMPLES,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
KINDS = (
    ("", "v1", "ConfigMap"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
)
NAMES = (
    "metadata", "name", "labels", "annotations", "finalizers", "ownerReferences", "uid", "managedFields", "spec", "data",
    "containers", "env", "value", "image", "ports", "port", "targetPort", "resources", "limits", "cpu", "creationTimestamp",
    "$patch", "$retainKeys", "$setElementOrder/env", "$deleteFromPrimitiveList/finalizers", "op", "path", "from", "items",
    "a", "", "f:a", 'k:{"name":"a"}', "v:1", ".", "<<",
)  # fmt: skip
LEAVES = (
    None, True, 0, -1, 80, 2**31, 2**63, 2**64, 10**25, 1e308, 0.1, "", "a", "0x" + "f" * 40, "1e400", "9" * 300, "500m", "merge",
    "replace", "delete", "add", "remove", "test", "copy", "move", "/metadata/name", "/data/-", "/a/0", "2026-01-01T00:00:00Z",
    "x" * 200, "\x00", "é", "{[{[",
)  # fmt: skip
leaves = st.sampled_from(LEAVES) | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=30,
)
documents = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)
depths = st.builds(
    lambda opening, count, closing: opening * count + b"1" + closing * count,
    st.sampled_from((b'{"a":', b"[", b"- ", b"a: &a\n ")),
    st.integers(1, 400),
    st.sampled_from((b"}", b"]", b"")),
)
texts = documents.map(lambda value: json.dumps(value).encode())
aliases = st.builds(
    lambda count, width: b"\n".join(
        b"k%d: &k%d [%s]" % (at, at, b",".join([b"*k%d" % (at - 1) if at else b"1"] * width))
        for at in range(count)
    ),
    st.integers(1, 4),
    st.integers(1, 4),
)
merges = st.lists(
    st.sampled_from((b"  <<: {a: 1}", b"  <<: [{b: 1}]", b"  c: 1", b"  <<: *x")), max_size=40
).map(lambda lines: b"x: &x {d: 1}\ny:\n" + b"\n".join(lines))
broken = st.builds(
    lambda text, at, piece: text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) :],
    texts,
    st.integers(0, 10_000),
    st.binary(max_size=4),
)
bodies = texts | broken | depths | aliases | merges | st.binary(max_size=200)


def cost(work: Callable[[], object], size: int, *, most_calls: int = MOST_CALLS) -> None:
    """Run the work; fail if it costs more calls than its size allows. StatusErrors are allowed."""
    calls = 0
    refusal: StatusError | None = None

    def note(frame: object, kind: str, argument: object) -> None:
        nonlocal calls
        calls += kind in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    except StatusError as error:
        refusal = error
    finally:
        sys.setprofile(None)
    if refusal is not None:
        event(f"refused with {refusal.code}")
        assert refusal.reason != "InternalError", refusal
    target(float(calls) / (size + 100), label="calls per byte")
    assert calls <= most_calls + MOST_CALLS_PER_BYTE * size, f"{calls} calls for {size} bytes"


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile the tables that are created on first use: they are not part of a body's cost."""
    schema = TypeSchema()
    for group, version, kind in KINDS:
        document: dict[str, Any] = {"spec": {}, "metadata": {}}
        schema.conform(group, version, kind, document)
        schema.apply_defaults(group, version, kind, document)
    TypedDecoder().yaml(b"a: [1, x, 2026-01-01, 1.5]")
    value_errors({"spec": {"value": "a"}}, SCHEMA)


@bounded
@given(bodies)
def test_json_bodies_are_decoded_at_bounded_cost(body: bytes) -> None:
    cost(lambda: TypedDecoder().json(body), len(body))


@bounded
@given(bodies)
def test_yaml_bodies_are_decoded_at_bounded_cost(body: bytes) -> None:
    cost(lambda: TypedDecoder().yaml(body), len(body), most_calls=MOST_CALLS_OF_ALIASES)


@bounded
@given(st.sampled_from(KINDS), st.binary(max_size=300) | broken, st.booleans())
def test_protobuf_bodies_are_decoded_at_bounded_cost(
    kind: tuple[str, str, str], body: bytes, is_framed: bool
) -> None:
    sent = b"k8s\x00\x12" + bytes((len(body) & 0x7F,)) + body if is_framed else body
    cost(lambda: TypedDecoder().protobuf(sent, *kind), len(sent))


@bounded
@given(st.sampled_from(KINDS), documents)
def test_documents_are_conformed_and_defaulted_at_bounded_cost(
    kind: tuple[str, str, str], document: dict[str, Any]
) -> None:
    schema = TypeSchema()

    def work() -> None:
        schema.conform(*kind, document)
        schema.apply_defaults(*kind, document)

    cost(work, len(json.dumps(document)))


@bounded
@given(
    st.sampled_from(("json", "merge", "strategic")),
    st.sampled_from(KINDS),
    documents,
    documents | st.lists(documents, max_size=8) | values,
)
def test_patches_are_applied_at_bounded_cost(
    patch_type: Any, kind: tuple[str, str, str], document: dict[str, Any], patch: Any
) -> None:
    size = len(json.dumps(document)) + len(json.dumps(patch))

    def work() -> None:
        conformed = dict(document)
        TypeSchema().conform(*kind, conformed)
        TypedPatches().apply(patch_type, *kind, conformed, patch)

    cost(work, size)


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string", "default": "n"}}},
                },
                "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "value": {"type": "string", "pattern": "^(a+)+$", "default": "a"},
            },
        }
    },
}


@bounded
@given(documents, documents, st.booleans())
def test_applies_of_custom_resources_have_bounded_cost(
    live: dict[str, Any], wanted: dict[str, Any], force: bool
) -> None:
    version = Version("example.com/v1", structural_node(SCHEMA), {})
    about = Tracked("example.com", "v1", "Widget", version, {}, lambda name: version)
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    stored = {**head, "metadata": {"name": "a"}, "spec": live}
    cost(
        lambda: apply(about, Writer("m", "", "2026-01-01T00:00:00Z"), stored, {**head, "spec": wanted}, force=force),
        len(json.dumps(stored)) + len(json.dumps(wanted)),
    )  # fmt: skip


@bounded
@given(documents)
def test_custom_resources_are_validated_at_bounded_cost(document: dict[str, Any]) -> None:
    def work() -> None:
        prune(document, SCHEMA)
        drop_nulls(document, SCHEMA)
        fill_defaults(document, SCHEMA)
        value_errors(document, SCHEMA)

    cost(work, len(json.dumps(document)))


@bounded
@given(values)
def test_field_sets_are_normalised_at_bounded_cost(given_fields: Any) -> None:
    def work() -> None:
        try:
            canonical_set(given_fields)
        except ElementError:
            event("refused")

    cost(work, len(json.dumps(given_fields)))


pieces = st.lists(
    st.sampled_from(("(", ")", "[", "]", "*", "+", "?", "{2}", "{1,9}", "a", ".", "|", "^", "$", "\\d", "\\p{L}", "..", "'", "@"))
    | st.text(max_size=2),
    max_size=20,
).map("".join)  # fmt: skip


@bounded
@given(pieces, values)
def test_patterns_and_json_paths_are_evaluated_or_rejected(text: str, document: Any) -> None:
    try:
        go_pattern(text).search("a" * 1_000)
    except PatternError:
        event("no pattern")
    try:
        json_path(text).find(document)
    except JsonPathError:
        event("no path")


@bounded
@given(documents)
def test_definition_limits_are_checked_at_bounded_cost(schema: dict[str, Any]) -> None:
    definition = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    cost(lambda: limit_errors(definition), len(json.dumps(schema)))


@bounded
@given(st.text(alphabet="0123456789.eE+-mkKMGTPEinu ", max_size=400) | st.text(max_size=20))
def test_quantities_are_normalised_or_rejected(text: str) -> None:
    try:
        spelled = canonical_quantity(text)
    except ValueError:
        event("no quantity")
    else:
        assert len(spelled) <= 1_500
