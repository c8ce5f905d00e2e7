"""Response formats: JSON, YAML, tables and metadata only, and their errors."""

import re
from typing import Any

import pytest
import yaml
from tests.contract.server.wire import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PARTIAL,
    PARTIAL_LIST,
    PODS,
    SERVICES,
    SLICES,
    TABLE,
    YAML,
    Api,
    endpoint_slice,
    pod,
    service,
    version,
)

A = f"{CONFIG_MAPS}/a"


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/json",
        "text/html, application/json;q=0.5",
        "text/html, */*;q=0.1",
    ],
)
async def test_most_accept_headers_select_json(api: Api, accept: str | None) -> None:
    await api.config_map("a")
    answer = await api("GET", A, accept=accept)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json["metadata"]["name"] == "a"


async def test_responses_end_with_a_newline(api: Api) -> None:
    await api.config_map("a")
    assert (await api("GET", A)).body.endswith(b"}\n")


async def test_responses_disable_caching_and_have_an_audit_id(api: Api) -> None:
    answer = await api("GET", CONFIG_MAPS)
    assert answer.headers["Cache-Control"] == "no-cache, private"
    assert re.match(r"^[0-9a-f-]{36}$", answer.headers["Audit-Id"])


async def test_yaml_is_available(api: Api) -> None:
    made = await api.config_map("a", x="y")
    answer = await api("GET", A, accept=YAML)
    assert answer.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(answer.body) == made
    assert list(yaml.safe_load(answer.body)) == ["apiVersion", "data", "kind", "metadata"]


async def test_lists_are_available_as_yaml(api: Api) -> None:
    await api.config_map("a")
    answer = await api("GET", CONFIG_MAPS, accept=YAML)
    (item,) = yaml.safe_load(answer.body)["items"]
    assert item["metadata"]["name"] == "a"
    assert "kind" not in item


async def test_an_error_response_has_the_requested_format(api: Api) -> None:
    answer = await api("GET", A, accept=YAML)
    assert (answer.code, answer.headers["Content-Type"]) == (404, "application/yaml")
    assert yaml.safe_load(answer.body)["reason"] == "NotFound"


@pytest.mark.parametrize("path", [CONFIG_MAPS, A, CONFIG_MAPS + "?watch=1"])
async def test_an_unsupported_media_type_is_not_acceptable(api: Api, path: str) -> None:
    await api.config_map("a")
    refusal = await api.refused("GET", path, accept="text/html")
    assert (refusal.code, refusal.reason) == (406, "NotAcceptable")
    assert refusal.message is not None
    assert refusal.message.startswith(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
    )


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        (A, "application/json;as=Nope;v=v1;g=meta.k8s.io"),
        (A, "application/json;as=Table;v=v9;g=meta.k8s.io"),
        (A, "application/json;as=Table;v=v1;g=other.k8s.io"),
        (A, PARTIAL_LIST),
        (CONFIG_MAPS, PARTIAL),
    ],
)
async def test_an_unsupported_representation_is_not_acceptable(api: Api, path: str, accept: str) -> None:
    await api.config_map("a")
    answer = await api("GET", path, accept=accept)
    assert answer.code == 406


async def test_an_unsupported_representation_falls_back_to_the_next_accepted_one(api: Api) -> None:
    await api.config_map("a")
    answer = await api("GET", A, accept="application/json;as=Nope;v=v1;g=meta.k8s.io, application/json")
    assert answer.json["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ({"pretty": "true"}, "x", True),
        ({"pretty": ""}, "x", False),
        ({"pretty": ""}, "curl/8.0", True),
        ({"pretty": "yes"}, "curl/8.0", False),
        ({}, "curl/8.0", True),
        ({}, "Wget/1", True),
        ({}, "Mozilla/5.0 (X11)", True),
        ({}, "kubectl/v1.36", False),
        ({"pretty": "0"}, "curl/8.0", False),
        ({"pretty": "false"}, "curl/8.0", False),
    ],
)
async def test_json_is_indented_for_people(api: Api, query: dict[str, str], agent: str, pretty: bool) -> None:
    await api.config_map("a")
    answer = await api("GET", A, query=query, headers={"User-Agent": agent})
    assert (b"\n  " in answer.body) is pretty


# -------------------------------------------------------------------------------------------- metadata alone


async def test_an_object_is_available_as_metadata_only(api: Api) -> None:
    made = await api.config_map("a", {"l": "v"}, x="y")
    found = (await api("GET", A, accept=PARTIAL)).json
    assert found == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


async def test_a_list_is_available_as_metadata_only(api: Api) -> None:
    made = await api.config_map("a", x="y")
    found = (await api("GET", CONFIG_MAPS, accept=PARTIAL_LIST)).json
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert version(found) >= version(made)
    (item,) = found["items"]
    assert item["metadata"] == made["metadata"]
    assert "data" not in item


async def test_metadata_lists_are_paginated(api: Api) -> None:
    for name in ("a", "b"):
        await api.config_map(name)
    found = (await api("GET", CONFIG_MAPS, accept=PARTIAL_LIST, query={"limit": 1})).json
    assert found["metadata"]["remainingItemCount"] == 1
    assert found["metadata"]["continue"]


async def test_a_write_may_return_metadata_only(api: Api) -> None:
    answer = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}}, accept=PARTIAL)
    assert (answer.code, answer.json["kind"]) == (201, "PartialObjectMetadata")
    assert "data" not in answer.json


# -------------------------------------------------------------------------------------------------- tables

POD_COLUMNS = [
    ("Name", 0),
    ("Ready", 0),
    ("Status", 0),
    ("Restarts", 0),
    ("Age", 0),
    ("IP", 1),
    ("Node", 1),
    ("Nominated Node", 1),
    ("Readiness Gates", 1),
]
COLUMNS: dict[str, list[tuple[str, int]]] = {
    PODS: POD_COLUMNS,
    SERVICES: [
        ("Name", 0),
        ("Type", 0),
        ("Cluster-IP", 0),
        ("External-IP", 0),
        ("Port(s)", 0),
        ("Age", 0),
        ("Selector", 1),
    ],
    ENDPOINTS: [("Name", 0), ("Endpoints", 0), ("Age", 0)],
    SLICES: [("Name", 0), ("AddressType", 0), ("Ports", 0), ("Endpoints", 0), ("Age", 0)],
    NAMESPACES: [("Name", 0), ("Status", 0), ("Age", 0)],
    NODES: [
        ("Name", 0),
        ("Status", 0),
        ("Roles", 0),
        ("Age", 0),
        ("Version", 0),
        ("Internal-IP", 1),
        ("External-IP", 1),
        ("OS-Image", 1),
        ("Kernel-Version", 1),
        ("Container-Runtime", 1),
    ],
    LEASES: [("Name", 0), ("Holder", 0), ("Age", 0)],
    CONFIG_MAPS: [("Name", 0), ("Data", 0), ("Age", 0)],
    DEPLOYMENTS: [
        ("Name", 0),
        ("Ready", 0),
        ("Up-to-date", 0),
        ("Available", 0),
        ("Age", 0),
        ("Containers", 1),
        ("Images", 1),
        ("Selector", 1),
    ],
    EVENTS: [
        ("Last Seen", 0),
        ("Type", 0),
        ("Reason", 0),
        ("Object", 0),
        ("Subobject", 1),
        ("Source", 1),
        ("Message", 0),
        ("First Seen", 1),
        ("Count", 1),
        ("Name", 1),
    ],
}


@pytest.mark.parametrize("path", list(COLUMNS))
async def test_each_kind_has_its_table_columns(api: Api, path: str) -> None:
    found = (await api("GET", path, accept=TABLE)).json
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [(column["name"], column["priority"]) for column in found["columnDefinitions"]] == COLUMNS[path]


async def test_an_empty_table_has_columns_but_no_rows(api: Api) -> None:
    found = (await api("GET", CONFIG_MAPS, accept=TABLE)).json
    assert found["rows"] == []
    assert version(found) > 0


async def test_a_row_has_cells_and_by_default_the_metadata_of_its_object(api: Api) -> None:
    made = await api.config_map("a", x="y", y="z")
    (row,) = (await api("GET", CONFIG_MAPS, accept=TABLE)).json["rows"]
    assert row["cells"][:2] == ["a", 2]
    assert re.match(r"^\d+s$", row["cells"][2])
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")]
)
async def test_include_object_selects_the_object_in_each_row(
    api: Api, include: str, kind: str | None
) -> None:
    await api.config_map("a")
    (row,) = (await api("GET", CONFIG_MAPS, accept=TABLE, query={"includeObject": include})).json["rows"]
    assert (row.get("object") or {}).get("kind") == kind


async def test_one_object_is_a_table_of_one_row(api: Api) -> None:
    made = await api.config_map("a")
    found = (await api("GET", A, accept=TABLE)).json
    assert [row["cells"][0] for row in found["rows"]] == ["a"]
    assert version(found) == version(made)


async def test_tables_are_paginated(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.config_map(name)
    found = (await api("GET", CONFIG_MAPS, accept=TABLE, query={"limit": 1})).json
    assert found["metadata"]["remainingItemCount"] == 2
    rest = await api(
        "GET", CONFIG_MAPS, accept=TABLE, query={"limit": 9, "continue": found["metadata"]["continue"]}
    )
    assert [row["cells"][0] for row in rest.json["rows"]] == ["b", "c"]


async def test_an_error_is_never_a_table(api: Api) -> None:
    assert (await api("GET", A, accept=TABLE)).code == 404
    assert (await api("GET", A, accept=f"{TABLE}, application/json")).json["kind"] == "Status"


async def cells(api: Api, path: str) -> list[Any]:
    found = (await api("GET", path, accept=TABLE)).json
    return list(found["rows"][0]["cells"])


async def test_the_table_of_services_shows_type_address_and_ports(api: Api) -> None:
    body = service("a", ports=[{"name": "x", "port": 80}, {"name": "y", "port": 53, "protocol": "UDP"}])
    made = await api.post(SERVICES, {**body, "spec": {**body["spec"], "selector": {"app": "a"}}})
    row = await cells(api, f"{SERVICES}/a")
    assert row[:5] == ["a", "ClusterIP", made["spec"]["clusterIP"], "<none>", "80/TCP,53/UDP"]
    assert row[6] == "app=a"


async def test_the_table_of_slices_shows_type_ports_and_the_first_addresses(api: Api) -> None:
    body = endpoint_slice("a", None, *(f"10.1.2.{number}" for number in range(1, 6)))
    await api.post(SLICES, {**body, "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}]})
    row = await cells(api, f"{SLICES}/a")
    assert row[:4] == ["a", "IPv4", "80,81", "10.1.2.1,10.1.2.2,10.1.2.3 + 2 more..."]


async def test_the_table_of_pods_shows_their_state(api: Api) -> None:
    await api.post(PODS, pod("a", nodeName="n"))
    assert (await cells(api, f"{PODS}/a"))[:4] == ["a", "0/1", "Pending", "0"]
    status = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}
    await api.patch(f"{PODS}/a/status", {"status": status})
    row = await cells(api, f"{PODS}/a")
    assert row[2] == "Running"
    assert row[5:7] == ["10.1.2.3", "n"]
    await api.delete(f"{PODS}/a")
    assert (await cells(api, f"{PODS}/a"))[2] == "Terminating"
