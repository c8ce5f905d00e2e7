"""Creates: defaulted and generated fields, dry runs and errors."""

import re
from typing import Any

import pytest
from tests.contract.server.wire import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    SLICES,
    YAML,
    Api,
    deployment,
    endpoint_slice,
    pod,
    service,
    version,
)

UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
SECOND = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


async def test_the_server_sets_identity_time_and_version(api: Api) -> None:
    made = await api.config_map("a")
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert UUID.match(metadata["uid"])
    assert SECOND.match(metadata["creationTimestamp"])
    assert metadata["namespace"] == api.ns
    assert re.match(r"^[1-9]\d*$", metadata["resourceVersion"])


async def test_server_managed_fields_in_requests_are_ignored(api: Api) -> None:
    wished = {
        "name": "a",
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/mine",
        "generation": 7,
    }
    made = (await api.post(CONFIG_MAPS, {"metadata": wished}))["metadata"]
    assert UUID.match(made["uid"])
    assert not made["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(made)


async def test_a_created_object_is_read_back_as_in_the_response(api: Api) -> None:
    made = await api.config_map("a", {"l": "v"}, x="y")
    assert await api.get(f"{CONFIG_MAPS}/a") == made


async def test_a_create_with_a_resource_version_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}})
    assert (refusal.code, refusal.reason) == (500, None)
    assert refusal.message == "resourceVersion should not be set on objects to be created"


async def test_resource_versions_increase(api: Api) -> None:
    assert version(await api.config_map("a")) < version(await api.config_map("b"))


@pytest.mark.parametrize(
    ("collection", "body", "generation"),
    [
        (PODS, pod("x"), 1),
        (SLICES, endpoint_slice("x"), 1),
        (DEPLOYMENTS, deployment("x"), 1),
        (SERVICES, service("x"), None),
        (CONFIG_MAPS, {"metadata": {"name": "x"}}, None),
        (ENDPOINTS, {"metadata": {"name": "x"}}, None),
        (LEASES, {"metadata": {"name": "x"}}, None),
    ],
)
async def test_kinds_with_a_generation_begin_at_1(
    api: Api, collection: str, body: Any, generation: int | None
) -> None:
    assert (await api.post(collection, body))["metadata"].get("generation") == generation


# ------------------------------------------------------------------------------------------------ names


async def test_a_name_is_generated(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "web-"}})
    assert re.match(r"^web-[bcdfghjklmnpqrstvwxz2456789]{5}$", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "web-"


async def test_a_generated_name_has_at_most_63_characters(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "x" * 80}})
    assert re.match(r"^x{58}[bcdfghjklmnpqrstvwxz2456789]{5}$", made["metadata"]["name"])


async def test_a_name_takes_precedence_over_a_generated_one(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "web-", "name": "mine"}})
    assert made["metadata"]["name"] == "mine"


async def test_a_name_is_required(api: Api) -> None:
    bodies: list[dict[str, Any]] = [{"metadata": {}}, {}]
    for body in bodies:
        refusal = await api.refused("POST", CONFIG_MAPS, body)
        assert (refusal.code, refusal.reason) == (422, "Invalid")
        assert refusal.message == (
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
        )
        assert refusal.causes == [
            ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
        ]
        assert refusal.details["kind"] == "ConfigMap", "the kind, not the resource"


async def test_an_invalid_name_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "B_"}})
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    ((reason, field, message),) = refusal.causes
    assert (reason, field) == ("FieldValueInvalid", "metadata.name")
    assert message.startswith(
        'Invalid value: "B_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters'
    )
    assert refusal.details["name"] == "B_"


async def test_a_create_of_an_existing_name_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert refusal == (
        409,
        "AlreadyExists",
        'configmaps "a" already exists',
        {"name": "a", "kind": "configmaps"},
    )


async def test_the_name_of_a_deleted_object_can_be_reused(api: Api) -> None:
    first = await api.config_map("a")
    await api.delete(f"{CONFIG_MAPS}/a")
    assert (await api.config_map("a"))["metadata"]["uid"] != first["metadata"]["uid"]


# ------------------------------------------------------------------------------------------------- places


async def test_a_create_in_a_missing_namespace_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", "/api/v1/namespaces/nope/configmaps", {"metadata": {"name": "a"}})
    assert refusal == (404, "NotFound", 'namespaces "nope" not found', {"name": "nope", "kind": "namespaces"})


async def test_a_namespace_that_differs_from_the_path_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "other"}})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("POST", CONFIG_MAPS + "/a"),
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("POST", NODES + "/x"),
    ],
)
async def test_an_unsupported_method_is_rejected(api: Api, method: str, path: str) -> None:
    await api.config_map("a")
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    refusal = await api.refused(method, path, {"metadata": {"name": "a"}}, content_type=content_type)
    assert (refusal.code, refusal.reason) == (405, "MethodNotAllowed")
    assert refusal.message == "the server does not allow this method on the requested resource"


# ------------------------------------------------------------------------------------------------ bodies


async def test_kind_and_api_version_are_optional(api: Api) -> None:
    assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}}))["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("kind", "api_version", "message"),
    [
        (
            "Secret",
            "v1",
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
                "unknown conversion"
            ),
        ),
        (
            "Nope",
            "v1",
            (
                'Nope in version "v1" cannot be handled as a ConfigMap: no kind "Nope" is registered for version "v1" '
                'in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        (
            "ConfigMap",
            "v2",
            (
                'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for '
                'version "v2" in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
    ],
)
async def test_an_object_of_another_kind_is_rejected(
    api: Api, kind: str, api_version: str, message: str
) -> None:
    body = {"kind": kind, "apiVersion": api_version, "metadata": {"name": "a"}}
    refusal = await api.refused("POST", CONFIG_MAPS, body)
    assert (refusal.code, refusal.reason, refusal.message) == (400, "BadRequest", message)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"a"', b'{"metadata":{"name":5}}'])
async def test_a_body_that_is_not_an_object_is_rejected(api: Api, body: bytes) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, body)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message is not None
    assert "ConfigMap" in refusal.message


async def test_a_field_of_the_wrong_type_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": 5}})
    assert refusal.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct '
        "field ConfigMap.data of type string"
    )


async def test_yaml_bodies_are_accepted(api: Api) -> None:
    text = f"metadata:\n  name: a\n  namespace: {api.ns}\ndata:\n  x: 'y'\n"
    made = await api.post(CONFIG_MAPS, text.encode(), content_type=YAML)
    assert made["data"] == {"x": "y"}


async def test_a_body_without_a_content_type_is_json(api: Api) -> None:
    await api.post(CONFIG_MAPS, b'{"metadata":{"name":"a"}}', content_type=None)


async def test_an_unsupported_content_type_is_rejected(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, b"{}", content_type="text/plain")
    assert (refusal.code, refusal.reason) == (415, "UnsupportedMediaType")
    assert refusal.message is not None
    assert refusal.message.startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf"
    )


async def test_a_body_above_the_size_limit_is_rejected(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"x":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    refusal = await api.refused("POST", CONFIG_MAPS, body)
    assert (refusal.code, refusal.reason) == (413, "RequestEntityTooLarge")
    assert refusal.message == "Request entity too large: limit is 3145728"


# ------------------------------------------------------------------------------------- unknown fields

ODD = b'{"metadata":{"name":"a"},"foo":1,"data":{"x":"1","x":"2"}}'


async def test_unknown_and_duplicate_fields_cause_warnings_by_default(api: Api) -> None:
    answer = await api("POST", CONFIG_MAPS, ODD)
    assert answer.code == 201
    assert sorted(answer.warnings) == [
        '299 - "duplicate field \\"data.x\\""',
        '299 - "unknown field \\"foo\\""',
    ]
    assert answer.json["data"] == {"x": "2"}
    assert "foo" not in answer.json


async def test_strict_validation_rejects_unknown_and_duplicate_fields(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, ODD, query={"fieldValidation": "Strict"})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message is not None
    head = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert refusal.message.startswith(head)
    assert sorted(refusal.message.removeprefix(head).split(", ")) == [
        'duplicate field "data.x"',
        'unknown field "foo"',
    ]


async def test_ignore_validation_drops_unknown_and_duplicate_fields_without_warnings(api: Api) -> None:
    answer = await api("POST", CONFIG_MAPS, ODD, query={"fieldValidation": "Ignore"})
    assert (answer.code, answer.warnings) == (201, [])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"fieldValidation": "Foo"},
            'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
    ],
)
async def test_invalid_options_are_rejected(api: Api, query: dict[str, str], message: str) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, query=query)
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.message == f'CreateOptions.meta.k8s.io "" is invalid: {message}'


async def test_a_dry_run_stores_nothing_and_returns_no_version(api: Api) -> None:
    made = await api.post(SERVICES, service("a"), query={"dryRun": "All"})
    assert "resourceVersion" not in made["metadata"]
    assert UUID.match(made["metadata"]["uid"])
    assert (await api("GET", f"{SERVICES}/a")).code == 404


async def test_a_dry_run_reports_conflicts(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, query={"dryRun": "All"})
    assert refusal.code == 409


# --------------------------------------------------------------------------------------------- metadata


async def test_invalid_labels_are_rejected(api: Api) -> None:
    refusal = await api.refused(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"a": "!", "b c": "x"}}}
    )
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert {field for _, field, _ in refusal.causes} == {"metadata.labels"}
    assert len(refusal.causes) == 2


async def test_annotations_above_the_total_size_limit_are_rejected(api: Api) -> None:
    refusal = await api.refused(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a", "annotations": {"a": "x" * (256 * 1024)}}}
    )
    assert refusal.message == (
        'ConfigMap "a" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes'
    )


def owner(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}", **more}


async def test_a_duplicate_owner_reference_is_kept_once_with_a_warning(api: Api) -> None:
    body = {"metadata": {"name": "a", "ownerReferences": [owner("o"), owner("o")]}}
    answer = await api("POST", CONFIG_MAPS, body, query={"dryRun": "All"})
    assert len(answer.json["metadata"]["ownerReferences"]) == 1
    assert len(answer.warnings) == 1
    assert "duplicate UID(s) observed: uid-o" in answer.warnings[0]


async def test_two_controller_owner_references_are_rejected(api: Api) -> None:
    references = [owner("o", controller=True), owner("p", controller=True)]
    refusal = await api.refused(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a", "ownerReferences": references}}
    )
    ((reason, field, message),) = refusal.causes
    assert (reason, field) == ("FieldValueInvalid", "metadata.ownerReferences")
    assert message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for ConfigMap/o and ConfigMap/p'
    )


async def test_an_owner_reference_needs_kind_name_and_uid(api: Api) -> None:
    refusal = await api.refused(
        "POST", CONFIG_MAPS, {"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1"}]}}
    )
    assert [(reason, field) for reason, field, _ in refusal.causes] == [
        ("FieldValueInvalid", "metadata.ownerReferences.kind"),
        ("FieldValueInvalid", "metadata.ownerReferences.name"),
        ("FieldValueInvalid", "metadata.ownerReferences.uid"),
    ]


async def test_a_finalizer_must_be_a_qualified_name(api: Api) -> None:
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["wait"]}})
    assert refusal.code == 422
    assert refusal.causes[0][1] == "metadata.finalizers[0]"


# --------------------------------------------------------------------------------------------- namespaces


async def test_a_new_namespace_is_active_and_labelled_with_its_name(api: Api) -> None:
    found = await api.get(f"{NAMESPACES}/{api.ns}")
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.ns}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["status"] == {"phase": "Active"}


async def test_a_terminating_namespace_rejects_creates_but_accepts_updates(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}})
    ended = await api.delete(f"{NAMESPACES}/{api.ns}")
    assert ended["status"]["phase"] == "Terminating"
    assert ended["metadata"]["deletionTimestamp"]
    refusal = await api.refused("POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    assert refusal.message == (
        f'configmaps "b" is forbidden: unable to create new content in namespace {api.ns} because it is being terminated'
    )
    assert refusal.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {api.ns} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    await api.patch(f"{CONFIG_MAPS}/held", {"data": {"x": "y"}})
    await api.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(api: Api, name: str) -> None:
    refusal = await api.refused("DELETE", f"{NAMESPACES}/{name}")
    assert refusal == (
        403,
        "Forbidden",
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
        {"name": name, "kind": "namespaces"},
    )
