"""The changes of a write are named field by field, updated fields first."""

import msgspec

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import ObjectKey
from aiokube.testing.builders import edited, make_endpoint, make_pod, make_service, make_slice
from endpointd.diagnose.changes import ObjectChange
from endpointd.diagnose.changes_text import as_builtins, change_lines, changes_text
from endpointd.diagnose.shadow import summary
from endpointd.diagnose.style import Style

WEB = make_service()
POD = make_pod()
RIGHT = make_slice(WEB, endpoints=[make_endpoint(POD)])


def update(before: EndpointSlice, after: EndpointSlice = RIGHT) -> ObjectChange:
    return ObjectChange("endpointslice", "update", ObjectKey("default", "web"), before, after)


def test_only_the_changed_fields_of_an_endpoint_are_named() -> None:
    wrong = edited(RIGHT, endpoints=(make_endpoint(POD, ready=False, zone="zone-z"),))
    assert change_lines(update(wrong)) == ["~ endpoint pod-1: ready false -> true, zone zone-z -> zone-a"]


def test_changed_fields_precede_added_and_removed_ones() -> None:
    other = make_endpoint(make_pod("pod-2", "10.0.0.2"))
    wrong = edited(RIGHT, endpoints=(other, make_endpoint(POD, ready=False)), labels={"x": "y"})
    assert [line[0] for line in change_lines(update(wrong))] == ["~", "+", "+", "-", "-"]


def test_the_shadow_log_line_names_the_changed_field_of_a_long_endpoint() -> None:
    long = make_endpoint(make_pod("pod-" + "x" * 240), zone="zone-z")
    right = msgspec.structs.replace(long, zone="zone-a")
    change = update(edited(RIGHT, endpoints=(long,)), edited(RIGHT, endpoints=(right,)))
    assert summary(change).endswith(": zone zone-z -> zone-a")


def test_a_difference_in_a_hidden_field_is_named_by_its_path() -> None:
    endpoint = make_endpoint(POD)
    assert endpoint.target_ref is not None
    elsewhere = msgspec.structs.replace(endpoint.target_ref, namespace="elsewhere")
    wrong = edited(RIGHT, endpoints=(msgspec.structs.replace(endpoint, target_ref=elsewhere),))
    assert change_lines(update(wrong)) == ['~ endpoints[0].targetRef.namespace: "elsewhere" -> "default"']


def test_two_endpoints_of_one_pod_are_both_named() -> None:
    twice = edited(RIGHT, endpoints=(make_endpoint(POD), make_endpoint(POD)))
    assert [line.partition(",")[0] for line in change_lines(update(twice))] == ["- endpoint pod-1 #2"]


def test_structured_output_has_the_same_fields() -> None:
    change = update(edited(RIGHT, endpoints=(make_endpoint(POD, ready=False),)))
    (found,) = as_builtins([change])["changes"]
    assert found["fields"] == change_lines(change)
    text = changes_text([change], Style(colours=False))
    assert "  ~ endpoint pod-1: ready false -> true\n" in text
