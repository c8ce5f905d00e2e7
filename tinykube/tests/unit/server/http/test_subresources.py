"""Subresources other than status: scale, binding, eviction, finalize. Over a real socket."""

from typing import Any

from tests.unit.server.http.served import ServedApi, a_server

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


async def a_deployment(api: ServedApi) -> Any:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    answer = await api("POST", DEPLOYMENT, {"metadata": {"name": "web"}, "spec": spec})
    assert answer.code == 201, answer.body
    return answer.json()


async def a_pod(api: ServedApi, **metadata: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    answer = await api("POST", PODS, {"metadata": {"name": "p", **metadata}, "spec": spec})
    assert answer.code == 201, answer.body


async def test_a_scale_can_be_read_replaced_and_patched() -> None:
    async with a_server() as api:
        before = await a_deployment(api)
        scale = (await api("GET", f"{DEPLOYMENT}/web/scale")).json()
        assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == (
            "Scale",
            {"replicas": 2},
            "a=b",
        )
        scale["spec"]["replicas"] = 5
        put = await api("PUT", f"{DEPLOYMENT}/web/scale", scale)
        assert (put.code, put.json()["spec"]) == (200, {"replicas": 5})
        after = (await api("GET", f"{DEPLOYMENT}/web")).json()
        assert put.json()["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (5, 2)
        assert before["metadata"]["generation"] == 1
        stale = await api("PUT", f"{DEPLOYMENT}/web/scale", scale)
        assert (stale.code, stale.json()["reason"]) == (409, "Conflict")
        patched = await api(
            "PATCH",
            f"{DEPLOYMENT}/web/scale",
            '{"spec":{"replicas":7}}',
            Content_Type="application/merge-patch+json",
        )
        assert patched.json()["spec"] == {"replicas": 7}


async def test_a_dry_run_of_a_scale_patch_changes_nothing() -> None:
    async with a_server() as api:
        await a_deployment(api)
        patch = {"Content_Type": "application/merge-patch+json"}
        shown = await api("PATCH", f"{DEPLOYMENT}/web/scale?dryRun=All", '{"spec":{"replicas":7}}', **patch)
        assert shown.json()["spec"] == {"replicas": 7}
        assert (await api("GET", f"{DEPLOYMENT}/web")).json()["spec"]["replicas"] == 2


async def test_a_binding_assigns_a_pod_to_its_node_only_once() -> None:
    async with a_server() as api:
        await a_pod(api)
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        bound = await api("POST", f"{PODS}/p/binding", binding)
        assert (bound.code, bound.json()["status"]) == (201, "Success")
        assert (await api("GET", f"{PODS}/p")).json()["spec"]["nodeName"] == "n1"
        assert (await api("POST", f"{PODS}/p/binding", binding)).code == 409
        assert (await api("GET", f"{PODS}/p/binding")).code == 405
        assert (await api("POST", f"{PODS}/none/binding", {"target": {"name": "n"}})).code == 404


async def test_an_eviction_deletes_the_pod_and_honours_preconditions() -> None:
    async with a_server() as api:
        await a_pod(api)
        wrong = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "other"}}}
        assert (await api("POST", f"{PODS}/p/eviction", wrong)).code == 409
        evicted = await api("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        assert (evicted.code, evicted.json()["status"]) == (201, "Success")
        assert (await api("GET", f"{PODS}/p")).code == 404


async def test_a_namespace_is_removed_when_finalize_clears_its_finalizers() -> None:
    async with a_server(lifecycle=False) as api:
        await api("POST", "/api/v1/namespaces", {"metadata": {"name": "t"}})
        await api("DELETE", "/api/v1/namespaces/t")
        namespace = (await api("GET", "/api/v1/namespaces/t")).json()
        assert namespace["status"]["phase"] == "Terminating"
        again = await api("POST", "/api/v1/namespaces", {"metadata": {"name": "t"}})
        assert again.json()["message"] == 'object is being deleted: namespaces "t" already exists'
        namespace["spec"] = {}
        assert (await api("PUT", "/api/v1/namespaces/t/finalize", namespace)).code == 200
        assert (await api("GET", "/api/v1/namespaces/t")).code == 404


async def test_the_server_empties_and_removes_a_deleted_namespace() -> None:
    async with a_server() as api:
        await api("POST", "/api/v1/namespaces", {"metadata": {"name": "t"}})
        await api("POST", "/api/v1/namespaces/t/configmaps", {"metadata": {"name": "a"}})
        async with api.session.get("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dt") as watch:
            await api("DELETE", "/api/v1/namespaces/t")
            while b'"DELETED"' not in await watch.content.readline():
                pass
        assert (await api("GET", "/api/v1/namespaces/t/configmaps")).json()["items"] == []


async def test_scale_rejects_bodies_of_other_kinds_and_names() -> None:
    async with a_server() as api:
        await a_deployment(api)
        wrong = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}}
        assert (await api("PUT", f"{DEPLOYMENT}/web/scale", wrong)).code == 400
        other = {"metadata": {"name": "other"}, "spec": {"replicas": 1}}
        assert (await api("PUT", f"{DEPLOYMENT}/web/scale", other)).code == 400
        text = {"metadata": {"name": "web"}, "spec": {"replicas": "many"}}
        assert (await api("PUT", f"{DEPLOYMENT}/web/scale", text)).code == 400
        assert (await api("GET", f"{DEPLOYMENT}/none/scale")).code == 404


async def test_an_event_is_served_in_both_of_its_groups() -> None:
    async with a_server() as api:
        core = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "message": "hello",
            "reason": "Because",
        }
        created = await api("POST", "/api/v1/namespaces/default/events", core)
        assert created.code == 201, created.body
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        new = (await api("GET", f"{path}/e")).json()
        assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "hello")
        assert new["regarding"]["name"] == "p"
        items = (await api("GET", path)).json()
        assert (items["apiVersion"], items["items"][0]["note"]) == ("events.k8s.io/v1", "hello")
        async with api.session.get(f"{path}?watch=1") as watch:
            assert b'"note":"hello"' in await watch.content.readline()
