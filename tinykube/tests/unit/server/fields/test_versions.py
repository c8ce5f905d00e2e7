"""Field ownership across different versions of a custom resource."""

from typing import Any

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.fields.kinds import CustomTypes, CustomVersion
from tinykube.server.fields.managed_fields import Tracked, Writer, after_creation, after_writing, apply
from tinykube.server.objects import JsonObject

TEXT = {"type": "string"}
NOW = "2026-01-01T00:00:00Z"


def schema(list_type: str, **more: Any) -> dict[str, Any]:
    texts = {"type": "array", "items": TEXT, "x-kubernetes-list-type": list_type}
    spec = {"type": "object", "properties": {"a": TEXT, "l": texts, **more}}
    status = {"type": "object", "properties": {"s": TEXT}}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


def version(described: dict[str, Any], *, has_status: bool = True) -> CustomVersion:
    return CustomVersion(described, has_status, None)


TYPES = CustomTypes(
    "x.io",
    {
        "v1": version(schema("atomic", only1=TEXT)),
        "v2": version(schema("set")),
        "v3": version(schema("atomic")),
        "v4": version(schema("set")),
    },
)


def tracked(name: str = "v1", subresource: str = "", types: CustomTypes = TYPES) -> Tracked:
    api_version = f"x.io/{name}"
    own, others = types.own(subresource, api_version), types.others(subresource, api_version)
    return Tracked("x.io", name, "K", own, {}, others)


def thing(name: str = "v1", **spec: Any) -> JsonObject:
    return {"apiVersion": f"x.io/{name}", "kind": "K", "metadata": {"name": "a"}, "spec": spec}


def by(manager: str, subresource: str = "") -> Writer:
    return Writer(manager, subresource, NOW)


def stored(document: JsonObject, entries: Any) -> JsonObject:
    made = {**document, "metadata": {**document["metadata"]}}
    made["metadata"].pop("managedFields", None)
    return {**made, "metadata": {**made["metadata"], "managedFields": entries}} if entries else made


def created(manager: str, document: JsonObject, name: str = "v1") -> JsonObject:
    return stored(document, after_creation(tracked(name), by(manager), document, None))


def seen(document: JsonObject, name: str) -> JsonObject:
    return {**document, "apiVersion": f"x.io/{name}"}


def owners(document: JsonObject) -> dict[str, Any]:
    entries = document["metadata"].get("managedFields") or []
    return {f"{one['manager']} {one['apiVersion'][5:]}": one["fieldsV1"] for one in entries}


def written(
    old: JsonObject, spec: Any, manager: str, name: str, types: CustomTypes = TYPES, **more: Any
) -> JsonObject:
    old = seen(old, name)
    new = {**old, "spec": spec, **more}
    return stored(new, after_writing(tracked(name, types=types), by(manager), old, new, None))


def applied(
    live: JsonObject, body: JsonObject, manager: str, name: str, types: CustomTypes = TYPES, **more: bool
) -> JsonObject:
    about = tracked(name, types=types)
    made, entries = apply(about, by(manager), seen(live, name), body, force=more.get("force", False))
    return stored(made, entries)


def test_writers_of_another_version_remain_owners() -> None:
    live = created("m1", thing(a="x", l=["p"]))
    live = written(live, {"a": "y", "l": ["p"]}, "m2", "v3")
    assert owners(live) == {"m1 v1": {"f:spec": {".": {}, "f:l": {}}}, "m2 v3": {"f:spec": {"f:a": {}}}}


def test_a_conflict_uses_the_field_paths_of_the_conflicting_version() -> None:
    live = created("m1", thing(a="x", l=["p"]))
    with pytest.raises(StatusError) as caught:
        applied(live, thing("v2", l=["q"]), "m2", "v2")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "m1" using x.io/v1: .spec.l'


def test_an_apply_in_another_version_replaces_the_previous_apply() -> None:
    live = created("m0", thing(l=["p"]), "v2")
    live = applied(live, thing("v2", l=["q"], a="x"), "m1", "v2")
    assert live["spec"]["l"] == ["p", "q"]
    live = applied(live, thing("v4", a="x"), "m1", "v4")
    assert live["spec"] == {"a": "x", "l": ["p"]}, "fields owned in the other version were removed"
    assert owners(live)["m1 v4"] == {"f:spec": {"f:a": {}}}


def test_fields_that_are_atomic_in_the_applied_version_are_not_partly_pruned() -> None:
    live = created("m0", thing(l=["p"]), "v2")
    live = applied(live, thing("v2", l=["q"], a="x"), "m1", "v2")
    live = applied(live, thing("v3", a="x"), "m1", "v3")
    assert live["spec"]["l"] == ["p", "q"]


def test_fields_owned_by_another_manager_in_another_version_are_not_pruned() -> None:
    live = created("m0", thing("v2", l=["p"]), "v2")
    live = applied(live, thing(l=["p"]), "m1", "v1")
    live = applied(live, thing(a="x"), "m1", "v1")
    assert live["spec"] == {"a": "x", "l": ["p"]}


def test_an_update_removes_all_owners_if_a_version_no_longer_exists() -> None:
    live = created("m1", thing("v3", a="x"), "v3")
    less = CustomTypes("x.io", {"v1": version(schema("atomic"))})
    assert owners(written(live, {"a": "y"}, "m2", "v1", less)) == {}


def test_an_apply_fails_if_a_version_no_longer_exists() -> None:
    live = created("m1", thing("v3", a="x"), "v3")
    less = CustomTypes("x.io", {"v1": version(schema("atomic"))})
    with pytest.raises(StatusError) as caught:
        applied(live, thing(a="x"), "m2", "v1", less)
    assert (caught.value.code, caught.value.message) == (
        500,
        "request to convert CR to an invalid group/version: x.io/v3",
    )


def test_an_apply_fails_if_the_version_of_a_manager_cannot_represent_the_object() -> None:
    live = created("m2", thing("v2", a="x"), "v2")
    live = {**live, "spec": {"a": "x", "only1": "y"}}
    with pytest.raises(StatusError) as caught:
        applied(live, thing(a="x"), "m1", "v1")
    assert (caught.value.code, caught.value.message) == (500, ".spec.only1: field not declared in schema")


def test_an_apply_that_another_version_cannot_represent_fails_with_the_field() -> None:
    live = created("m2", thing("v2", a="x"), "v2")
    with pytest.raises(StatusError) as caught:
        applied(live, thing(only1="y"), "m1", "v1")
    expected = "failed to convert new object: .spec.only1: field not declared in schema"
    assert caught.value.message == expected
    live = applied(live, thing("v3", a="x"), "m1", "v3")
    with pytest.raises(StatusError) as caught:
        applied(live, thing(only1="y"), "m1", "v1")
    assert caught.value.message == (
        "failed to prune fields: failed to convert merged object to last applied version: "
        ".spec.only1: field not declared in schema"
    )


def test_an_object_with_invalid_types_has_no_owners() -> None:
    live = created("m1", thing("v2", a="x"), "v2")
    assert owners(written(live, {"a": "x", "l": [None]}, "m2", "v2")) == {}
    assert owners(written(live, {"a": "x", "l": ["p", "p"]}, "m2", "v2")) != {}, "duplicates are tolerated"


def test_an_object_with_wrong_types_stays_unowned_after_the_types_are_corrected() -> None:
    live = created("m1", thing("v2", a="x"), "v2")
    assert owners(written(live, {"a": 1}, "m2", "v2")) == {}
    assert owners(written({**live, "spec": {"a": 1}}, {"a": "x"}, "m2", "v2")) == {}


def test_duplicate_entries_of_a_manager_are_reduced_to_the_later_one() -> None:
    live = created("m1", thing(a="x"))
    (entry,) = live["metadata"]["managedFields"]
    earlier = {name: value for name, value in entry.items() if name != "time"}
    earlier["fieldsV1"] = {"f:spec": {"f:l": {}}}
    live = stored(live, [earlier, entry])
    same = after_writing(tracked(), by("m2"), live, live, None)
    assert same == [entry]


def test_an_apply_to_a_live_object_with_invalid_types_fails() -> None:
    live = created("m1", thing("v2", a="x"), "v2")
    live["spec"]["l"] = [None]
    with pytest.raises(StatusError) as caught:
        applied(live, thing("v2", a="x"), "m1", "v2")
    assert caught.value.message.startswith(
        "failed to create typed live object (/a; x.io/v2, Kind=K): .spec.l: "
    )
    live["metadata"].pop("managedFields")
    with pytest.raises(StatusError) as caught:
        applied(live, thing("v2", a="x"), "m1", "v2")
    assert caught.value.message.startswith("failed to create manager for existing fields: ")


def test_ownership_follows_a_list_that_became_atomic_at_the_next_write() -> None:
    live = created("m1", thing("v2", l=["p"]), "v2")
    assert owners(live)["m1 v2"]["f:spec"]["f:l"] == {".": {}, 'v:"p"': {}}
    whole = CustomTypes("x.io", {"v2": version(schema("atomic"))})
    live = written(live, {"l": ["p"], "a": "x"}, "m2", "v2", whole)
    assert owners(live) == {"m1 v2": {"f:spec": {".": {}, "f:l": {}}}, "m2 v2": {"f:spec": {"f:a": {}}}}


def test_status_writes_reset_other_fields_in_all_versions() -> None:
    about = TYPES.own("status", "x.io/v1")
    assert about.reset == {"f:spec": {}, "f:metadata": {}}
    other = TYPES.known("status", "x.io/v1", "x.io/v2")
    assert other is not None
    assert other.reset == about.reset


def test_object_writes_reset_the_status_only_in_their_own_version() -> None:
    assert TYPES.own("", "x.io/v1").reset == {"f:status": {}}
    other = TYPES.known("", "x.io/v1", "x.io/v2")
    assert other is not None
    assert other.reset == {}
    without = CustomTypes("x.io", {"v1": version(schema("set"), has_status=False)})
    assert without.own("", "x.io/v1").reset == {}
    assert without.own("status", "x.io/v1").reset == {}


def test_each_schema_is_parsed_once_and_only_when_needed() -> None:
    types = CustomTypes("x.io", {"v1": version(schema("set")), "v2": version({"type": 3})})
    assert types.own("", "x.io/v1").node is types.own("status", "x.io/v1").node
    assert types.known("", "x.io/v1", "x.io/v9") is None
    with pytest.raises(KeyError):
        types.own("", "x.io/v9")


def test_client_supplied_entries_of_any_version_of_the_kind_are_kept() -> None:
    document = thing(a="x", l=["p"])
    given = {"manager": "g", "operation": "Update", "apiVersion": "x.io/v2", "fieldsType": "FieldsV1"}
    entry = {**given, "fieldsV1": {"f:spec": {"f:z": {}}}}
    about, who = tracked(), by("m1")
    assert set(owners(stored(document, after_creation(about, who, document, [entry])))) == {"g v2", "m1 v1"}
    foreign = {**entry, "apiVersion": "v1"}
    assert after_creation(about, who, document, [foreign]) is None, "not a version of the kind"
