"""Ownership of replicas through the ``scale`` subresource."""

from typing import Any

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.fields.kinds import WORKLOADS
from tinykube.server.fields.managed_fields import Writer
from tinykube.server.fields.scaling import applied, owners_after_writing, owners_of_parent, with_owners
from tinykube.server.objects import JsonObject

NOW = "2026-01-01T00:00:00Z"
REPLICAS: JsonObject = {"f:spec": {"f:replicas": {}}}


def entry(manager: str, operation: str = "Update", **more: Any) -> JsonObject:
    made = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:paused": {}, "f:replicas": {}}},
        **more,
    }
    return {name: value for name, value in made.items() if value is not None}


def scale(replicas: int | None = None, **metadata: Any) -> JsonObject:
    spec = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "w", **metadata},
        "spec": spec,
        "status": {"replicas": 0},
    }


def by(manager: str) -> Writer:
    return Writer(manager, "scale", NOW)


def written(entries: Any, old: int, new: int, manager: str = "s") -> Any:
    """Return the managed fields of a workload after a write of its replicas through the subresource."""
    before = with_owners(scale(old or None), entries, WORKLOADS)
    after = owners_after_writing(by(manager), before, scale(new))
    return owners_of_parent(entries, after, "apps/v1", WORKLOADS)


def applied_to(entries: Any, old: int, new: int | None, manager: str = "s", *, force: bool = False) -> Any:
    before = with_owners(scale(old), entries, WORKLOADS)
    body = scale(new)
    del body["status"]
    if new is None:
        del body["spec"]
    made, after = applied(by(manager), before, body, force=force, is_custom=False)
    return made["spec"], owners_of_parent(entries, after, "apps/v1", WORKLOADS)


def summary(entries: Any) -> list[tuple[Any, ...]]:
    return [
        (
            one["manager"],
            one["operation"],
            one.get("subresource", ""),
            "time" in one,
            one["fieldsV1"]["f:spec"],
        )
        for one in entries or ()
    ]


def test_a_scale_shows_the_owners_of_the_replicas_with_scale_fields() -> None:
    others = entry("o", fieldsV1={"f:spec": {"f:paused": {}}})
    seen = with_owners(scale(1), [entry("a", "Apply"), others], WORKLOADS)["metadata"]["managedFields"]
    assert seen == [entry("a", "Apply", apiVersion="autoscaling/v1", fieldsV1=REPLICAS)]


def test_entries_of_unknown_versions_are_neither_shown_nor_kept() -> None:
    foreign = entry("f", apiVersion="apps/v9")
    assert "managedFields" not in with_owners(scale(1), [foreign], WORKLOADS)["metadata"]
    assert owners_of_parent([foreign], None, "apps/v1", WORKLOADS) is None


def test_a_changed_replica_count_has_a_single_owner() -> None:
    after = written([entry("a", "Apply"), entry("u")], 1, 2)
    assert summary(after) == [
        ("a", "Apply", "", True, {"f:paused": {}}),
        ("s", "Update", "scale", False, {"f:replicas": {}}),
        ("u", "Update", "", True, {"f:paused": {}}),
    ]
    assert {one["apiVersion"] for one in after} == {"apps/v1"}


def test_an_updater_gets_a_separate_scale_entry_even_if_nothing_changes() -> None:
    assert summary(written([entry("u")], 2, 2)) == [
        ("u", "Update", "", False, {"f:replicas": {}}),
        ("u", "Update", "", True, {"f:paused": {}}),
    ]
    assert written([entry("a", "Apply")], 2, 2) == [entry("a", "Apply")]


def test_unowned_replicas_stay_unowned_after_a_write() -> None:
    others = entry("o", fieldsV1={"f:spec": {"f:paused": {}}})
    assert written([others], 1, 2) == [others]
    assert written(None, 1, 2) is None


def test_removed_replicas_have_no_owner() -> None:
    assert summary(written([entry("u")], 2, 0)) == [("u", "Update", "", True, {"f:paused": {}})]


def test_applying_the_current_replicas_shares_ownership() -> None:
    spec, after = applied_to([entry("a", "Apply")], 2, 2)
    assert spec == {"replicas": 2}
    assert summary(after) == [
        ("s", "Apply", "scale", False, {"f:replicas": {}}),
        ("a", "Apply", "", True, {"f:paused": {}, "f:replicas": {}}),
    ]


def test_applying_different_replicas_conflicts_with_scale_field_paths() -> None:
    with pytest.raises(StatusError) as caught:
        applied_to([entry("u"), entry("a", "Apply")], 2, 3)
    assert caught.value.message.split("\n") == [
        'Apply failed with 2 conflicts: conflicts with "a":',
        "- .spec.replicas",
        'conflicts with "u" using autoscaling/v1:',
        "- .spec.replicas",
    ]


def test_a_forced_apply_takes_the_replicas_from_all_owners() -> None:
    spec, after = applied_to([entry("u"), entry("a", "Apply")], 2, 3, force=True)
    assert spec == {"replicas": 3}
    assert summary(after) == [
        ("s", "Apply", "scale", False, {"f:replicas": {}}),
        ("a", "Apply", "", True, {"f:paused": {}}),
        ("u", "Update", "", True, {"f:paused": {}}),
    ]


def test_an_apply_without_replicas_gives_up_ownership() -> None:
    mine = entry("s", "Apply", subresource="scale", fieldsV1=REPLICAS, time=None)
    spec, after = applied_to([mine, entry("a", "Apply")], 2, None)
    assert spec == {"replicas": 2}, "another manager owns them"
    assert after == [entry("a", "Apply")]


def test_a_first_apply_attributes_existing_replicas_to_before_first_apply() -> None:
    _, after = applied_to(None, 2, 2)
    assert summary(after) == [
        ("s", "Apply", "scale", False, {"f:replicas": {}}),
        ("before-first-apply", "Update", "scale", False, {"f:replicas": {}}),
    ]
    with pytest.raises(StatusError, match="before-first-apply"):
        applied_to(None, 2, 3)


def test_a_manager_keeps_the_time_of_its_entry_for_the_subresource() -> None:
    mine = entry("s", "Apply", subresource="scale", fieldsV1={"f:spec": {"f:paused": {}}})
    _, after = applied_to([mine, entry("a", "Apply")], 2, 2)
    assert ("s", "Apply", "scale", True, {"f:replicas": {}}) in summary(after)


PATHS = {"x.io/v1": ("f:spec", "f:size"), "x.io/v2": ("f:spec", "f:other"), "x.io/v3": None}


def test_custom_resource_replicas_follow_the_path_of_each_version() -> None:
    first = entry("a", "Apply", apiVersion="x.io/v1", fieldsV1={"f:spec": {"f:a": {}, "f:size": {}}})
    second = entry("b", "Apply", apiVersion="x.io/v2", fieldsV1={"f:spec": {"f:size": {}}})
    third = entry("c", "Apply", apiVersion="x.io/v3", fieldsV1={"f:spec": {"f:size": {}}})
    entries = [first, second, third]
    before = with_owners(scale(1), entries, PATHS)
    assert [one["manager"] for one in before["metadata"]["managedFields"]] == ["a"]
    after = owners_after_writing(by("s"), before, scale(2))
    assert summary(owners_of_parent(entries, after, "x.io/v1", PATHS)) == [
        ("a", "Apply", "", True, {"f:a": {}}),
        ("b", "Apply", "", True, {"f:size": {}}),
        ("c", "Apply", "", True, {"f:size": {}}),
        ("s", "Update", "scale", False, {"f:size": {}}),
    ]


def test_an_apply_can_own_but_not_change_a_custom_resource_scale() -> None:
    held = [entry("a", "Apply", apiVersion="x.io/v1", fieldsV1={"f:spec": {"f:size": {}}})]
    before = with_owners(scale(2), held, PATHS)
    _, after = applied(by("s"), before, scale(2), force=False, is_custom=True)
    assert {one["manager"] for one in after or ()} == {"a", "s"}
    with pytest.raises(StatusError) as caught:
        applied(by("s"), before, scale(3), force=True, is_custom=True)
    assert caught.value.message == (
        "failed to convert new object (/w; autoscaling/v1, Kind=Scale) to proper version: "
        "request to convert CR to an invalid group/version: autoscaling/v1"
    )
    with pytest.raises(StatusError, match="conflict with"):
        applied(by("s"), before, scale(3), force=False, is_custom=True)
    with pytest.raises(StatusError, match="failed to create manager for existing fields"):
        applied(by("s"), scale(2), scale(2), force=True, is_custom=True)
