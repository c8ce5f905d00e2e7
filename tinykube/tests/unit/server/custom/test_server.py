"""Custom resources on a running server: served immediately, stored, and removed in order."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings

TOKEN = "a" * 32
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT = "/apis/example.com/v1/namespaces/default/cogs"


def crd(plural: str = "cogs", kind: str = "Cog", **spec: Any) -> dict[str, Any]:
    body = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind},
        "versions": [version()],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {**body, **spec},
    }


def version(name: str = "v1", spec: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    inner = spec or {"a": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": inner}}}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        **members,
    }


def cog(name: str = "x", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Cog", "metadata": {"name": name}, "spec": spec}


class Api:
    """A client of the server."""

    def __init__(self, session: aiohttp.ClientSession, server: ApiServer) -> None:
        self.session = session
        self.server = server

    async def __call__(
        self, method: str, path: str, body: Any = None, *, code: int = 200, **headers: str
    ) -> Any:
        """Send a request; fail if the response has another code."""
        kind = {"Content-Type": headers.pop("kind", "application/json"), **headers}
        async with self.session.request(
            method, self.server.url + path, data=None if body is None else json.dumps(body), headers=kind
        ) as response:
            text = await response.text()
            assert response.status == code, text
            self.warnings = response.headers.getall("Warning", [])
            return json.loads(text) if text.startswith("{") else text

    async def until_gone(self, path: str, revision: str) -> list[dict[str, Any]]:
        """Watch one object from a revision until it is deleted; return the events."""
        collection, _, name = path.rpartition("/")
        events = []
        query = f"?watch=1&resourceVersion={revision}&fieldSelector=metadata.name={name}"
        async with self.session.get(self.server.url + collection + query) as response:
            async for line in response.content:
                events.append(json.loads(line))
                if events[-1]["type"] == "DELETED":
                    return events
        raise AssertionError("the watch ended before the object was deleted")


@asynccontextmanager
async def serving(data_dir: Path | None = None) -> AsyncIterator[Api]:
    settings = ServerSettings(token=TOKEN, data_dir=data_dir, shutdown_seconds=1.0)
    async with ApiServer(settings, builtin_registry()) as server:
        trusting = ssl.create_default_context(cadata=server.authority.decode())
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            yield Api(session, server)


async def test_a_custom_kind_is_usable_once_its_create_returns() -> None:
    async with serving() as api:
        answered = await api("POST", CRDS, crd(), code=201)
        assert {one["type"]: one["status"] for one in answered["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        made = await api("POST", AT, cog(a="1", b="2"), code=201)
        assert made["spec"] == {"a": "1"}
        assert made["metadata"]["generation"] == 1
        listed = await api("GET", "/apis/example.com/v1/cogs")
        assert (listed["kind"], listed["items"][0]["kind"]) == ("CogList", "Cog")


async def test_a_custom_kind_appears_in_discovery_and_openapi() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(versions=[version(subresources={"status": {}})]), code=201)
        old = await api("GET", "/apis/example.com/v1")
        assert [one["name"] for one in old["resources"]] == ["cogs", "cogs/status"]
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = await api("GET", "/apis", Accept=accept)
        assert "example.com" in [one["metadata"]["name"] for one in groups["items"]]
        document = await api("GET", "/openapi/v3/apis/example.com/v1")
        schemas = document["components"]["schemas"]
        assert schemas["com.example.v1.Cog"]["properties"]["spec"]["properties"] == {"a": {"type": "string"}}
        assert "com.example.v1.CogList" in schemas
        await api("DELETE", f"{CRDS}/cogs.example.com")


async def test_definitions_and_objects_survive_a_restart(tmp_path: Path) -> None:
    selectable = version(selectableFields=[{"jsonPath": ".spec.a"}])
    async with serving(tmp_path) as api:
        await api("POST", CRDS, crd(versions=[selectable]), code=201)
        await api("POST", AT, cog(a="1"), code=201)
        await api("POST", AT, cog("y", a="2"), code=201)
    async with serving(tmp_path) as api:
        found = await api("GET", f"{AT}?fieldSelector=spec.a=2")
        assert [one["metadata"]["name"] for one in found["items"]] == ["y"]
        await api("POST", AT, cog("z", a=3), code=422)


async def test_a_watch_survives_an_update_of_its_definition() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(), code=201)
        async with api.session.get(f"{api.server.url}{AT}?watch=1") as watch:
            await api("POST", AT, cog(a="1"), code=201)
            assert json.loads(await watch.content.readline())["type"] == "ADDED"
            stored = await api("GET", f"{CRDS}/cogs.example.com")
            stored["spec"]["versions"] = [version(spec={"a": {"type": "string"}, "b": {"type": "string"}})]
            await api("PUT", f"{CRDS}/cogs.example.com", stored)
            await api("POST", AT, cog("y", a="1", b="2"), code=201)
            event = json.loads(await watch.content.readline())
            assert (event["type"], event["object"]["spec"]) == ("ADDED", {"a": "1", "b": "2"})


async def test_stored_objects_are_read_with_the_current_schema() -> None:
    async with serving() as api:
        await api(
            "POST",
            CRDS,
            crd(versions=[version(spec={"a": {"type": "string"}, "b": {"type": "string"}})]),
            code=201,
        )
        await api("POST", AT, cog(a="1", b="2"), code=201)
        stored = await api("GET", f"{CRDS}/cogs.example.com")
        stored["spec"]["versions"] = [
            version(spec={"a": {"type": "string"}, "c": {"type": "string", "default": "x"}})
        ]
        await api("PUT", f"{CRDS}/cogs.example.com", stored)
        shown = await api("GET", f"{AT}/x")
        assert shown["spec"] == {"a": "1", "c": "x"}
        again = await api("PUT", f"{AT}/x", shown)
        assert again["metadata"]["generation"] == 1


async def test_versions_differ_only_in_their_api_version() -> None:
    async with serving() as api:
        await api(
            "POST", CRDS, crd(versions=[version(), version("v2"), version("v3", served=False)]), code=201
        )
        await api("POST", AT, cog(a="1"), code=201)
        other = AT.replace("/v1/", "/v2/")
        shown = await api("GET", f"{other}/x")
        assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {"a": "1"})
        shown["spec"]["a"] = "2"
        await api("PUT", f"{other}/x", shown)
        assert (await api("GET", f"{AT}/x"))["spec"] == {"a": "2"}
        await api("GET", AT.replace("/v1/", "/v3/"), code=404)
        groups = await api("GET", "/apis/example.com")
        assert groups["preferredVersion"]["version"] == "v2"


async def test_a_definition_is_removed_after_its_instances() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(), code=201)
        held = cog(a="1")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api("POST", AT, held, code=201)
        await api("POST", AT, cog("y"), code=201)
        going = await api("DELETE", f"{CRDS}/cogs.example.com")
        assert going["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        refused = await api("POST", AT, cog("z"), code=403)
        assert "terminating" in refused["message"]
        await api("PATCH", f"{AT}/x", {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
        events = await api.until_gone(f"{CRDS}/cogs.example.com", going["metadata"]["resourceVersion"])
        reasons = {event["object"]["status"]["conditions"][-1]["reason"] for event in events}
        assert "InstanceDeletionInProgress" in reasons
        await api("GET", AT, code=404)
        assert "example.com" not in [one["name"] for one in (await api("GET", "/apis"))["groups"]]
        await api("POST", CRDS, crd(), code=201)
        assert (await api("GET", AT))["items"] == []


async def test_a_released_name_is_granted_to_the_waiting_definition() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(), code=201)
        waiting = await api(
            "POST", CRDS, crd("gears", names={"plural": "gears", "singular": "gear", "kind": "Cog"}), code=201
        )
        assert waiting["status"]["conditions"][0]["reason"] == "ListKindConflict"
        await api("GET", AT.replace("cogs", "gears"), code=404)
        async with api.session.get(
            f"{api.server.url}{CRDS}?watch=1&resourceVersion={waiting['metadata']['resourceVersion']}"
        ) as watch:
            await api("DELETE", f"{CRDS}/cogs.example.com")
            while True:
                one = json.loads(await watch.content.readline())["object"]
                if one["metadata"]["name"] == "gears.example.com":
                    break
        assert one["status"]["acceptedNames"]["kind"] == "Cog"
        assert (await api("GET", AT.replace("cogs", "gears")))["items"] == []


async def test_scale_uses_the_replicas_path_of_the_definition() -> None:
    scale = {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}
    async with serving() as api:
        await api(
            "POST",
            CRDS,
            crd(versions=[version(spec={"size": {"type": "integer"}}, subresources=scale)]),
            code=201,
        )
        await api("POST", AT, cog(size=2), code=201)
        assert (await api("GET", f"{AT}/x/scale"))["spec"] == {"replicas": 2}
        await api("PATCH", f"{AT}/x/scale", {"spec": {"replicas": 5}}, kind="application/merge-patch+json")
        shown = await api("GET", f"{AT}/x")
        assert (shown["spec"], shown["metadata"]["generation"]) == ({"size": 5}, 2)


async def test_updates_need_a_resource_version_and_strategic_patches_are_rejected() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(), code=201)
        await api("POST", AT, cog(a="1"), code=201)
        refused = await api("PUT", f"{AT}/x", cog(a="2"), code=422)
        assert "metadata.resourceVersion" in refused["message"]
        await api(
            "PATCH", f"{AT}/x", {"spec": {"a": "2"}}, kind="application/strategic-merge-patch+json", code=415
        )


async def test_definitions_with_cel_rules_cause_a_warning() -> None:
    ruled = {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'"}]}}
    async with serving() as api:
        made = await api("POST", CRDS, crd(versions=[version(spec=ruled)]), code=201)
        assert "does not evaluate" in api.warnings[0]
        kept = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        assert kept["a"]["x-kubernetes-validations"] == [{"rule": "self == 'x'"}]
        await api("POST", AT, cog(a="y"), code=201)


async def test_unknown_fields_are_rejected_or_warned_about_as_requested() -> None:
    async with serving() as api:
        await api("POST", CRDS, crd(), code=201)
        refused = await api("POST", f"{AT}?fieldValidation=Strict", cog(a="1", b="2"), code=400)
        assert 'unknown field "spec.b"' in refused["message"]
        await api("POST", f"{AT}?fieldValidation=Warn", cog(a="1", b="2"), code=201)
        assert "spec.b" in api.warnings[0]
