"""Unknown fields of slices and Endpoints from a newer server survive our updates."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from aiokube.api.discovery import ENDPOINT_SLICES, EndpointConditions, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.resource import Page, Resource, WatchEvent

Json = dict[str, Any]


def target(name: str) -> Json:
    return {"kind": "Pod", "namespace": "default", "name": name, "uid": f"u-{name}"}


def endpoint(number: int, **fields: Any) -> Json:
    return {
        "addresses": [f"10.0.0.{number}"],
        "targetRef": target(f"pod-{number}"),
        "conditions": {},
    } | fields


METADATA = {
    "name": "web-1",
    "namespace": "default",
    "uid": "u",
    "resourceVersion": "7",
    "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}],
}
SLICE: Json = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": METADATA | {"future": {"a": [1]}},
    "addressType": "IPv4",
    "ports": [{"name": "", "port": 80, "protocol": "TCP", "future": 1}],
    "endpoints": [
        endpoint(1, weight=7, conditions={"ready": True, "drained": True}),
        endpoint(2, weight=7, hints={"forZones": [{"name": "a", "share": 2}], "forRegions": [{"name": "r"}]}),
        endpoint(3, hints={"forRegions": []}),
        endpoint(4),
    ],
    "futureTop": {"x": 1},
}
ENDPOINTS_OBJECT: Json = {
    "apiVersion": "v1",
    "kind": "Endpoints",
    "metadata": METADATA,
    "subsets": [
        {
            "addresses": [{"ip": "10.0.0.1", "targetRef": target("pod-1"), "weight": 1}, {"ip": "10.0.0.2"}],
            "notReadyAddresses": [{"ip": "10.0.0.3", "weight": 3}],
            "ports": [{"port": 80, "protocol": "TCP", "future": 1}],
            "future": True,
        }
    ],
}


def without_managed_fields(document: Json) -> Json:
    """Return an object as it is sent: an update without managedFields keeps those of the server."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": metadata}


@pytest.mark.parametrize(
    ("resource", "document"),
    [(ENDPOINT_SLICES, SLICE), (ENDPOINTS, ENDPOINTS_OBJECT)],
    ids=["slice", "Endpoints"],
)
def test_unknown_fields_are_sent_back_unchanged(resource: Resource[Any], document: Json) -> None:
    item = resource.decode(json.dumps(document).encode())
    assert json.loads(resource.encode(item)) == without_managed_fields(document)


def test_an_object_without_unknown_fields_round_trips_without_extra_fields() -> None:
    document = {**SLICE, "metadata": METADATA, "ports": None, "endpoints": [endpoint(4)]}
    del document["futureTop"]
    endpoint_slice = ENDPOINT_SLICES.decode(json.dumps(document).encode())
    assert endpoint_slice.unknown is msgspec.UNSET
    assert endpoint_slice == ENDPOINT_SLICES.decode(ENDPOINT_SLICES.encode(endpoint_slice))
    assert "-unknown-" not in ENDPOINT_SLICES.encode(endpoint_slice).decode()


def test_unknown_fields_are_kept_in_events_and_lists() -> None:
    body = json.dumps(SLICE)
    endpoint_slice = ENDPOINT_SLICES.decode(body.encode())
    for prefix in ('{"type":"MODIFIED"', '{ "type": "MODIFIED"'):
        event = ENDPOINT_SLICES.decode_event(f'{prefix},"object":{body}}}'.encode())
        assert event == WatchEvent("MODIFIED", endpoint_slice)
    plain = json.dumps({**SLICE, "metadata": METADATA, "ports": None, "endpoints": None, "futureTop": None})
    page = ENDPOINT_SLICES.decode_page(
        f'{{"metadata":{{"resourceVersion":"9"}},"items":[{body},{plain}]}}'.encode()
    )
    assert page == Page(items=(endpoint_slice, ENDPOINT_SLICES.decode(plain.encode())), resource_version="9")


def test_unknown_fields_follow_their_endpoint_through_changes_and_removal() -> None:
    endpoint_slice = ENDPOINT_SLICES.decode(json.dumps(SLICE).encode())
    first, second, *_ = endpoint_slice.endpoints or ()
    unready = msgspec.structs.replace(first, conditions=EndpointConditions(ready=False))
    unhinted = msgspec.structs.replace(second, hints=None)
    body = json.loads(
        ENDPOINT_SLICES.encode(msgspec.structs.replace(endpoint_slice, endpoints=(unhinted, unready)))
    )
    assert [one["weight"] for one in body["endpoints"]] == [7, 7]
    assert body["endpoints"][0]["hints"] == {"forRegions": [{"name": "r"}]}
    assert body["endpoints"][1]["conditions"] == {"ready": False, "drained": True}
    body = json.loads(
        ENDPOINT_SLICES.encode(msgspec.structs.replace(endpoint_slice, endpoints=None, ports=None))
    )
    assert (body["endpoints"], body["ports"], body["futureTop"]) == (None, None, {"x": 1})


def test_unknown_fields_equal_in_all_endpoints_are_stored_once() -> None:
    endpoints = [endpoint(number, weight=1) for number in range(1, 101)]
    endpoint_slice = ENDPOINT_SLICES.decode(json.dumps({**SLICE, "endpoints": endpoints}).encode())
    assert endpoint_slice.unknown is not msgspec.UNSET
    kept = endpoint_slice.unknown["endpoints"].values()
    assert (len(kept), len({id(one) for one in kept})) == (100, 1)


READERS: dict[str, Callable[[str], object]] = {
    "object": lambda body: ENDPOINT_SLICES.decode(body.encode()),
    "event": lambda body: ENDPOINT_SLICES.decode_event(f'{{"type":"ADDED","object":{body}}}'.encode()),
    "list": lambda body: ENDPOINT_SLICES.decode_page(f'{{"items":[{body}]}}'.encode()),
}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize(
    "wrong",
    [{"addressType": 1}, {"endpoints": [{"addresses": "x"}]}, {"endpoints": {"a": 1}}, {"metadata": [1]}],
)
def test_invalid_objects_are_rejected_regardless_of_unknown_fields(wrong: Json, form: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        READERS[form](json.dumps(SLICE | wrong))
    with pytest.raises(msgspec.ValidationError):
        READERS[form]("[]")


def test_a_slice_created_locally_has_no_unknown_fields() -> None:
    assert "-unknown-" not in ENDPOINT_SLICES.encode(EndpointSlice()).decode()
