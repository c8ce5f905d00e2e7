"""Writes that keep unknown fields: server-side apply, and updates only of complete types."""

import json
from typing import Any

import msgspec
import pytest
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.apps import DEPLOYMENTS
from aiokube.api.config import CONFIG_MAPS, SECRETS, ConfigMap, Secret
from aiokube.api.coordination import LEASES
from aiokube.api.core import PODS
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.events import EVENTS
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import PartialTypeError, Resource
from aiokube.client.errors import ApplyConflictError, NotFoundError
from aiokube.client.rest import Client
from aiokube.testing.virtual_time import ManualClock

KEY = ObjectKey("shop", "welcome")
STORED = (
    '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"welcome","namespace":"shop","uid":"u",'
    '"resourceVersion":"7"},"data":{"text":"hello"},"binaryData":{"logo":"aA=="},"future":{"x":1}}'
)
CONFLICT = (
    '{"name":"welcome","kind":"configmaps","causes":[{"reason":"FieldManagerConflict",'
    '"message":"conflict with \\"kubectl-edit\\" using v1","field":".data.text"}]}'
)


class Partial(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A ConfigMap as a small controller might define it."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


PARTIAL: Resource[Partial] = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", wire=Partial
)


@pytest.fixture(autouse=True)
def stores(server: Server) -> None:
    server.script(json_response(STORED))


async def test_an_update_of_a_partial_type_is_rejected_before_sending(
    server: Server, clock: ManualClock
) -> None:
    async with client_of(server, clock) as client:
        found = await client.get(PARTIAL, KEY)
        with pytest.raises(PartialTypeError, match=r"configmaps .* Partial does not have: use Client.apply"):
            await client.update(PARTIAL, found, key=KEY)
    assert [seen.method for seen in server.seen] == ["GET"]


async def test_an_update_of_a_config_map_preserves_all_fields_including_unknown_ones(
    server: Server, clock: ManualClock
) -> None:
    async with client_of(server, clock) as client:
        found = await client.get(CONFIG_MAPS, KEY)
        assert found.binary_data == {"logo": b"h"}
        await client.update(CONFIG_MAPS, msgspec.structs.replace(found, data={"text": "bye"}))
    put = server.seen[1]
    assert (put.method, put.path) == ("PUT", "/api/v1/namespaces/shop/configmaps/welcome")
    body = json.loads(put.body)
    assert (body["binaryData"], body["future"], body["data"]) == ({"logo": "aA=="}, {"x": 1}, {"text": "bye"})


@pytest.mark.parametrize("resource", [CONFIG_MAPS, SECRETS, ENDPOINTS, ENDPOINT_SLICES, LEASES, EVENTS])
def test_types_for_updates_are_complete(resource: Resource[Any]) -> None:
    resource.require_complete()
    resource.require_writable()


@pytest.mark.parametrize("resource", [PODS, DEPLOYMENTS])
def test_read_only_types_are_not_complete(resource: Resource[Any]) -> None:
    with pytest.raises(PartialTypeError):
        resource.require_complete()


async def test_a_projection_cannot_be_created_or_applied(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        pod: Any = PODS.decode(b'{"metadata":{"name":"a","namespace":"shop"}}')
        with pytest.raises(PartialTypeError, match="read-only projection"):
            await client.create(PODS, pod, namespace="shop")
        with pytest.raises(PartialTypeError, match="read-only projection"):
            await client.apply(PODS, pod, field_manager="me")
    assert server.seen == []


async def apply(client: Client, metadata: ObjectMeta | None = None, *, force: bool = False) -> ConfigMap:
    body = ConfigMap(metadata or ObjectMeta(name="welcome", namespace="shop"), data={"text": "hello"})
    return await client.apply(CONFIG_MAPS, body, field_manager="me", force=force)


@pytest.mark.parametrize(("force", "query"), [(False, ""), (True, "&force=true")])
async def test_apply_sends_the_given_fields_with_their_kind_and_manager(
    server: Server, clock: ManualClock, force: bool, query: str
) -> None:
    async with client_of(server, clock) as client:
        assert (await apply(client, force=force)).metadata.resource_version == "7"
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/shop/configmaps/welcome")
    assert seen.query == f"fieldManager=me{query}"
    assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(seen.body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "welcome", "namespace": "shop"},
        "data": {"text": "hello"},
    }


async def test_an_apply_conflict_names_the_fields_and_the_remedy(server: Server, clock: ManualClock) -> None:
    server.script(failure(409, "Conflict", "Apply failed with 1 conflict", details=CONFLICT))
    async with client_of(server, clock) as client:
        with pytest.raises(ApplyConflictError, match=r"1 conflict; leave .* force=True") as caught:
            await apply(client)
    assert [conflict.field for conflict in caught.value.conflicts] == [".data.text"]
    assert 'conflict with "kubectl-edit" using v1' in caught.value.conflicts[0].message


async def test_applying_an_object_that_was_read_is_rejected(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        found = await client.get(CONFIG_MAPS, KEY)
        with pytest.raises(ValueError, match="was read from the server: applying it would take over all"):
            await client.apply(CONFIG_MAPS, found, field_manager="me")
        with pytest.raises(ValueError, match="needs a field_manager"):
            await client.apply(CONFIG_MAPS, ConfigMap(), field_manager="")
    assert len(server.seen) == 1


async def test_create_uses_the_namespace_of_the_object(server: Server, clock: ManualClock) -> None:
    server.script(json_response('{"metadata":{"name":"a","namespace":"shop"}}'))
    async with client_of(server, clock) as client:
        await client.create(SECRETS, Secret(ObjectMeta(name="a", namespace="shop"), data={"b": b"\xff"}))
        with pytest.raises(ValueError, match=r"secrets: set metadata.namespace, or pass namespace="):
            await client.create(SECRETS, Secret(ObjectMeta(name="a")))
    (seen,) = server.seen
    assert seen.path == "/api/v1/namespaces/shop/secrets"
    assert json.loads(seen.body)["data"] == {"b": "/w=="}


@pytest.mark.parametrize(
    ("key", "missing"), [(ObjectKey("", "a"), "namespace"), (ObjectKey("shop", ""), "name")]
)
async def test_an_incomplete_key_is_rejected(
    server: Server, clock: ManualClock, key: ObjectKey, missing: str
) -> None:
    async with client_of(server, clock) as client:
        with pytest.raises(ValueError, match=f"has no {missing}$"):
            await client.get(CONFIG_MAPS, key)
        with pytest.raises(ValueError, match=f"has no {missing}$"):
            await client.delete(CONFIG_MAPS, key)
    assert server.seen == []


async def test_a_not_found_error_shows_the_request(server: Server, clock: ManualClock) -> None:
    server.script(failure(404, "NotFound", "the server could not find the requested resource"))
    async with client_of(server, clock) as client:
        with pytest.raises(
            NotFoundError, match=r"resource \(GET /api/v1/namespaces/shop/configmaps/welcome\)$"
        ):
            await client.get(CONFIG_MAPS, KEY)


def test_the_repr_of_a_secret_hides_its_values() -> None:
    secret = Secret(ObjectMeta(name="a", namespace="shop"), data={"password": b"hunter2"})
    assert repr(secret) == "Secret(shop/a, keys=['password'])"
