"""Create: server-set fields, errors and dry runs."""

import re

import pytest
from tests.unit.server.verbs.world import World, a_world, config_map, refusal

from aiokube.api.names import generated_name
from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject
from tinykube.server.verbs.metadata import new_uid
from tinykube.server.verbs.options import WriteOptions


async def test_the_server_sets_uid_creation_time_and_revision() -> None:
    async with a_world() as world:
        body = config_map(
            "a",
            uid="mine",
            creationTimestamp="2000-01-01T00:00:00Z",
            deletionTimestamp="2000-01-01T00:00:00Z",
            deletionGracePeriodSeconds=5,
            selfLink="/a",
            managedFields=[{"manager": "me"}],
        )
        result = await world.create(body)
        metadata = result.decode()["metadata"]
        assert result.code == 201
        assert metadata == {
            "name": "a",
            "namespace": "default",
            "uid": metadata["uid"],
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": str(world.backend.storage.revision),
        }
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"]
        )


async def test_missing_kind_and_version_are_set_from_the_path_as_first_members() -> None:
    async with a_world() as world:
        document = (await world.create(config_map("a"))).decode()
        assert list(document)[:2] == ["kind", "apiVersion"]
        assert (document["kind"], document["apiVersion"]) == ("ConfigMap", "v1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kind": "Secret", "apiVersion": "v1"},
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
                "unknown conversion"
            ),
        ),
        (
            {"kind": "Foo", "apiVersion": "v9"},
            (
                'Foo in version "v9" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v9" in '
                'scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
    ],
)
async def test_a_body_of_another_kind_is_rejected(given: JsonObject, message: str) -> None:
    async with a_world() as world:
        error = await refusal(world.create({**config_map("a"), **given}))
        assert (error.code, error.reason, error.message) == (400, "BadRequest", message)


async def test_a_body_for_another_namespace_is_rejected() -> None:
    async with a_world() as world:
        error = await refusal(world.create(config_map("a", namespace="other")))
        assert error.code == 400
        assert "does not match the namespace sent on the request" in error.message


async def test_an_existing_name_is_rejected_with_details() -> None:
    async with a_world() as world:
        await world.create(config_map("a"))
        error = await refusal(world.create(config_map("a")))
        assert error.to_status() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'configmaps "a" already exists',
            "reason": "AlreadyExists",
            "details": {"name": "a", "kind": "configmaps"},
            "code": 409,
        }


async def test_a_create_with_a_resource_version_is_rejected_as_upstream() -> None:
    async with a_world() as world:
        error = await refusal(world.create(config_map("a", resourceVersion="5")))
        assert error.code == 500
        assert error.message == "resourceVersion should not be set on objects to be created"


async def test_creating_in_a_missing_namespace_names_the_namespace() -> None:
    async with a_world() as world:
        error = await refusal(world.create(config_map("a"), namespace="missing"))
        assert (error.code, error.message) == (404, 'namespaces "missing" not found')


async def test_creating_in_a_terminating_namespace_reports_the_standard_cause() -> None:
    async with a_world() as world:
        await world.create({"metadata": {"name": "going"}}, "namespaces")
        await world.delete("going", "namespaces")
        error = await refusal(world.create(config_map("a"), namespace="going"))
        assert (error.code, error.reason) == (403, "Forbidden")
        assert error.details is not None
        assert error.details["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace going is being terminated",
                "field": "metadata.namespace",
            }
        ]


async def test_a_generated_name_is_the_truncated_base_with_five_random_characters() -> None:
    async with a_world() as world:
        base = "b" * 70
        name = (await world.create({"metadata": {"generateName": base}})).decode()["metadata"]["name"]
        assert re.fullmatch(r"b{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name)


async def test_a_generated_name_that_exists_is_generated_again() -> None:
    async with a_world() as world:
        state = world.backend.rng.getstate()
        first = (await world.create({"metadata": {"generateName": "x-"}})).decode()["metadata"]["name"]
        world.backend.rng.setstate(state)
        second = (await world.create({"metadata": {"generateName": "x-"}})).decode()["metadata"]["name"]
        assert first != second


async def test_after_eight_name_collisions_the_client_is_asked_to_retry() -> None:
    async with a_world() as world:
        state = world.backend.rng.getstate()
        for _ in range(8):
            name = generated_name("x-", world.backend.rng)
            new_uid(world.backend.rng)
            await _create_keeping_the_draws(world, name)
        world.backend.rng.setstate(state)
        error = await refusal(world.create({"metadata": {"generateName": "x-"}}))
        assert (error.code, error.reason) == (409, "AlreadyExists")
        assert error.details is not None
        assert error.details["retryAfterSeconds"] == 1


async def _create_keeping_the_draws(world: World, name: str) -> None:
    state = world.backend.rng.getstate()
    await world.create(config_map(name))
    world.backend.rng.setstate(state)


@pytest.mark.parametrize(
    ("metadata", "field", "text"),
    [
        ({}, "metadata.name", "name or generateName is required"),
        ({"name": "A"}, "metadata.name", "a lowercase RFC 1123 subdomain"),
        ({"name": "a", "labels": {"a b": "c"}}, "metadata.labels", "name part must consist of"),
        ({"name": "a", "labels": {"a": "c d"}}, "metadata.labels", "a valid label must be"),
        ({"name": "a", "labels": {"a": "c" * 64}}, "metadata.labels", "must be no more than 63 bytes"),
        ({"name": "a", "labels": {"/x": "c"}}, "metadata.labels", "prefix part must be non-empty"),
        ({"name": "a", "labels": {"a/b/c": "c"}}, "metadata.labels", "a qualified name must consist"),
        ({"name": "a", "annotations": {"a b": ""}}, "metadata.annotations", "name part must consist of"),
        ({"name": "a", "annotations": {"a": "x" * 262144}}, "metadata.annotations", "Too long"),
        ({"name": "a", "finalizers": ["own"]}, "metadata.finalizers[0]", "neither a standard finalizer name"),
        (
            {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
            "metadata.finalizers",
            "cannot be both set",
        ),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            "metadata.ownerReferences.uid",
            "must not be empty",
        ),
        (
            {
                "name": "a",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}],
            },
            "metadata.ownerReferences",
            "is disallowed from being an owner",
        ),
    ],
)
async def test_invalid_metadata_is_rejected_with_its_field(
    metadata: JsonObject, field: str, text: str
) -> None:
    async with a_world() as world:
        error = await refusal(world.create({"metadata": metadata}))
        assert (error.code, error.reason) == (422, "Invalid")
        assert error.details is not None
        assert error.details["kind"] == "ConfigMap"
        causes = [cause for cause in error.details["causes"] if cause["field"] == field]
        assert text in causes[0]["message"]


async def test_annotations_may_total_256_kib_including_keys() -> None:
    async with a_world() as world:
        await world.create(config_map("a", annotations={"a": "x" * (262144 - 1)}))


async def test_two_controller_owners_are_rejected() -> None:
    async with a_world() as world:
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        owners = [{**owner, "name": "p", "uid": "u"}, {**owner, "name": "q", "uid": "v"}]
        error = await refusal(world.create(config_map("a", ownerReferences=owners)))
        assert 'Found "true" in references for Pod/p and Pod/q' in error.message


async def test_a_duplicate_owner_is_kept_once_with_a_warning() -> None:
    async with a_world() as world:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
        document = (await world.create(config_map("a", ownerReferences=[owner, dict(owner)]))).decode()
        assert document["metadata"]["ownerReferences"] == [owner]
        assert world.last_request is not None
        assert world.last_request.warnings[0].endswith("duplicate UID(s) observed: u")


async def test_a_dry_run_validates_and_defaults_but_stores_nothing() -> None:
    async with a_world() as world:
        before = world.backend.storage.revision
        result = await world.create(config_map("a"), options=WriteOptions(dry_run=("All",)))
        assert result.code == 201
        metadata = result.decode()["metadata"]
        assert metadata["uid"]
        assert "resourceVersion" not in metadata
        assert world.backend.storage.revision == before
        assert (await refusal(world.get("a"))).code == 404


async def test_a_dry_run_of_a_service_releases_its_address() -> None:
    async with a_world() as world:
        body: JsonObject = {
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"},
        }
        await world.create({**body}, "services", WriteOptions(dry_run=("All",)))
        created = await world.create(
            {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.7.7"}},
            "services",
        )
        assert created.decode()["spec"]["clusterIP"] == "10.96.7.7"


async def test_a_rejected_service_releases_its_address() -> None:
    async with a_world() as world:
        taken: JsonObject = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        await world.create(taken, "services")
        again: JsonObject = {
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.9.9"},
        }
        assert (await refusal(world.create(again, "services"))).reason == "AlreadyExists"
        other: JsonObject = {
            "metadata": {"name": "b"},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.9.9"},
        }
        assert (await world.create(other, "services")).code == 201


async def test_unknown_fields_are_dropped_warned_about_or_rejected_as_requested() -> None:
    async with a_world() as world:
        document = (await world.create({**config_map("a"), "foo": 1})).decode()
        assert "foo" not in document
        assert world.last_request is not None
        assert world.last_request.warnings == ['unknown field "foo"']
        await world.create({**config_map("b"), "foo": 1}, options=WriteOptions(field_validation="Ignore"))
        assert world.last_request.warnings == []
        error = await refusal(
            world.create({**config_map("c"), "foo": 1}, options=WriteOptions(field_validation="Strict"))
        )
        assert error.message == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo"'
        )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (WriteOptions(dry_run=("Some",)), 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (WriteOptions(field_validation="Foo"), 'supported values: "", "Ignore", "Strict", "Warn"'),
        (WriteOptions(field_manager="x" * 129), "fieldManager: Too long: may not be more than 128 bytes"),
        (WriteOptions(field_manager="a\nb"), "should only contain printable characters"),
        (WriteOptions(kind="PatchOptions", force=True), "may not be specified for non-apply patch"),
    ],
)
def test_invalid_options_are_rejected_with_422(options: WriteOptions, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        options.check()
    status = caught.value.to_status()
    assert status["code"] == 422
    assert status["details"]["group"] == "meta.k8s.io"
    assert text in status["message"]
