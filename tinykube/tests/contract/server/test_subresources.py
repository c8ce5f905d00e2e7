"""Non-resource paths: discovery, version, health; and errors before authorization."""

import json
from typing import Any

import pytest
from tests.contract.server.wire import CONFIG_MAPS, ENDPOINTS, Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUPS = ["apps", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "networking.k8s.io"]


async def test_discovery_lists_the_versions_of_the_core_group(api: Api) -> None:
    found = await api.get("/api")
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed_with_their_preferred_version(api: Api) -> None:
    found = await api.get("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in found["groups"]}
    for name in GROUPS:
        assert groups[name]["preferredVersion"] == {"groupVersion": f"{name}/v1", "version": "v1"}
        assert groups[name]["preferredVersion"] in groups[name]["versions"]


async def test_discovery_describes_a_single_group(api: Api) -> None:
    found = await api.get("/apis/apps")
    assert (found["kind"], found["apiVersion"], found["name"]) == ("APIGroup", "v1", "apps")


RESOURCES: dict[str, dict[str, Any]] = {
    "/api/v1": {
        "pods": {
            "kind": "Pod",
            "namespaced": True,
            "singularName": "pod",
            "shortNames": ["po"],
            "categories": ["all"],
        },
        "services": {
            "kind": "Service",
            "namespaced": True,
            "singularName": "service",
            "shortNames": ["svc"],
            "categories": ["all"],
        },
        "endpoints": {
            "kind": "Endpoints",
            "namespaced": True,
            "singularName": "endpoints",
            "shortNames": ["ep"],
        },
        "nodes": {"kind": "Node", "namespaced": False, "singularName": "node", "shortNames": ["no"]},
        "namespaces": {
            "kind": "Namespace",
            "namespaced": False,
            "singularName": "namespace",
            "shortNames": ["ns"],
        },
        "configmaps": {
            "kind": "ConfigMap",
            "namespaced": True,
            "singularName": "configmap",
            "shortNames": ["cm"],
        },
        "secrets": {"kind": "Secret", "namespaced": True, "singularName": "secret"},
        "events": {"kind": "Event", "namespaced": True, "singularName": "event", "shortNames": ["ev"]},
        "serviceaccounts": {
            "kind": "ServiceAccount",
            "namespaced": True,
            "singularName": "serviceaccount",
            "shortNames": ["sa"],
        },
    },
    "/apis/apps/v1": {
        "deployments": {
            "kind": "Deployment",
            "namespaced": True,
            "singularName": "deployment",
            "shortNames": ["deploy"],
            "categories": ["all"],
        },
        "replicasets": {
            "kind": "ReplicaSet",
            "namespaced": True,
            "singularName": "replicaset",
            "shortNames": ["rs"],
            "categories": ["all"],
        },
        "statefulsets": {
            "kind": "StatefulSet",
            "namespaced": True,
            "singularName": "statefulset",
            "shortNames": ["sts"],
            "categories": ["all"],
        },
        "daemonsets": {
            "kind": "DaemonSet",
            "namespaced": True,
            "singularName": "daemonset",
            "shortNames": ["ds"],
            "categories": ["all"],
        },
    },
    "/apis/discovery.k8s.io/v1": {
        "endpointslices": {"kind": "EndpointSlice", "namespaced": True, "singularName": "endpointslice"}
    },
    "/apis/coordination.k8s.io/v1": {
        "leases": {"kind": "Lease", "namespaced": True, "singularName": "lease"}
    },
    "/apis/events.k8s.io/v1": {
        "events": {"kind": "Event", "namespaced": True, "singularName": "event", "shortNames": ["ev"]}
    },
}
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@pytest.mark.parametrize("path", list(RESOURCES))
async def test_resources_of_a_version_are_listed_with_all_their_names(api: Api, path: str) -> None:
    found = await api.get(path)
    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == path.partition("/apis/")[2] or "v1"
    listed = {resource["name"]: resource for resource in found["resources"]}
    for name, expected in RESOURCES[path].items():
        resource = listed[name]
        assert {key: resource.get(key) for key in expected} == expected
        for key in ("shortNames", "categories"):
            assert (key in resource) is (key in expected)
        no_collection = {"services", "namespaces"} if path == "/api/v1" else set()
        verbs = [verb for verb in ALL_VERBS if verb != "deletecollection" or name not in no_collection]
        assert sorted(resource["verbs"]) == sorted(verbs) or name == "services"


async def test_the_list_of_the_core_group_has_no_api_version(api: Api) -> None:
    assert "apiVersion" not in await api.get("/api/v1")
    assert (await api.get("/apis/apps/v1"))["apiVersion"] == "v1"


async def test_subresources_are_listed_as_resources(api: Api) -> None:
    core = {resource["name"]: resource for resource in (await api.get("/api/v1"))["resources"]}
    assert sorted(core["pods/status"]["verbs"]) == ["get", "patch", "update"]
    assert (core["pods/status"]["kind"], core["pods/status"]["singularName"]) == ("Pod", "")
    assert core["pods/binding"]["kind"] == "Binding"
    assert (core["pods/eviction"]["kind"], core["pods/eviction"]["group"]) == ("Eviction", "policy")
    assert core["namespaces/finalize"]["verbs"] == ["update"]
    apps = {resource["name"]: resource for resource in (await api.get("/apis/apps/v1"))["resources"]}
    assert apps["deployments/scale"]["kind"] == "Scale"
    assert (apps["deployments/scale"]["group"], apps["deployments/scale"]["version"]) == ("autoscaling", "v1")


@pytest.mark.parametrize(("path", "group"), [("/api", ""), ("/apis", "discovery.k8s.io")])
async def test_aggregated_discovery_is_available_on_request(api: Api, path: str, group: str) -> None:
    answer = await api("GET", path, accept=f"{AGGREGATED},application/json")
    assert answer.code == 200
    parameters = dict(part.split("=") for part in answer.headers["Content-Type"].split(";")[1:])
    assert parameters == {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    item = next(one for one in found["items"] if one["metadata"].get("name", "") == group)
    (version,) = (one for one in item["versions"] if one["version"] == "v1")
    assert version["freshness"] == "Current"
    resource = next(one for one in version["resources"] if one["resource"] in ("pods", "endpointslices"))
    assert resource["scope"] == "Namespaced"
    assert resource["responseKind"]["group"] == ""
    assert resource["responseKind"]["version"] == ""
    assert set(resource["verbs"]) == set(ALL_VERBS)


@pytest.mark.parametrize("accept", [AGGREGATED, "application/json"])
async def test_unchanged_discovery_is_not_modified(api: Api, accept: str) -> None:
    answer = await api("GET", "/apis", accept=accept)
    if "Etag" not in answer.headers:
        assert accept == "application/json", "only the aggregated form has to bear one"
        return
    assert answer.headers["Etag"].startswith('"')
    assert "Accept" in answer.headers["Vary"]
    again = await api("GET", "/apis", accept=accept, headers={"If-None-Match": answer.headers["Etag"]})
    assert (again.code, again.body) == (304, b"")


async def test_openapi_documents_are_listed_with_a_hash(api: Api) -> None:
    found = (await api("GET", "/openapi/v3")).json
    url = found["paths"]["apis/discovery.k8s.io/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/apis/discovery.k8s.io/v1?hash=")
    document = (await api("GET", url)).json
    assert document["openapi"].startswith("3.")
    schemas = document["components"]["schemas"]
    kinds = schemas["io.k8s.api.discovery.v1.EndpointSlice"]["x-kubernetes-group-version-kind"]
    assert {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"} in kinds


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_endpoints_return_ok(api: Api, path: str) -> None:
    answer = await api("GET", path, headers={"Authorization": ""})
    assert (answer.code, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_a_single_health_check_can_be_requested(api: Api) -> None:
    assert (await api("GET", "/readyz/ping")).text == "ok"
    assert (await api("GET", "/readyz/nope")).code == 404


async def test_health_endpoints_support_verbose_output(api: Api) -> None:
    answer = await api("GET", "/readyz", query={"verbose": ""})
    assert answer.text.startswith("[+]ping ok\n")
    assert answer.text.endswith("readyz check passed\n")


async def test_the_server_version_is_available(api: Api) -> None:
    found = await api.get("/version")
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(found)


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/apis/nope.k8s.io",
        "/apis/nope.k8s.io/v1",
        "/apis/nope.k8s.io/v1/things",
    ],
)
async def test_an_unknown_path_is_rejected_in_plain_text(api: Api, path: str) -> None:
    answer = await api("GET", path)
    assert (answer.code, answer.text) == (404, "404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9/deployments",
        "/api/v1/nope",
        "/api/v1/namespaces/{ns}/nope",
        "/api/v1/namespaces/{ns}/nodes",
        "/apis/apps/v1/nope",
    ],
)
async def test_an_unknown_resource_is_rejected_with_a_status(api: Api, path: str) -> None:
    refusal = await api.refused("GET", path)
    assert refusal == (404, "NotFound", "the server could not find the requested resource", {})


async def test_an_unknown_token_is_unauthorized(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, headers={"Authorization": "Bearer nope"})
    assert refusal == (401, "Unauthorized", "Unauthorized", None)


async def test_anonymous_requests_are_rejected(api: Api) -> None:
    """The embedded server has no RBAC: kube-apiserver knows an anonymous user without permissions, this server rejects it."""
    answer = await api("GET", CONFIG_MAPS, headers={"Authorization": ""})
    assert answer.code == (401 if api.is_embedded else 403)


async def test_every_response_about_endpoints_has_a_deprecation_warning(api: Api) -> None:
    expected = ['299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"']
    made = await api("POST", ENDPOINTS, {"metadata": {"name": "a"}})
    assert made.warnings == expected
    for method, path in (
        ("GET", ENDPOINTS),
        ("GET", f"{ENDPOINTS}/a"),
        ("PUT", f"{ENDPOINTS}/a"),
        ("DELETE", f"{ENDPOINTS}/a"),
    ):
        answer = await api(method, path, made.json if method == "PUT" else None)
        assert answer.warnings == expected, method


async def test_the_members_of_a_status_have_a_fixed_order(api: Api) -> None:
    answer = await api("GET", f"{CONFIG_MAPS}/a")
    assert list(json.loads(answer.body)) == [
        "kind",
        "apiVersion",
        "metadata",
        "status",
        "message",
        "reason",
        "details",
        "code",
    ]


async def test_discovery_ignores_a_trailing_slash(api: Api) -> None:
    assert (await api.get("/api/v1/"))["kind"] == "APIResourceList"


async def test_a_name_in_the_path_may_be_percent_encoded(api: Api) -> None:
    await api.config_map("a.b")
    assert (await api.get(f"{CONFIG_MAPS}/a%2Eb"))["metadata"]["name"] == "a.b"


async def test_a_head_request_has_an_empty_response(api: Api) -> None:
    answer = await api("HEAD", CONFIG_MAPS)
    assert answer.body == b""
