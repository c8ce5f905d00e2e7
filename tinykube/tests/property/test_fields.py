"""Invariants of field sets, comparisons and applies, for random documents."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tinykube.server.errors import StatusError
from tinykube.server.fields.compare import compare
from tinykube.server.fields.elements import canonical_set
from tinykube.server.fields.kinds import empty, version_of
from tinykube.server.fields.managed_fields import Tracked, Writer, after_writing, apply
from tinykube.server.fields.merge import merged, without
from tinykube.server.fields.nodes import field_set, kind_node
from tinykube.server.fields.sets import (
    FieldSet,
    Path,
    difference,
    from_paths,
    has,
    intersection,
    paths,
    recursive_difference,
    union,
)
from tinykube.server.objects import JsonObject
from tinykube.server.schema.conform import conform
from tinykube.server.schema.loader import kind_type

SERVICE = kind_node("", "v1", "Service")
TRACKED = Tracked("", "v1", "Service", version_of("", "v1", "Service", "", True), empty("", "v1", "Service"))

elements = st.sampled_from(["f:a", "f:b", 'k:{"p":1}', "v:1", "f:c"])
path_sets = st.frozensets(st.lists(elements, min_size=1, max_size=3).map(tuple), max_size=8)

text_maps = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
ports = st.lists(
    st.builds(
        lambda port, protocol, more: {"port": port, "protocol": protocol, **more},
        st.sampled_from([80, 81, 82]),
        st.sampled_from(["TCP", "UDP"]),
        st.fixed_dictionaries({}, optional={"name": st.sampled_from("xy"), "targetPort": st.just(8080)}),
    ),
    max_size=3,
    unique_by=lambda port: (port["port"], port["protocol"]),
)
contents = st.fixed_dictionaries(
    {},
    optional={
        "labels": text_maps,
        "finalizers": st.lists(st.sampled_from(["x/a", "x/b", "x/c"]), max_size=3, unique=True),
        "selector": text_maps,
        "ports": ports,
        "type": st.sampled_from(["ClusterIP", "NodePort"]),
    },
)


def made_of(pairs: frozenset[Path]) -> FieldSet:
    return from_paths(*sorted(pairs))


def service(content: JsonObject) -> JsonObject:
    metadata: JsonObject = {"name": "a"}
    spec: JsonObject = {}
    for name, value in copy.deepcopy(content).items():
        (metadata if name in ("labels", "finalizers") else spec)[name] = value
    document: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
    return {**document, "spec": spec} if spec else document


def stored(content: JsonObject) -> JsonObject:
    document = service(content)
    conform(kind_type("", "v1", "Service"), document)
    return document


@given(path_sets, path_sets)
def test_field_sets_behave_like_sets_of_paths(one: frozenset[Path], other: frozenset[Path]) -> None:
    mine, theirs = made_of(one), made_of(other)
    assert frozenset(paths(mine)) == one
    assert frozenset(paths(union(mine, theirs))) == one | other
    assert frozenset(paths(intersection(mine, theirs))) == one & other
    assert frozenset(paths(difference(mine, theirs))) == one - other
    assert all(has(mine, path) == (path in one) for path in one | other)


@given(path_sets, path_sets)
def test_recursive_difference_removes_paths_with_all_descendants(
    one: frozenset[Path], other: frozenset[Path]
) -> None:
    left = {path for path in one if not any(path[: len(gone)] == gone for gone in other)}
    assert set(paths(recursive_difference(made_of(one), made_of(other)))) == left


@given(path_sets, path_sets)
def test_equal_sets_have_equal_encodings(one: frozenset[Path], other: frozenset[Path]) -> None:
    mine, theirs = made_of(one), made_of(other)
    before = copy.deepcopy((mine, theirs))
    assert union(difference(mine, theirs), intersection(mine, theirs)) == mine
    assert union(mine, theirs) == made_of(one | other) == union(theirs, mine)
    assert canonical_set(mine) == mine
    assert (mine, theirs) == before, "an operation has modified its arguments"


@given(contents, contents)
def test_reversing_a_comparison_swaps_added_and_removed(one: JsonObject, other: JsonObject) -> None:
    there, back = compare(SERVICE, stored(one), stored(other)), compare(SERVICE, stored(other), stored(one))
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)
    assert there.is_same == (stored(one) == stored(other) or _same_but_order(one, other))


def _same_but_order(one: JsonObject, other: JsonObject) -> bool:
    def ordered(content: JsonObject) -> Any:
        return {
            name: sorted(map(str, value)) if isinstance(value, list) else value
            for name, value in content.items()
            if value
        }

    return bool(ordered(one) == ordered(other))


@given(contents, contents)
def test_merging_is_idempotent(live: JsonObject, body: JsonObject) -> None:
    first = merged(SERVICE, stored(live), service(body))
    assert merged(SERVICE, first, service(body)) == first


@given(contents, contents)
def test_applied_fields_are_present_after_a_merge(live: JsonObject, body: JsonObject) -> None:
    result = merged(SERVICE, stored(live), service(body))
    there = compare(SERVICE, service(body), result)
    assert not there.modified
    assert all(len(path) < 3 for path in paths(there.removed)), "only empty values may be omitted"


@given(contents)
def test_removing_all_fields_leaves_none_of_them(content: JsonObject) -> None:
    document = service(content)
    left = without(SERVICE, document, field_set(SERVICE, document)) or {}
    assert not set(paths(field_set(SERVICE, left))) & {
        path for path in paths(field_set(SERVICE, document)) if len(path) > 2
    }


applies = st.lists(
    st.tuples(st.sampled_from(["m1", "m2", "m3"]), contents, st.booleans(), st.booleans()), max_size=6
)


def run(steps: list[tuple[str, JsonObject, bool, bool]]) -> JsonObject | None:
    """Run some writes, applies and others; return the resulting object."""
    live: JsonObject | None = None
    for second, (manager, content, force, is_apply) in enumerate(steps):
        who = Writer(manager, "", f"2026-01-01T00:00:{second:02}Z")
        if is_apply or live is None:
            try:
                new, entries = apply(TRACKED, who, live, service(content), force=force)
            except StatusError:
                continue
            new = copy.deepcopy(new)
        else:
            new = stored(content)
            entries = after_writing(TRACKED, who, live, new, None)
        new["metadata"].pop("managedFields", None)
        conform(kind_type("", "v1", "Service"), new)
        new["metadata"]["uid"] = "u"
        if entries:
            new["metadata"]["managedFields"] = copy.deepcopy(entries)
        live = new
    return live


@given(applies)
def test_owned_fields_exist(steps: list[tuple[str, JsonObject, bool, bool]]) -> None:
    live = run(steps)
    if live is not None:
        there = set(paths(field_set(SERVICE, live)))
        named = {path[:length] for path in there for length in range(1, len(path) + 1)}
        for entry in live["metadata"].get("managedFields", ()):
            assert set(paths(entry["fieldsV1"])) <= named | {
                ("f:metadata", "f:labels"),
                ("f:metadata", "f:finalizers"),
                ("f:spec", "f:selector"),
                ("f:spec", "f:ports"),
            }, entry


@given(applies, contents)
def test_repeating_an_apply_changes_nothing_and_never_conflicts(
    steps: list[tuple[str, JsonObject, bool, bool]], body: JsonObject
) -> None:
    live = run([*steps, ("m4", body, True, True)])
    again = run([*steps, ("m4", body, True, True), ("m4", body, False, True)])
    assert live is not None
    assert again is not None
    assert {**again, "metadata": _untimed(again)} == {**live, "metadata": _untimed(live)}


def _untimed(document: JsonObject) -> JsonObject:
    entries = [{**entry, "time": ""} for entry in document["metadata"].get("managedFields", ())]
    return {**document["metadata"], "managedFields": entries}


@given(contents)
def test_an_empty_apply_removes_everything_applied_before(body: JsonObject) -> None:
    live = run([("m1", body, False, True), ("m1", {}, False, True)])
    assert live is not None
    assert "managedFields" not in live["metadata"]
    assert not set(live["spec"]) & set(body)
    assert not set(live["metadata"]) & {"labels", "finalizers"}
