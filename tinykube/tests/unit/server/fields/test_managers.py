"""The entries of managedFields: decoding, encoding, order and limit."""

from typing import Any

import pytest

from tinykube.server.errors import StatusError
from tinykube.server.fields.conflicts import conflict_error
from tinykube.server.fields.managed_fields import manager_name
from tinykube.server.fields.managers import (
    ManagedFieldsError,
    ManagerId,
    Owned,
    capped,
    decode,
    encode,
    is_reset,
    manager_id,
    same_but_times,
)
from tinykube.server.fields.sets import FieldSet

T1, T2 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def entry(manager: str = "m", operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": T1,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
        **more,
    }


def test_entries_survive_a_decode_and_encode_round_trip() -> None:
    entries = [entry("a", "Apply"), entry("b", subresource="status")]
    assert encode(decode(entries)) == entries


def test_apply_managers_are_identified_regardless_of_version() -> None:
    assert manager_id("a", "Apply", "v1", "") == manager_id("a", "Apply", "v2", "")
    assert manager_id("a", "Update", "v1", "") != manager_id("a", "Update", "v2", "")
    assert manager_id("", "Update", "v1", "").manager == "unknown"


def test_entries_are_sorted_with_applies_first_then_by_time() -> None:
    entries = [entry("z", "Apply", time=T2), entry("b", time=T1), entry("c", time=T1), entry("a", time=T2)]
    assert encode(decode(list(reversed(entries)))) == entries


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": "Other"},
        {"operation": None},
        {"apiVersion": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsType": ""},
        {"fieldsV1": {"x": {}}},
    ],
)
def test_invalid_entries_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ManagedFieldsError):
        decode([entry(**wrong)])


def test_an_empty_list_or_a_single_empty_entry_resets_ownership() -> None:
    assert is_reset([{}])
    assert is_reset([])
    assert not is_reset(None)
    assert not is_reset([{}, {}])
    assert not is_reset([entry()])


def test_update_entries_beyond_ten_are_merged_into_one() -> None:
    managed = {
        ManagerId(f"m{number:02}", "Update", "v1", ""): Owned(
            {f"f:{number}": {}}, "v1", f"2026-01-01T00:00:{number:02}Z"
        )
        for number in range(10)
    }
    assert capped(managed) is managed
    managed[ManagerId("m10", "Update", "v1", "")] = Owned({"f:10": {}}, "v1", "2026-01-01T00:00:10Z")
    fewer = capped(managed)
    ancient = fewer[ManagerId("ancient-changes", "Update", "v1", "")]
    assert len(fewer) == 10
    assert ancient == Owned({"f:1": {}, "f:0": {}}, "v1", "2026-01-01T00:00:01Z")
    fewer[ManagerId("m11", "Update", "v1", "")] = Owned({"f:11": {}}, "v1", "2026-01-01T00:00:11Z")
    again = capped(fewer)
    assert len(again) == 10
    assert set(again[ManagerId("ancient-changes", "Update", "v1", "")].fields) == {"f:0", "f:1", "f:2"}


def test_applies_do_not_count_towards_the_limit_and_versions_are_not_merged() -> None:
    managed = {
        ManagerId(f"m{number:02}", "Apply" if number % 2 else "Update", "", ""): Owned({"f:a": {}}, "v1", T1)
        for number in range(20)
    }
    assert capped(managed) is managed
    versions = {
        ManagerId("m", "Update", f"v{number:02}", ""): Owned({"f:a": {}}, f"v{number:02}", T1)
        for number in range(12)
    }
    assert len(capped(versions)) == 12


def test_entries_that_differ_only_in_time_are_equal() -> None:
    assert same_but_times([entry(time=T1)], [entry(time=T2)])
    assert not same_but_times([entry(time=T1)], [entry("n", time=T1)])
    assert not same_but_times([entry()], [])


@pytest.mark.parametrize(
    ("said", "agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36 (linux/amd64)", "kubectl"),
        ("", "a\tb c", "ab c"),
        ("", "é" * 100, "é" * 64),
        ("", "", ""),
    ],
)
def test_the_manager_name_is_the_given_one_or_derived_from_the_user_agent(
    said: str, agent: str, name: str
) -> None:
    assert manager_name(said, agent) == name


def conflict(**owners: Any) -> StatusError:
    return conflict_error({ManagerId(name, *who): fields for name, (who, fields) in owners.items()})


def test_one_conflict_is_reported_in_one_line() -> None:
    error = conflict(m=(("Apply", "", ""), {"f:data": {"f:x": {}}}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "m": .data.x'
    assert error.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m"', "field": ".data.x"}]
    }


def test_several_conflicts_are_grouped_by_owner() -> None:
    fields: FieldSet = {"f:data": {"f:x": {}, "f:y": {}}}
    error = conflict(b=(("Update", "v1", "status"), {"f:a": {}}), a=(("Update", "v1", ""), fields))
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "a" using v1:\n- .data.x\n- .data.y\n'
        'conflicts with "b" with subresource "status" using v1:\n- .a'
    )


def test_conflicts_with_subresource_entries_of_a_manager_come_first() -> None:
    fields: FieldSet = {"f:a": {}}
    bare, subresource = ManagerId("m", "Apply", "", ""), ManagerId("m", "Apply", "", "status")
    lines = conflict_error({bare: fields, subresource: fields}).message.split("\n")
    assert lines[0] == 'Apply failed with 2 conflicts: conflicts with "m" with subresource "status":'
    assert lines[2] == 'conflicts with "m":'
