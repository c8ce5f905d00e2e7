"""Parts of custom resource definitions: names, paths, patterns, formats, columns, replicas."""

from typing import Any

import pytest

from tinykube.server.custom.columns import columns_of
from tinykube.server.custom.crd_definitions import version_order
from tinykube.server.custom.formats import is_known, text_matches
from tinykube.server.custom.jsonpath import JsonPathError, json_path
from tinykube.server.custom.list_and_embedded_validation import embedded_errors, list_errors
from tinykube.server.custom.names import (
    ESTABLISHED,
    NAMES_ACCEPTED,
    accept_names,
    condition,
    is_true,
    taken_names,
)
from tinykube.server.custom.patterns import PatternError, go_pattern
from tinykube.server.custom.scale import scale_errors

NOW, LATER = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"


def crd(kind: str, plural: str, /, **names: Any) -> dict[str, Any]:
    own = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **names}
    return {"metadata": {"name": plural}, "spec": {"group": "g.io", "names": own}}


# ------------------------------------------------------------------------------------------------- names


def test_free_names_are_accepted_and_the_definition_is_established() -> None:
    one = crd("A", "as", shortNames=["x"])
    accept_names(one, taken_names([]), NOW)
    assert one["status"]["acceptedNames"] == one["spec"]["names"]
    assert is_true(one, NAMES_ACCEPTED)
    assert is_true(one, ESTABLISHED)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"kind": "A", "listKind": "BList", "singular": "b"}, "KindConflict"),
        ({"listKind": "AList"}, "ListKindConflict"),
        ({"singular": "a"}, "SingularConflict"),
        ({"shortNames": ["x", "y"]}, "ShortNamesConflict"),
        ({"shortNames": ["as"]}, "ShortNamesConflict"),
    ],
)
def test_conflicting_names_are_not_accepted(names: dict[str, Any], reason: str) -> None:
    one, other = crd("A", "as", shortNames=["x"]), crd("B", "bs", **names)
    accept_names(one, taken_names([]), NOW)
    accept_names(other, taken_names([one]), NOW)
    found = condition(other, NAMES_ACCEPTED)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", reason)
    assert not is_true(other, ESTABLISHED)


def test_names_are_accepted_once_they_become_free() -> None:
    one, other = crd("A", "as", shortNames=["x"]), crd("B", "bs", shortNames=["x"])
    accept_names(one, taken_names([]), NOW)
    accept_names(other, taken_names([one]), NOW)
    accept_names(other, taken_names([]), LATER)
    assert is_true(other, ESTABLISHED)
    found = condition(other, ESTABLISHED)
    assert found is not None
    assert found["lastTransitionTime"] == LATER


def test_an_established_definition_stays_established_when_a_new_name_conflicts() -> None:
    one, other = crd("A", "as", shortNames=["x"]), crd("B", "bs")
    for each, others in ((one, []), (other, [one])):
        accept_names(each, taken_names(others), NOW)
    other["spec"]["names"]["shortNames"] = ["x"]
    accept_names(other, taken_names([one]), LATER)
    assert not is_true(other, NAMES_ACCEPTED)
    assert is_true(other, ESTABLISHED)
    assert "shortNames" not in other["status"]["acceptedNames"]


def test_versions_are_sorted_by_kubernetes_priority() -> None:
    versions = ["foo1", "v1alpha1", "v1beta2", "v10", "v2", "v1beta1", "v11alpha2", "foo10"]
    assert sorted(versions, key=version_order) == [
        "v10", "v2", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo1", "foo10",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------- paths

OBJECT = {
    "spec": {"size": 3, "list": [1, 2, 3], "a.b": "x", "on": True},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False", "n": 3}]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".spec.none.more", []),
        (".spec.list[1]", [2]),
        (".spec.list[-1]", [3]),
        (".spec.list[7]", []),
        (".spec.list[*]", [1, 2, 3]),
        (".spec.list[0:2]", [1, 2]),
        (".spec['a.b']", ["x"]),
        (r".spec.a\.b", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ("$.status.conditions[?(@.n>2)].type", ["Old"]),
        (".status.conditions[?(@.n)].type", ["Old"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        ("..n", [3]),
        (".", [OBJECT]),
    ],
)
def test_json_paths_find_values(path: str, found: list[Any]) -> None:
    assert json_path(path).find(OBJECT) == found


@pytest.mark.parametrize("path", [".spec[", ".spec[?(@.a==b)]", ".spec.list[x]"])
def test_invalid_json_paths_are_rejected(path: str) -> None:
    with pytest.raises(JsonPathError):
        json_path(path)


# ---------------------------------------------------------------------------------- patterns and formats


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d+$", "12", "٣"),
        ("[[:alpha:]]+", "ab", "12"),
        (r"^\p{Lu}", "A", "a"),
        (r"^\p{Greek}+$", "αβγ", "abc"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^(?<n>a)b\z", "ab", "abc"),
        ("^[^]a]$", "b", "]"),
        ("(?i)^a$", "A", "b"),
    ],
)
def test_patterns_have_go_semantics(pattern: str, fits: str, fails: str) -> None:
    assert go_pattern(pattern).search(fits)
    assert not go_pattern(pattern).search(fails)


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "*a", "(?=a)", r"(a)\1", "[[:none:]]", r"\p{None}", "a{1001}"]
)
def test_patterns_that_go_rejects_are_rejected(pattern: str) -> None:
    with pytest.raises(PatternError):
        go_pattern(pattern)


@pytest.mark.parametrize(
    ("name", "fits", "fails"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-02-29T10:00:00.5+02:00", "2024-02-29 25:00:00"),
        ("duration", "1h30m", "soon"),
        ("duration", "22 ns", "22 years"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "01:02:03:04:05:06", "01:02:03"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
        ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("byte", "aGk=", "aGk"),
        ("uri", "https://example.com/a", "a b"),
        ("email", "a@example.com", "a"),
        ("hostname", "example.com", "-a"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "111-22-3333", "1-2"),
        ("hexcolor", "#FFF", "#FFFF"),
        ("rgbcolor", "rgb(1,2,255)", "rgb(1,2)"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
    ],
)
def test_formats_match_valid_texts_and_reject_invalid_ones(name: str, fits: str, fails: str) -> None:
    assert is_known(name, "string")
    assert text_matches(name, fits)
    assert not text_matches(name, fails)


def test_formats_apply_to_their_types_only() -> None:
    assert is_known("int32", "integer")
    assert not is_known("int32", "string")
    assert not is_known("date", "integer")


# ------------------------------------------------------------------------------------ columns and replicas


def test_column_cells_match_the_type_of_the_column() -> None:
    wanted = [
        {"name": "S", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "L", "type": "string", "jsonPath": ".spec.list", "priority": 1},
        {"name": "O", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "N", "type": "integer", "jsonPath": ".spec.on"},
        {"name": "D", "type": "date", "jsonPath": ".spec.size"},
        {"name": "X", "type": "string", "jsonPath": ".spec.none"},
    ]
    columns = columns_of({"additionalPrinterColumns": wanted})
    assert [column.name for column in columns] == ["Name", "S", "L", "O", "N", "D", "X"]
    assert [column.cell(OBJECT, 0.0) for column in columns[1:]] == [3, "[1,2,3]", True, None, None, None]
    assert columns[2].priority == 1


def test_the_default_column_is_the_age() -> None:
    assert [column.name for column in columns_of({})] == ["Name", "Age"]


def test_replicas_must_be_non_negative_int32() -> None:
    scale = {
        "specReplicasPath": ".spec.r",
        "statusReplicasPath": ".status.r",
        "labelSelectorPath": ".status.s",
    }
    assert scale_errors({"spec": {"r": 1}, "status": {"r": 0, "s": "a=b"}}, scale) == []
    wrong = {"spec": {"r": -1}, "status": {"r": 2**31, "s": 3}}
    assert [error.field for error in scale_errors(wrong, scale)] == [".spec.r", ".status.r", ".status.s"]
    assert len(scale_errors({"spec": "x"}, scale)) == 1


# ---------------------------------------------------------------------------------------------- invariants


def test_duplicates_in_sets_and_maps_are_reported() -> None:
    schema = {
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object"},
            },
        }
    }
    document = {"set": ["x", "y", "x", "x"], "map": [{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}]}
    assert [str(error) for error in list_errors(document, schema)] == [
        'set[2]: Duplicate value: "x"',
        'map[2]: Duplicate value: {"a":1,"b":2}',
    ]
    assert list_errors({"map": ["x"]}, schema)[0].field == "map[0]"


def test_embedded_objects_need_a_kind_and_valid_metadata() -> None:
    schema = {"properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    assert embedded_errors({"t": {"apiVersion": "v1", "kind": "Pod"}}, schema) == []
    wrong = {"t": {"apiVersion": "a/b/c", "kind": "", "metadata": {"labels": {"-": "x"}}}}
    assert [error.field for error in embedded_errors(wrong, schema)] == [
        "t.apiVersion", "t.kind", "t.metadata.labels",
    ]  # fmt: skip
    assert [error.field for error in embedded_errors({"t": {}}, schema)] == ["t.apiVersion", "t.kind"]
