"""managedFields and server-side apply through the verbs: stored entries and errors."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.unit.server.verbs.world import World, a_world, config_map, refusal

from tinykube.server.objects import JsonObject
from tinykube.server.verbs.context import Result
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.subresources import write_subresource
from tinykube.server.verbs.write import apply

LAST = "kubectl.kubernetes.io/last-applied-configuration"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with a_world() as made:
        yield made


def by(manager: str, **more: Any) -> WriteOptions:
    return WriteOptions(field_manager=manager, **more)


def typed(data: dict[str, Any] | None = None, **metadata: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a", data, **metadata)}


async def applied(
    here: World,
    body: Any,
    manager: str = "m1",
    plural: str = "configmaps",
    *,
    problems: tuple[str, ...] = (),
    **more: Any,
) -> Result:
    where = {"group": more.pop("group", ""), "subresource": more.pop("subresource", "")}
    options = by(manager, **more)
    request = here.request(dry_run=options.is_dry_run)
    return await apply(here.backend, here.target(plural, "a", **where), request, options, body, problems)


def owners(result: Result) -> dict[tuple[str, str], Any]:
    entries = result.decode()["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


def times(result: Result) -> list[str]:
    return [entry["time"] for entry in result.decode()["metadata"]["managedFields"]]


async def test_a_creator_owns_sent_and_defaulted_fields(here: World) -> None:
    port = {"port": 80}
    body = {"metadata": {"name": "a"}, "spec": {"ports": [port]}}
    made = await here.create(body, "services", by("m1"))
    assert owners(made) == {
        ("m1", "Update"): {
            "f:spec": {
                "f:internalTrafficPolicy": {},
                "f:ports": {
                    ".": {},
                    'k:{"port":80,"protocol":"TCP"}': {
                        ".": {},
                        "f:port": {},
                        "f:protocol": {},
                        "f:targetPort": {},
                    },
                },
                "f:sessionAffinity": {},
                "f:type": {},
            }
        }
    }


async def test_an_applier_owns_only_the_fields_it_sent(here: World) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}]},
    }
    made = await applied(here, body, plural="services")
    assert made.code == 201
    key = 'k:{"port":80,"protocol":"TCP"}'
    assert owners(made) == {("m1", "Apply"): {"f:spec": {"f:ports": {key: {".": {}, "f:port": {}}}}}}
    assert made.decode()["spec"]["ports"][0]["targetPort"] == 80


async def test_the_default_manager_name_comes_from_the_user_agent(here: World) -> None:
    assert ("tests", "Update") in owners(await here.create(config_map("a", {"x": "1"})))


async def test_an_update_moves_ownership_of_changed_fields_to_the_writer(here: World) -> None:
    await here.create(config_map("a", {"x": "1", "y": "1"}), options=by("m1"))
    here.clock.advance(5)
    changed = await here.update("a", config_map("a", {"x": "2", "z": "1"}), options=by("m2"))
    assert owners(changed) == {
        ("m1", "Update"): {"f:data": {}},
        ("m2", "Update"): {"f:data": {"f:x": {}, "f:z": {}}},
    }


async def test_a_no_op_write_keeps_times_and_resource_version(here: World) -> None:
    first = await applied(here, typed({"x": "1"}))
    here.clock.advance(60)
    again = await applied(here, typed({"x": "1"}))
    assert again.decode() == first.decode()
    put = await here.update("a", config_map("a", {"x": "1"}), options=by("m2"))
    assert put.decode() == first.decode()


async def test_a_change_updates_only_the_time_of_its_writer(here: World) -> None:
    await applied(here, typed({"x": "1"}))
    here.clock.advance(60)
    changed = await here.update("a", config_map("a", {"x": "1", "y": "1"}), options=by("m2"))
    first, second = times(changed)
    assert first < second


async def test_fields_no_longer_applied_are_removed_unless_owned_by_others(here: World) -> None:
    await applied(here, typed({"x": "1", "y": "1"}))
    await applied(here, typed({"y": "1"}), "m2")
    left = await applied(here, typed())
    assert left.decode()["data"] == {"y": "1"}
    assert owners(left) == {("m2", "Apply"): {"f:data": {"f:y": {}}}}


async def test_a_co_owner_that_changes_nothing_has_no_time(here: World) -> None:
    await applied(here, typed({"x": "1"}))
    joined = await applied(here, typed({"x": "1"}), "m2")
    entries = {entry["manager"]: entry for entry in joined.decode()["metadata"]["managedFields"]}
    assert "time" in entries["m1"]
    assert "time" not in entries["m2"]


async def test_an_empty_list_is_owned_and_sending_it_again_changes_nothing(here: World) -> None:
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []}
    where = {"plural": "endpointslices", "group": "discovery.k8s.io"}
    made = await here.create(copy.deepcopy(body), options=by("m1"), **where)
    assert owners(made) == {("m1", "Update"): {"f:addressType": {}, "f:endpoints": {}}}
    here.clock.advance(60)
    again = await here.update("a", copy.deepcopy(body), options=by("m1"), **where)
    assert again.decode() == made.decode(), "an update without changes is not written"


async def test_a_resource_version_is_ignored_when_an_apply_creates_the_object(here: World) -> None:
    assert (await applied(here, typed({"x": "1"}, resourceVersion="7"))).code == 201


async def test_a_conflicting_apply_is_rejected_unless_forced(here: World) -> None:
    await applied(here, typed({"x": "1"}))
    error = await refusal(applied(here, typed({"x": "2"}), "m2"))
    assert error.code == 409
    assert error.message == 'Apply failed with 1 conflict: conflict with "m1": .data.x'
    forced = await applied(here, typed({"x": "2"}), "m2", force=True)
    assert owners(forced) == {("m2", "Apply"): {"f:data": {"f:x": {}}}}


async def test_a_dry_run_of_an_apply_stores_nothing(here: World) -> None:
    tried = await applied(here, typed({"x": "1"}), dry_run=("All",))
    assert tried.code == 201
    assert here.backend.storage.head(here.target(name="a").key()) is None


async def test_an_empty_entry_resets_ownership_until_the_next_apply(here: World) -> None:
    made = (await here.create(config_map("a", {"x": "1"}), options=by("m1"))).decode()
    made["metadata"]["managedFields"] = [{}]
    forgotten = await here.update("a", made, options=by("m1"))
    assert "managedFields" not in forgotten.decode()["metadata"]
    changed = await here.update("a", config_map("a", {"x": "1", "y": "1"}), options=by("m2"))
    assert "managedFields" not in changed.decode()["metadata"]
    found = await applied(here, typed({"y": "1"}), "m3")
    assert set(owners(found)) == {("before-first-apply", "Update"), ("m3", "Apply")}


async def test_a_client_may_transfer_ownership(here: World) -> None:
    made = (await here.create(config_map("a", {"x": "1"}), options=by("m1"))).decode()
    made["metadata"]["managedFields"][0]["manager"] = "heir"
    handed = await here.update("a", made, options=by("m1"))
    assert set(owners(handed)) == {("heir", "Update")}
    patched = await here.patch(
        "a",
        [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
        "json",
    )
    assert "managedFields" not in patched.decode()["metadata"]


async def test_a_body_without_managed_fields_keeps_the_owners(here: World) -> None:
    made = (await here.create(config_map("a", {"x": "1"}), options=by("m1"))).decode()
    del made["metadata"]["managedFields"]
    assert set(owners(await here.update("a", made, options=by("m2")))) == {("m1", "Update")}


async def test_the_status_is_owned_only_through_its_subresource(here: World) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    made = (await here.create(body, "services", by("m1"))).decode()
    condition = {"type": "A", "status": "True", "reason": "R", "message": ""}
    made["status"] = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    ignored = await here.update("a", copy.deepcopy(made), "services", by("m2"))
    assert ("m2", "Update") not in owners(ignored)
    made["metadata"]["resourceVersion"] = ignored.decode()["metadata"]["resourceVersion"]
    made["spec"]["selector"] = {"a": "b"}
    written = await here.update("a", made, "services", by("m2"), subresource="status")
    assert list(owners(written)["m2", "Update"]) == ["f:status"]
    entry = written.decode()["metadata"]["managedFields"][-1]
    assert entry["subresource"] == "status"
    forgetful = written.decode()
    forgetful["metadata"]["managedFields"] = [{}]
    kept = await here.update("a", forgetful, "services", by("m2"), subresource="status")
    assert owners(kept) == owners(written), "only the main resource accepts edited managedFields"


async def test_scaling_makes_the_scaler_the_sole_owner_of_the_replicas(here: World) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    await applied(here, body, plural="deployments", group="apps")
    target = here.target("deployments", "a", group="apps", subresource="scale")
    assert target.subresource is not None
    scale = {"metadata": {"name": "a"}, "spec": {"replicas": 3}}
    await write_subresource(here.backend, target, here.request(), target.subresource, scale, by("scaler"))
    stored = here.backend.storage.head(target.key())
    assert stored is not None
    first, second = stored.decode()["metadata"]["managedFields"]
    assert "f:replicas" not in first["fieldsV1"]["f:spec"]
    assert (second["manager"], second["subresource"], second["apiVersion"]) == ("scaler", "scale", "apps/v1")
    assert second["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


async def test_kubectl_takes_over_fields_from_its_client_side_apply(here: World) -> None:
    last = json.dumps(typed({"x": "1", "y": "1"}))
    body = config_map("a", {"x": "1", "y": "1"}, annotations={LAST: last})
    await here.create(body, options=by("kubectl-client-side-apply"))
    await here.update("a", config_map("a", {"x": "1", "y": "7"}, annotations={LAST: last}), options=by("m2"))
    error = await refusal(applied(here, typed({"x": "2", "y": "2"}), "kubectl"))
    assert error.message == 'Apply failed with 1 conflict: conflict with "m2" using v1: .data.y'
    taken = (await applied(here, typed({"x": "2"}), "kubectl")).decode()
    assert taken["data"] == {"x": "2", "y": "7"}
    assert json.loads(taken["metadata"]["annotations"][LAST]) == typed({"x": "2"})


@pytest.mark.parametrize(
    ("body", "code", "expected"),
    [
        ([], 400, "error decoding YAML: "),
        (None, 400, "invalid object type: /, Kind="),
        ({**typed(), "kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
        ({**typed(), "apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        (typed(managedFields=[]), 400, "metadata.managedFields must be nil"),
        ({**typed(), "metadata": {}}, 400, "name must be provided"),
        ({**typed(), "metadata": {"name": "b"}}, 400, "does not match the name on the URL"),
        (typed(namespace="other"), 400, "the namespace of the provided object does not match"),
        (
            {**typed(), "foo": 1},
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not",
        ),
        (
            {**typed(), "binaryData": {"x": "?"}},
            500,
            "failed to convert new object (/a; /v1, Kind=ConfigMap)",
        ),
        (
            typed(uid="u"),
            409,
            "uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
    ],
)
async def test_an_invalid_apply_is_rejected(here: World, body: Any, code: int, expected: str) -> None:
    error = await refusal(applied(here, body))
    assert error.code == code
    assert expected in error.message


async def test_an_apply_with_a_stale_resource_version_is_rejected(here: World) -> None:
    await applied(here, typed({"x": "1"}))
    error = await refusal(applied(here, typed({"x": "2"}, resourceVersion="1")))
    assert (error.code, error.reason) == (409, "Conflict")


async def test_duplicate_keys_are_ignored_warned_about_or_rejected_as_requested(here: World) -> None:
    twice = ('duplicate field "data.x"',)
    error = await refusal(applied(here, typed({"x": "1"}), problems=twice, field_validation="Strict"))
    assert "error strict decoding YAML" in error.message
    await applied(here, typed({"x": "1"}), problems=twice)
    assert here.last_request is not None
    assert len(here.last_request.warnings) == 1
    await applied(here, typed({"x": "2"}), problems=twice, field_validation="Ignore")
    assert not here.last_request.warnings


async def test_applying_a_subresource_of_a_missing_object_is_not_found(here: World) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    assert (await refusal(applied(here, body, plural="services", subresource="status"))).code == 404


async def test_an_apply_in_a_missing_namespace_is_not_found(here: World) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    target = here.target(name="a", namespace="missing")
    error = await refusal(apply(here.backend, target, here.request(), by("m1"), body))
    assert (error.code, error.message) == (404, 'namespaces "missing" not found')


async def test_event_ownership_uses_the_field_names_of_the_written_api_group(here: World) -> None:
    event = {
        "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c.example.com/x",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "note": "n",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    made = await here.create(event, "events", by("m1"), group="events.k8s.io")
    (entry,) = made.decode()["metadata"]["managedFields"]
    assert entry["apiVersion"] == "events.k8s.io/v1"
    assert {"f:note", "f:regarding"} < set(entry["fieldsV1"])
    changed = await here.patch("a", {"message": "n2"}, "merge", "events", by("m2"))
    assert owners(changed) == {("m2", "Update"): {"f:message": {}}}, "the other group's entries are not kept"
