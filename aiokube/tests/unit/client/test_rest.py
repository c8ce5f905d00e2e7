"""Each verb sends the documented request, and returns the stored object."""

import gzip
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.core import NODES, PODS
from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.client.config import ClusterConfig, Impersonation
from aiokube.client.errors import UnexpectedResponseError
from aiokube.client.rest import JSON_PATCH, MERGE_PATCH, Client
from aiokube.testing.virtual_time import ManualClock

KEY = ObjectKey("ns", "a")
STORED = '{"metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}}'
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"


@pytest.fixture(autouse=True)
def stores(server: Server) -> None:
    server.script(json_response(STORED))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return json_response(STORED)

    server.script(answer)


async def test_get_requests_one_object(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        pod = await client.get(PODS, KEY)
    assert pod.metadata.resource_version == "7"
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.query) == ("GET", "/api/v1/namespaces/ns/pods/a", "")


async def test_paths_of_cluster_scoped_resources_contain_no_namespace(
    server: Server, clock: ManualClock
) -> None:
    async with client_of(server, clock) as client:
        await client.get(NODES, ObjectKey("", "a"))
    assert server.seen[0].path == "/api/v1/nodes/a"


async def test_create_posts_the_body_and_returns_the_stored_object(
    server: Server, clock: ManualClock
) -> None:
    async with client_of(server, clock) as client:
        stored = await client.create(
            ENDPOINT_SLICES, EndpointSlice(metadata=ObjectMeta(generate_name="a-")), namespace="ns"
        )
    assert stored.metadata.name == "a"
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", SLICES)
    assert seen.headers["Content-Type"] == "application/json"
    assert json.loads(seen.body)["metadata"] == {"generateName": "a-"}


async def test_update_puts_to_the_object_or_its_subresource(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        await client.update(ENDPOINTS, Endpoints(), key=KEY)
        await client.update(ENDPOINTS, Endpoints(), key=KEY, subresource="status")
    assert [(seen.method, seen.path) for seen in server.seen] == [
        ("PUT", "/api/v1/namespaces/ns/endpoints/a"),
        ("PUT", "/api/v1/namespaces/ns/endpoints/a/status"),
    ]


class Label(msgspec.Struct):
    metadata: dict[str, dict[str, str]]


async def test_patch_sends_bytes_as_they_are_and_structs_as_json(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        await client.patch(ENDPOINTS, KEY, b"[]", patch_type=JSON_PATCH)
        await client.patch(
            ENDPOINTS,
            KEY,
            Label({"labels": {"x": "y"}}),
            patch_type=MERGE_PATCH,
            field_manager="me",
            force=True,
        )
    first, second = server.seen
    assert (first.method, first.body, first.query) == ("PATCH", b"[]", "")
    assert first.headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(second.body) == {"metadata": {"labels": {"x": "y"}}}
    assert second.query == "fieldManager=me&force=true"


async def test_delete_sends_its_preconditions(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        await client.delete(ENDPOINTS, KEY)
        await client.delete(ENDPOINTS, KEY, uid="u", resource_version="5", grace_period_seconds=0)
    plain, careful = (json.loads(seen.body) for seen in server.seen)
    assert plain == {"kind": "DeleteOptions"}
    assert careful == {
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


async def test_all_list_options_are_sent_with_a_page_request(server: Server, clock: ManualClock) -> None:
    server.script(
        json_response(
            '{"metadata":{"resourceVersion":"9","continue":"more","remainingItemCount":3},'
            '"items":[{"metadata":{"name":"x"}}]}'
        )
    )
    async with client_of(server, clock) as client:
        page = await client.list_page(
            PODS,
            namespace="ns",
            limit=1,
            continue_token="a+/=",
            resource_version="0",
            resource_version_match="NotOlderThan",
            label_selector="a in (b,c),!d",
            field_selector="spec.nodeName=n",
        )
    assert (page.resource_version, page.continue_token, page.remaining_item_count) == ("9", "more", 3)
    assert [pod.metadata.name for pod in page.items] == ["x"]
    assert server.seen[0].query == (
        "limit=1&continue=a%2B%2F%3D&resourceVersion=0&resourceVersionMatch=NotOlderThan"
        "&labelSelector=a+in+%28b%2Cc%29%2C%21d&fieldSelector=spec.nodeName%3Dn"
    )


async def test_unset_list_options_are_not_sent(server: Server, clock: ManualClock) -> None:
    server.script(json_response('{"items":null}'))
    async with client_of(server, clock) as client:
        page = await client.list_page(PODS)
    assert page.items == ()
    assert (server.seen[0].path, server.seen[0].query) == ("/api/v1/pods", "")


async def test_only_lists_are_requested_compressed_and_are_decompressed(
    server: Server, clock: ManualClock
) -> None:
    async def compressed(request: web.BaseRequest) -> web.StreamResponse:
        if "gzip" not in request.headers["Accept-Encoding"]:
            return json_response(STORED)
        body = gzip.compress(b'{"metadata":{"resourceVersion":"9"},"items":[]}')
        return web.Response(body=body, content_type="application/json", headers={"Content-Encoding": "gzip"})

    server.script(compressed)
    async with client_of(server, clock) as client:
        assert (await client.list_page(PODS)).resource_version == "9"
        await client.get(PODS, KEY)
    assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["gzip", "identity"]


async def test_every_request_accepts_json_and_sends_a_user_agent(server: Server, clock: ManualClock) -> None:
    async with Client.from_config(ClusterConfig(server.url), clock=clock, user_agent="me/1") as client:
        await client.get(PODS, KEY)
    headers = server.seen[0].headers
    assert (headers["Accept"], headers["User-Agent"]) == ("application/json", "me/1")
    assert "Authorization" not in headers
    assert "Cookie" not in headers


async def test_impersonation_headers_are_sent_with_every_request(server: Server, clock: ManualClock) -> None:
    who = Impersonation("jane", "u-1", ("a", "b"), {"Acme.com/Project": ("p", "q")})
    config = ClusterConfig(server.url, impersonation=who)
    async with Client.from_config(config, clock=clock) as client:
        await client.get(PODS, KEY)
    (seen,) = server.seen
    assert seen.headers["Impersonate-User"] == "jane"
    assert seen.headers["Impersonate-Uid"] == "u-1"
    assert seen.groups == ["a", "b"]
    assert seen.headers["Impersonate-Extra-acme.com%2Fproject"] == "p"


async def test_a_server_url_may_have_a_path(server: Server, clock: ManualClock) -> None:
    config = ClusterConfig(f"{server.url}/k8s/clusters/c-1")
    async with Client.from_config(config, clock=clock) as client:
        await client.get(PODS, KEY)
    assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/namespaces/ns/pods/a"


async def test_names_are_escaped_in_the_path(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        await client.get(PODS, ObjectKey("ns", "a/../b?x=y"))
        await client.request("GET", "/healthz\r\nX: y?z")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/a%2F..%2Fb%3Fx%3Dy"
    assert server.seen[1].path == "/healthz%0D%0AX:%20y%3Fz"


async def test_raw_requests_return_the_body_unchanged(server: Server, clock: ManualClock) -> None:
    server.script(web.Response(text="ok"))
    async with client_of(server, clock) as client:
        body = await client.request(
            "POST", "/apis/x", query={"a": "b c"}, body=b"<x/>", content_type="application/xml"
        )
    assert body == b"ok"
    (seen,) = server.seen
    assert (seen.method, seen.query, seen.body) == ("POST", "a=b+c", b"<x/>")
    assert seen.headers["Content-Type"] == "application/xml"


async def test_a_source_is_a_client_bound_to_a_selection_of_a_resource(
    server: Server, clock: ManualClock
) -> None:
    server.script(json_response('{"items":[]}'), json_response(""))
    async with client_of(server, clock) as client:
        source = client.source(PODS, namespace="ns", label_selector="a=b", field_selector="c=d")
        await source.list_page(
            limit=5, continue_token="t", resource_version="1", resource_version_match="Exact"
        )
        async with source.watch(resource_version="7", send_initial_events=False, timeout_seconds=300):
            pass
    assert repr(source) == f"ResourceSource(pods of {server.url})"
    assert [seen.path for seen in server.seen] == ["/api/v1/namespaces/ns/pods"] * 2
    assert server.seen[0].query == (
        "limit=5&continue=t&resourceVersion=1&resourceVersionMatch=Exact&labelSelector=a%3Db&fieldSelector=c%3Dd"
    )
    assert server.seen[1].query == (
        "watch=true&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=300"
        "&labelSelector=a%3Db&fieldSelector=c%3Dd"
    )


async def test_sequential_requests_share_a_connection(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        for _ in range(3):
            await client.get(PODS, KEY)
    assert len({seen.peer for seen in server.seen}) == 1


async def test_a_large_body_arrives_complete_even_on_a_retry(server: Server, clock: ManualClock) -> None:
    server.script(failure(429, "TooManyRequests", "busy", {"Retry-After": "1"}), json_response(STORED))
    big = Endpoints(metadata=ObjectMeta(annotations={"a": "x" * 700 * 1024}))
    async with client_of(server, clock) as client:
        await client.update(ENDPOINTS, big, key=KEY)
    assert [json.loads(seen.body)["metadata"]["annotations"] for seen in server.seen] == [
        big.metadata.annotations
    ] * 2
    assert server.seen[0].headers["Content-Length"] == str(len(server.seen[0].body))


async def test_compression_can_be_disabled(server: Server, clock: ManualClock) -> None:
    server.script(json_response('{"items":[]}'))
    async with Client.from_config(ClusterConfig(server.url, compression=False), clock=clock) as client:
        await client.list_page(PODS)
    assert server.seen[0].headers["Accept-Encoding"] == "identity"


def a_slice(**metadata: Any) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name="web-1", namespace="ns", **metadata),
        address_type="IPv4",
        endpoints=(Endpoint(addresses=("10.0.0.1",)),),
    )


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_metadata_only_client_receives_only_metadata(
    server: Server, clock: ManualClock, verb: str
) -> None:
    """A write returns the sent object with the stored metadata, at the server's version."""
    server.script(
        json_response(
            '{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-1",'
            '"namespace":"ns","uid":"u-1","resourceVersion":"8","labels":{"added":"by the server"}}}'
        )
    )
    sent = a_slice(resource_version="7")
    async with client_of(server, clock) as client:
        writing = client.metadata_only()
        if verb == "create":
            answer = await writing.create(ENDPOINT_SLICES, sent, namespace="ns")
        else:
            answer = await writing.update(ENDPOINT_SLICES, sent, key=ObjectKey("ns", "web-1"))
    assert server.seen[-1].headers["Accept"] == (
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    )
    metadata = ObjectMeta(
        name="web-1", namespace="ns", uid="u-1", resource_version="8", labels={"added": "by the server"}
    )
    assert answer == msgspec.structs.replace(sent, metadata=metadata)
    assert answer.endpoints is sent.endpoints


async def test_a_metadata_only_client_accepts_a_full_response(server: Server, clock: ManualClock) -> None:
    """A server or proxy that ignores the requested form responds with the whole object."""
    stored = msgspec.structs.replace(a_slice(resource_version="8"), endpoints=())
    server.script(json_response(msgspec.json.encode(stored).decode()))
    async with client_of(server, clock) as client:
        key = ObjectKey("ns", "web-1")
        answer = await client.metadata_only().update(ENDPOINT_SLICES, a_slice(resource_version="7"), key=key)
    assert answer.metadata.resource_version == "8"
    assert not answer.endpoints


async def test_guarded_and_metadata_only_clients_can_be_combined_in_any_order(
    server: Server, clock: ManualClock
) -> None:
    def refuse() -> None:
        raise PermissionError("not now")

    async with client_of(server, clock) as client:
        for writing in (client.metadata_only().guarded(refuse), client.guarded(refuse).metadata_only()):
            with pytest.raises(PermissionError):
                await writing.create(ENDPOINT_SLICES, a_slice(), namespace="ns")
        assert not server.seen
        server.script(json_response(msgspec.json.encode(a_slice()).decode()))
        await client.metadata_only().guarded(lambda: None).create(ENDPOINT_SLICES, a_slice(), namespace="ns")
    assert "PartialObjectMetadata" in server.seen[-1].headers["Accept"]


async def test_an_invalid_response_to_a_metadata_only_client_is_an_error(
    server: Server, clock: ManualClock
) -> None:
    server.script(json_response('{"kind":"PartialObjectMetadata","metadata":"none"}'))
    async with client_of(server, clock) as client:
        with pytest.raises(UnexpectedResponseError, match=r"PUT .*/web-1: the response cannot be read"):
            await client.metadata_only().update(ENDPOINT_SLICES, a_slice(), key=ObjectKey("ns", "web-1"))
