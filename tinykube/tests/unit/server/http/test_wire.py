"""The wire protocol: authentication, formats, tables, discovery, watches, limits. Over a real socket with TLS."""

import asyncio
import io
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.unit.server.http.served import TOKEN, ServedApi, a_server

from tinykube.server.settings import ServerSettings, SettingsError

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def a_map(name: str, **data: str) -> dict[str, object]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}


async def lines_of(api: ServedApi, path: str, count: int, **headers: str) -> list[dict[str, object]]:
    """Read a number of events of a watch, then disconnect."""
    async with api.session.get(path, headers=headers) as response:
        return [json.loads(await response.content.readline()) for _ in range(count)]


# ------------------------------------------------------------------------------------------------ identity


async def test_requests_without_a_valid_token_get_401_except_on_public_paths() -> None:
    async with a_server() as api:
        for token in ("", "Bearer wrong", "Basic Zm9vOmJhcg==", f"Bearer {TOKEN}x"):
            refused = await api("GET", "/api", Authorization=token)
            assert refused.code == 401
            assert refused.json()["reason"] == refused.json()["message"] == "Unauthorized"
            for path in ("/healthz", "/livez", "/readyz", "/readyz/ping", "/version"):
                assert (await api("GET", path, Authorization=token)).code == 200
        assert (await api("GET", "/api", Authorization=f"bearer {TOKEN}")).code == 200


async def test_the_kubeconfig_is_private_and_names_the_server(tmp_path: Path) -> None:
    async with a_server() as api:
        path = tmp_path / "kubeconfig"
        api.server.write_kubeconfig(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert f"server: {api.server.url}" in path.read_text()
        assert TOKEN in path.read_text()


async def test_certificate_and_data_survive_a_restart_in_a_private_data_directory(tmp_path: Path) -> None:
    async with a_server(tmp_path / "data") as api:
        authority = api.server.authority
        await api("POST", MAPS, a_map("kept"))
    assert (tmp_path / "data" / "serving.json").stat().st_mode & 0o777 == 0o600
    async with a_server(tmp_path / "data") as api:
        assert api.server.authority == authority
        assert (await api("GET", f"{MAPS}/kept")).code == 200


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(host="0.0.0.0"),
        ServerSettings(host="example.com"),
        ServerSettings(port=70000),
        ServerSettings(token="short"),
        ServerSettings(token="with spaces and ümläut"),
    ],
)
def test_invalid_settings_are_rejected_in_one_line(settings: ServerSettings) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.check()
    assert "\n" not in str(caught.value)


def test_the_token_is_not_in_the_repr_of_the_settings() -> None:
    assert TOKEN not in repr(ServerSettings(token=TOKEN))


# --------------------------------------------------------------------------------------------------- forms


async def test_objects_have_kind_and_version_and_list_items_do_not() -> None:
    async with a_server() as api:
        created = await api("POST", MAPS, a_map("a", x="1"))
        assert created.code == 201
        assert created.json()["kind"] == "ConfigMap"
        page = (await api("GET", MAPS)).json()
        assert (page["kind"], page["apiVersion"]) == ("ConfigMapList", "v1")
        assert [set(item) & {"kind", "apiVersion"} for item in page["items"]] == [set()]
        assert page["items"][0]["data"] == {"x": "1"}
        assert (await api("GET", f"{MAPS}?labelSelector=no%3Done")).json()["items"] == []


async def test_yaml_is_accepted_and_returned() -> None:
    async with a_server() as api:
        created = await api(
            "POST",
            MAPS,
            "metadata: {name: a}\ndata: {x: 'yes'}\n",
            Content_Type="application/yaml",
            Accept="application/yaml",
        )
        assert created.code == 201
        assert created.headers["Content-Type"] == "application/yaml"
        assert b"kind: ConfigMap\n" in created.body


async def test_a_table_has_the_columns_of_the_kind_and_metadata_for_each_row() -> None:
    async with a_server() as api:
        await api("POST", MAPS, a_map("a", x="1"))
        table = (await api("GET", MAPS, Accept=TABLE)).json()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        (row,) = table["rows"]
        assert row["cells"][:2] == ["a", 1]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        whole = (await api("GET", f"{MAPS}/a?includeObject=Object", Accept=TABLE)).json()
        assert whole["rows"][0]["object"]["data"] == {"x": "1"}
        bare = (await api("GET", f"{MAPS}?includeObject=None", Accept=TABLE)).json()
        assert bare["rows"][0]["object"] is None
        assert (await api("GET", f"{MAPS}?includeObject=Foo", Accept=TABLE)).code == 400


async def test_partial_metadata_is_returned_on_request() -> None:
    async with a_server() as api:
        await api("POST", MAPS, a_map("a"))
        one = (await api("GET", f"{MAPS}/a", Accept=PARTIAL)).json()
        assert (one["kind"], set(one)) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})
        many = (await api("GET", MAPS, Accept=PARTIAL.replace("Metadata;", "MetadataList;"))).json()
        assert many["kind"] == "PartialObjectMetadataList"
        assert many["items"][0]["metadata"]["name"] == "a"


async def test_responses_forbid_caching_and_have_an_audit_id() -> None:
    async with a_server() as api:
        answers = [await api("GET", MAPS), await api("GET", f"{MAPS}/none"), await api("GET", "/api")]
        ids = {answer.headers["Audit-Id"] for answer in answers}
        assert len(ids) == 3
        assert answers[0].headers["Cache-Control"] == "no-cache, private"


async def test_every_response_of_a_deprecated_kind_has_a_warning() -> None:
    async with a_server() as api:
        for path in ("/api/v1/endpoints", "/api/v1/namespaces/default/endpoints/none"):
            (warning,) = (await api("GET", path)).warnings
            assert warning.startswith('299 - "v1 Endpoints is deprecated in v1.33+')


async def test_json_is_indented_on_request() -> None:
    async with a_server() as api:
        assert (await api("GET", f"{MAPS}/none?pretty=true")).body.startswith(b'{\n  "kind": "Status"')
        assert (await api("GET", MAPS, User_Agent="curl/8.0")).body.startswith(b"{\n")


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1/nothing", 404, "NotFound"),
        ("GET", "/api/v2", 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", 404, "NotFound"),
        ("GET", "/api/v1/configmaps/a", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("GET", f"{MAPS}/a/status", 404, "NotFound"),
        ("POST", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("PUT", MAPS, 405, "MethodNotAllowed"),
        ("PATCH", MAPS, 405, "MethodNotAllowed"),
        ("POST", f"{MAPS}/a", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
        ("OPTIONS", MAPS, 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("PATCH", f"{MAPS}/a", 415, "UnsupportedMediaType"),
    ],
)
async def test_unknown_paths_are_rejected_with_a_status(
    method: str, path: str, code: int, reason: str
) -> None:
    async with a_server() as api:
        refused = await api(method, path, "{}" if method == "PATCH" else None)
        assert (refused.code, refused.json()["reason"]) == (code, reason)


async def test_an_unknown_group_is_a_plain_404() -> None:
    async with a_server() as api:
        for path in ("/apis/nope/v1/things", "/apis/nope", "/nope"):
            answer = await api("GET", path)
            assert (answer.code, answer.body) == (404, b"404 page not found\n")


async def test_a_body_over_three_mebibytes_is_rejected_with_413() -> None:
    async with a_server() as api:
        refused = await api("POST", MAPS, io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))
        assert (refused.code, refused.json()["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_body_of_an_unknown_type_is_rejected_with_415() -> None:
    async with a_server() as api:
        refused = await api("POST", MAPS, "x", Content_Type="text/plain")
        assert (refused.code, refused.json()["reason"]) == (415, "UnsupportedMediaType")


# ------------------------------------------------------------------------------------------------- watches


async def test_a_watch_sends_its_headers_before_the_first_event() -> None:
    async with a_server() as api:
        page = (await api("GET", MAPS)).json()["metadata"]["resourceVersion"]
        async with api.session.get(f"{MAPS}?watch=1&resourceVersion={page}") as response:
            assert (response.status, response.headers["Content-Type"]) == (200, "application/json")
            await api("POST", MAPS, a_map("a"))
            event = json.loads(await response.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            assert event["object"]["kind"] == "ConfigMap"


async def test_initial_events_end_with_a_bookmark_of_the_kind() -> None:
    async with a_server() as api:
        path = f"{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        (bookmark,) = await lines_of(api, path, 1)
        assert bookmark["type"] == "BOOKMARK"
        document = bookmark["object"]
        assert isinstance(document, dict)
        assert set(document) == {"kind", "apiVersion", "metadata"}
        assert document["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_table_watch_sends_its_columns_once() -> None:
    async with a_server() as api:
        await api("POST", MAPS, a_map("a"))
        await api("POST", MAPS, a_map("b"))
        events = await lines_of(
            api, f"{MAPS}?watch=1&allowWatchBookmarks=1&includeObject=None", 3, Accept=TABLE
        )
        tables = [event["object"] for event in events]
        assert [isinstance(one["columnDefinitions"], list) for one in tables] == [True, False, False]  # type: ignore[index]
        assert events[2]["type"] == "BOOKMARK"
        assert tables[2]["rows"][0]["object"]["metadata"]["annotations"]  # type: ignore[index]


async def test_an_object_that_stops_matching_is_sent_as_deleted_with_its_old_content() -> None:
    async with a_server() as api:
        await api("POST", MAPS, {**a_map("a", x="1"), "metadata": {"name": "a", "labels": {"l": "v"}}})
        async with api.session.get(f"{MAPS}?watch=1&labelSelector=l%3Dv") as response:
            await response.content.readline()
            after = (await api("PUT", f"{MAPS}/a", a_map("a", x="2"))).json()["metadata"]["resourceVersion"]
            event = json.loads(await response.content.readline())
            assert event["type"] == "DELETED"
            assert event["object"]["data"] == {"x": "1"}
            assert event["object"]["metadata"]["resourceVersion"] == after


async def test_the_legacy_watch_path_watches_one_object() -> None:
    async with a_server() as api:
        await api("POST", MAPS, a_map("a"))
        await api("POST", MAPS, a_map("b"))
        (event,) = await lines_of(api, "/api/v1/watch/namespaces/default/configmaps/b", 1)
        assert event["object"]["metadata"]["name"] == "b"  # type: ignore[index]


async def test_stopping_ends_watches_cleanly_and_keeps_confirmed_writes(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def watch(api: ServedApi) -> bytes:
        async with api.session.get(f"{MAPS}?watch=1") as response:
            ended.set()
            return await response.read()  # raises if the stream is truncated

    async with asyncio.TaskGroup() as group, a_server(tmp_path / "data") as api:
        task = group.create_task(watch(api), name="watch")
        await ended.wait()
        await api("POST", MAPS, a_map("a"))
        api.server._streams.close()
        assert b'"ADDED"' in await task
    async with a_server(tmp_path / "data") as api:
        assert (await api("GET", f"{MAPS}/a")).code == 200


async def test_the_watch_of_a_disconnected_client_is_removed() -> None:
    async with a_server() as api:
        async with api.session.get(f"{MAPS}?watch=1"):
            assert len(api.server._streams) == 1
        for _ in range(100):
            if not len(api.server._streams):
                break
            await asyncio.sleep(0.01)
        assert len(api.server._streams) == 0


async def test_a_watcher_does_not_hold_a_large_read_buffer() -> None:
    async with a_server() as api:
        async with api.session.get(f"{MAPS}?watch=1"):
            listener: Any = api.server._listener
            sizes = [len(one.transport._ssl_protocol._ssl_buffer) for one in listener.connections]
            assert sizes == [16 * 1024]
        big = await api("POST", MAPS, a_map("big", x="x" * 700_000))
        assert (big.code, len(big.json()["data"]["x"])) == (201, 700_000)


# ----------------------------------------------------------------------------------------------- discovery


async def test_aggregated_discovery_echoes_its_content_type_and_supports_etags() -> None:
    async with a_server() as api:
        wish = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        found = await api("GET", "/api", Accept=f"{wish},application/json")
        assert found.headers["Content-Type"] == wish
        assert found.headers["Vary"] == "Accept"
        (core,) = found.json()["items"]
        pods = next(one for one in core["versions"][0]["resources"] if one["resource"] == "pods")
        assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
        assert (pods["scope"], pods["singularResource"]) == ("Namespaced", "pod")
        assert "status" in {one["subresource"] for one in pods["subresources"]}
        again = await api("GET", "/api", Accept=wish, If_None_Match=found.headers["Etag"])
        assert (again.code, again.body) == (304, b"")
        groups = (await api("GET", "/apis", Accept=wish)).json()["items"]
        assert "apps" in {group["metadata"]["name"] for group in groups}


async def test_a_subresource_kind_of_another_group_is_named_in_discovery() -> None:
    async with a_server() as api:
        wish = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = (await api("GET", "/apis", Accept=wish)).json()["items"]
        apps = next(group for group in groups if group["metadata"]["name"] == "apps")
        deployments = next(
            one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments"
        )
        scale = next(one for one in deployments["subresources"] if one["subresource"] == "scale")
        assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


async def test_legacy_discovery_is_served() -> None:
    async with a_server() as api:
        assert (await api("GET", "/api")).json()["versions"] == ["v1"]
        core = (await api("GET", "/api/v1")).json()
        assert "apiVersion" not in core
        names = {resource["name"] for resource in core["resources"]}
        assert {"pods", "pods/status", "services"} <= names
        apps = (await api("GET", "/apis/apps")).json()
        assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
        assert (await api("GET", "/apis/apps/v1")).json()["apiVersion"] == "v1"
        assert "apps" in {group["name"] for group in (await api("GET", "/apis")).json()["groups"]}


async def test_health_checks_are_listed_on_request() -> None:
    async with a_server() as api:
        assert (await api("GET", "/readyz")).body == b"ok"
        assert b"[+]ping ok\n" in (await api("GET", "/readyz?verbose")).body
        assert (await api("GET", "/readyz/nothing")).code == 404


async def test_reviews_are_answered_without_being_stored() -> None:
    async with a_server() as api:
        revision = api.server.backend.storage.revision
        for group, plural, member in (
            ("authorization", "selfsubjectaccessreviews", "allowed"),
            ("authorization", "selfsubjectrulesreviews", "resourceRules"),
            ("authentication", "selfsubjectreviews", "userInfo"),
        ):
            answer = await api("POST", f"/apis/{group}.k8s.io/v1/{plural}", {"spec": {}})
            assert answer.code == 201
            assert answer.json()["status"][member]
            assert (await api("GET", f"/apis/{group}.k8s.io/v1/{plural}")).code == 405
        assert api.server.backend.storage.revision == revision


# ----------------------------------------------------------------------------------------------- bootstrap


async def test_a_new_cluster_has_its_namespaces_and_the_kubernetes_service() -> None:
    async with a_server() as api:
        namespaces = (await api("GET", "/api/v1/namespaces")).json()["items"]
        names = [one["metadata"]["name"] for one in namespaces]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        service = (await api("GET", "/api/v1/namespaces/default/services/kubernetes")).json()
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        endpoints = (await api("GET", "/api/v1/namespaces/default/endpoints/kubernetes")).json()
        assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
        labels = (await api("GET", path)).json()["metadata"]["labels"]
        assert labels == {"kubernetes.io/service-name": "kubernetes"}


async def test_the_certificate_is_valid_only_for_this_machine() -> None:
    async with a_server() as api:
        tls = ssl.create_default_context(cadata=api.server.authority.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session:
            async with session.get(f"https://localhost:{api.server.port}/healthz") as response:
                assert response.status == 200
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(
                    f"https://localhost:{api.server.port}/healthz", server_hostname="example.com"
                )
