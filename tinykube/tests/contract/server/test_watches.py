"""Watches: start, events and end."""

import asyncio
import json
from typing import Any

import pytest
from tests.contract.server.wire import (
    CONFIG_MAPS,
    ENDPOINTS,
    EVENTS,
    NEW_EVENTS,
    PARTIAL,
    PODS,
    SLICES,
    TABLE,
    YAML,
    Api,
    endpoint_slice,
    pod,
    version,
)

INITIAL: dict[str, Any] = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
A = f"{CONFIG_MAPS}/a"
END = {"k8s.io/initial-events-end": "true"}


async def now(api: Api, path: str = CONFIG_MAPS) -> int:
    return version(await api.get(path))


# -------------------------------------------------------------------------------------- where it begins


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_starts_with_existing_objects(
    api: Api, query: dict[str, str]
) -> None:
    await api.config_map("a")
    await api.config_map("b")
    async with api.watch(CONFIG_MAPS, **query) as watching:
        assert sorted(await watching.told(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.config_map("c")
        assert await watching.told(1) == [("ADDED", "c")]


async def test_a_watch_from_a_version_reports_only_later_changes(api: Api) -> None:
    await api.config_map("a")
    since = version(await api.config_map("b"))
    await api.config_map("c")
    await api.delete(f"{CONFIG_MAPS}/a")
    async with api.watch(CONFIG_MAPS, resourceVersion=since) as watching:
        assert await watching.told(2) == [("ADDED", "c"), ("DELETED", "a")]


async def test_a_watch_from_the_version_of_a_list_has_no_gap_and_no_duplicate(api: Api) -> None:
    await api.config_map("a")
    since = await now(api)
    async with api.watch(CONFIG_MAPS, resourceVersion=since) as watching:
        await api.config_map("b")
        assert await watching.told(1) == [("ADDED", "b")]


async def test_a_watch_from_a_future_version_is_silent(api: Api) -> None:
    async with api.watch(CONFIG_MAPS, resourceVersion=99999999, timeoutSeconds=1) as watching:
        await api.config_map("a")
        assert await watching.rest() == []


async def test_a_watch_from_a_non_numeric_version_is_rejected(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"watch": "true", "resourceVersion": "x"})
    assert (refusal.code, refusal.reason) == (500, None)
    assert (
        refusal.message
        == 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    )


async def test_a_watch_without_events_responds_immediately(api: Api) -> None:
    async with asyncio.timeout(2), api.watch(CONFIG_MAPS, resourceVersion=await now(api)) as watching:
        assert watching.response.status == 200


# --------------------------------------------------------------------------------- lists by way of a watch


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    newest = 0
    for name in ("a", "b"):
        newest = version(await api.config_map(name))
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **INITIAL) as watching:
        events = await watching.take(3)
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert sorted(event["object"]["metadata"]["name"] for event in events[:2]) == ["a", "b"]
    mark = events[2]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
    assert mark["metadata"]["annotations"] == END
    assert version(mark) >= newest
    assert set(mark["metadata"]) == {"resourceVersion", "annotations"}


async def test_empty_initial_events_end_with_a_bookmark_too(api: Api) -> None:
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **INITIAL) as watching:
        (mark,) = await watching.take(1)
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == END


async def test_initial_events_without_a_match_end_with_a_bookmark(api: Api) -> None:
    await api.config_map("a")
    query: dict[str, Any] = {**INITIAL, "allowWatchBookmarks": "true", "labelSelector": "app=web"}
    async with api.watch(CONFIG_MAPS, **query) as watching:
        assert (await watching.next())["type"] == "BOOKMARK"


async def test_without_bookmarks_the_end_of_initial_events_is_not_marked(api: Api) -> None:
    await api.config_map("a")
    async with api.watch(CONFIG_MAPS, **INITIAL) as watching:
        assert await watching.told(1) == [("ADDED", "a")]
        await api.config_map("b")
        assert await watching.told(1) == [("ADDED", "b")]


async def test_initial_events_are_not_older_than_requested(api: Api) -> None:
    asked = version(await api.config_map("a"))
    query: dict[str, Any] = {**INITIAL, "allowWatchBookmarks": "true", "resourceVersion": asked}
    async with api.watch(CONFIG_MAPS, **query) as watching:
        first, mark = await watching.take(2)
    assert first["object"]["metadata"]["name"] == "a"
    assert version(mark["object"]) >= asked


async def test_changes_follow_the_bookmark_that_ends_the_initial_events(api: Api) -> None:
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **INITIAL) as watching:
        assert (await watching.next())["type"] == "BOOKMARK"
        await api.config_map("a")
        assert await watching.told(1) == [("ADDED", "a")]


async def test_a_watch_list_ends_the_initial_state_with_a_bookmark(api: Api) -> None:
    await api.config_map("a")
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", resourceVersion="0") as watching:
        first, mark = await watching.take(2)
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == END


async def test_initial_events_can_be_disabled_for_a_watch_from_a_version(api: Api) -> None:
    await api.config_map("a")
    query: dict[str, Any] = {
        "sendInitialEvents": "false",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": await now(api),
    }
    async with api.watch(CONFIG_MAPS, **query) as watching:
        await api.config_map("b")
        assert await watching.told(1) == [("ADDED", "b")]


REQUIRES = (
    "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
)
UNLESS = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"sendInitialEvents": "true"}, REQUIRES),
        ({"sendInitialEvents": "false"}, REQUIRES),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
            f'[{REQUIRES}, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
        ),
        ({"resourceVersionMatch": "NotOlderThan"}, UNLESS),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "1"},
            f'[{UNLESS}, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
        ),
        (
            {**INITIAL, "continue": "x"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ],
)
async def test_invalid_watch_options_are_rejected(api: Api, query: dict[str, str], why: str) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"watch": "true", **query})
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.message == f'ListOptions.meta.k8s.io "" is invalid: {why}'


# ------------------------------------------------------------------------------------------ events


async def test_the_events_of_an_object_arrive_in_order(api: Api) -> None:
    async with api.watch(CONFIG_MAPS, resourceVersion=await now(api)) as watching:
        made = await api.config_map("a")
        changed = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
        await api.delete(f"{CONFIG_MAPS}/a")
        again = await api.config_map("a")
        events = await watching.take(4)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    assert events[3]["object"] == again
    versions = [version(event["object"]) for event in events]
    assert versions == sorted(set(versions))


async def test_a_deleted_object_has_its_last_state_and_the_version_of_its_deletion(api: Api) -> None:
    made = await api.config_map("a", x="y")
    async with api.watch(CONFIG_MAPS, resourceVersion=version(made)) as watching:
        await api.delete(f"{CONFIG_MAPS}/a")
        gone = (await watching.next())["object"]
    assert gone["data"] == {"x": "y"}
    assert gone["metadata"]["uid"] == made["metadata"]["uid"]
    assert version(gone) > version(made)
    assert "deletionTimestamp" not in gone["metadata"]


async def test_objects_in_events_have_kind_and_api_version(api: Api) -> None:
    await api.post(SLICES, endpoint_slice("s", None, "10.1.2.3"))
    async with api.watch(SLICES) as watching:
        found = (await watching.next())["object"]
    assert (found["kind"], found["apiVersion"]) == ("EndpointSlice", "discovery.k8s.io/v1")


async def test_a_no_op_write_causes_no_event(api: Api) -> None:
    made = await api.config_map("a", x="y")
    async with api.watch(CONFIG_MAPS, resourceVersion=version(made)) as watching:
        assert version(await api.put(f"{CONFIG_MAPS}/a", made)) == version(made)
        assert version(await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})) == version(made)
        await api.config_map("b")
        assert await watching.told(1) == [("ADDED", "b")]


async def test_a_dry_run_causes_no_event(api: Api) -> None:
    made = await api.config_map("a")
    async with api.watch(CONFIG_MAPS, resourceVersion=version(made)) as watching:
        dry = {"dryRun": "All"}
        await api.post(CONFIG_MAPS, {"metadata": {"name": "b"}}, query=dry)
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}, query=dry)
        await api.delete(f"{CONFIG_MAPS}/a", query=dry)
        await api.config_map("c")
        assert await watching.told(1) == [("ADDED", "c")]


async def test_an_object_that_starts_or_stops_matching_is_added_or_deleted(api: Api) -> None:
    made = await api.config_map("a", {"app": "db"}, x="1")
    query: dict[str, Any] = {"labelSelector": "app=web", "resourceVersion": version(made)}
    async with api.watch(CONFIG_MAPS, **query) as watching:
        began = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "web"}}})
        stayed = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})
        ceased = await api.patch(
            f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "db"}}, "data": {"x": "3"}}
        )
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "4"}})
        events = await watching.take(3)
        await api.config_map("b", {"app": "web"})
        assert await watching.told(1) == [("ADDED", "b")]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [version(event["object"]) for event in events] == [
        version(began),
        version(stayed),
        version(ceased),
    ]
    gone = events[2]["object"]
    assert gone["data"] == {"x": "2"}, "it is shown as it was when it matched last"
    assert gone["metadata"]["labels"] == {"app": "web"}


@pytest.mark.parametrize("accept", [PARTIAL, TABLE])
async def test_an_object_that_stops_matching_is_reported_in_its_last_matching_state(
    api: Api, accept: str
) -> None:
    made = await api.config_map("a", {"app": "web"}, x="1")
    query: dict[str, Any] = {"labelSelector": "app=web", "resourceVersion": version(made)}
    async with api.watch(CONFIG_MAPS, accept=accept, **query) as watching:
        ceased = await api.patch(A, {"metadata": {"labels": {"app": "db"}}})
        event = await watching.next()
    found = event["object"]["rows"][0]["object"] if accept == TABLE else event["object"]
    assert event["type"] == "DELETED"
    assert found["metadata"]["labels"] == {"app": "web"}
    assert version(found) == version(ceased)


async def test_deleting_an_object_that_never_matched_causes_no_event(api: Api) -> None:
    made = await api.config_map("a", {"app": "db"})
    async with api.watch(CONFIG_MAPS, labelSelector="app=web", resourceVersion=version(made)) as watching:
        await api.delete(f"{CONFIG_MAPS}/a")
        await api.config_map("b", {"app": "web"})
        assert await watching.told(1) == [("ADDED", "b")]


async def test_field_selectors_filter_events_like_label_selectors(api: Api) -> None:
    made = await api.post(PODS, pod("p", nodeName="n"))
    query: dict[str, Any] = {"fieldSelector": "status.phase=Running", "resourceVersion": version(made)}
    async with api.watch(PODS, **query) as watching:
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}})
        events = await watching.take(2)
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[1]["object"]["status"]["phase"] == "Running"


async def test_a_single_object_is_watched_by_name(api: Api) -> None:
    await api.config_map("a")
    async with api.watch(CONFIG_MAPS, fieldSelector="metadata.name=b", resourceVersion="0") as watching:
        await api.config_map("c")
        await api.config_map("b")
        await api.delete(f"{CONFIG_MAPS}/b")
        assert await watching.told(2) == [("ADDED", "b"), ("DELETED", "b")]


async def test_a_namespaced_watch_reports_only_its_namespace(api: Api) -> None:
    since = await now(api)
    await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"x-{api.ns}"}})
    async with api.watch(CONFIG_MAPS, resourceVersion=since) as watching:
        await api.config_map("a")
        assert await watching.told(1) == [("ADDED", "a")]
    await api.delete(f"/api/v1/namespaces/default/configmaps/x-{api.ns}")


async def test_all_namespaces_are_watched_together(api: Api) -> None:
    async with api.watch(
        "/api/v1/configmaps", resourceVersion=await now(api), labelSelector=f"only={api.ns}"
    ) as watching:
        await api.post(
            "/api/v1/namespaces/default/configmaps",
            {"metadata": {"name": api.ns, "labels": {"only": api.ns}}},
        )
        await api.config_map("a", {"only": api.ns})
        assert await watching.told(2) == [("ADDED", api.ns), ("ADDED", "a")]
    await api.delete(f"/api/v1/namespaces/default/configmaps/{api.ns}")


async def test_a_status_update_causes_an_event(api: Api) -> None:
    made = await api.post(PODS, pod("p", nodeName="n"))
    async with api.watch(PODS, resourceVersion=version(made)) as watching:
        written = await api.patch(
            f"{PODS}/p/status", {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}
        )
        event = await watching.next()
    assert event["type"] == "MODIFIED"
    assert event["object"] == written


async def test_a_deletion_with_a_finalizer_causes_two_events(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    async with api.watch(CONFIG_MAPS, resourceVersion=version(made)) as watching:
        await api.delete(f"{CONFIG_MAPS}/a")
        await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
        events = await watching.take(2)
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert events[0]["object"]["metadata"]["deletionTimestamp"]
    assert events[0]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_deleting_a_collection_causes_an_event_for_each_object(api: Api) -> None:
    await api.config_map("a")
    since = version(await api.config_map("b"))
    async with api.watch(CONFIG_MAPS, resourceVersion=since) as watching:
        await api.delete(CONFIG_MAPS)
        assert sorted(await watching.told(2)) == [("DELETED", "a"), ("DELETED", "b")]


async def test_an_event_is_delivered_in_both_of_its_groups(api: Api) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": api.ns}
    async with (
        api.watch(EVENTS, resourceVersion=await now(api, EVENTS)) as core,
        api.watch(NEW_EVENTS, resourceVersion=await now(api, NEW_EVENTS)) as new,
    ):
        await api.post(EVENTS, {"metadata": {"name": "e"}, "involvedObject": about, "message": "hello"})
        first, second = await core.next(), await new.next()
    assert first["object"]["involvedObject"]["name"] == "p"
    assert second["object"]["regarding"]["name"] == "p"
    assert second["object"]["note"] == "hello"
    assert version(first["object"]) == version(second["object"])


async def test_a_watch_of_a_deprecated_kind_has_a_warning(api: Api) -> None:
    async with api.watch(ENDPOINTS, timeoutSeconds=1) as watching:
        assert watching.response.headers["Warning"] == (
            '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
        )


# -------------------------------------------------------------------------------------------- how it goes


async def test_watch_events_are_lines_of_json(api: Api) -> None:
    await api.config_map("a")
    await api.config_map("b")
    async with api.watch(CONFIG_MAPS) as watching:
        assert watching.response.headers["Content-Type"] == "application/json"
        for _ in range(2):
            line = await watching.response.content.readline()
            assert line.endswith(b"\n")
            assert list(json.loads(line)) == ["type", "object"]


async def test_a_watch_ends_silently_at_its_timeout(api: Api) -> None:
    await api.config_map("a")
    async with api.watch(CONFIG_MAPS, timeoutSeconds=1) as watching:
        assert [event["type"] for event in await watching.rest()] == ["ADDED"]


@pytest.mark.parametrize("text", ["true", "True", "1", "", "yes"])
async def test_the_watch_parameter_is_true_for_most_values(api: Api, text: str) -> None:
    await api.config_map("a")
    async with api.watch(CONFIG_MAPS, watch=text) as watching:
        assert await watching.told(1) == [("ADDED", "a")]


@pytest.mark.parametrize("text", ["false", "False", "FALSE", "0"])
async def test_a_false_watch_parameter_requests_a_list(api: Api, text: str) -> None:
    assert (await api.get(CONFIG_MAPS, query={"watch": text}))["kind"] == "ConfigMapList"


async def test_a_watch_parameter_without_a_value_is_true(api: Api) -> None:
    await api.config_map("a")
    async with api.session.get(f"/api/v1/namespaces/{api.ns}/configmaps?watch") as response:
        assert json.loads(await response.content.readline())["type"] == "ADDED"


async def test_the_deprecated_watch_paths_work(api: Api) -> None:
    await api.config_map("a")
    await api.config_map("b")
    async with api.watch("/api/v1/watch/namespaces/{ns}/configmaps", watch="") as watching:
        assert sorted(await watching.told(2)) == [("ADDED", "a"), ("ADDED", "b")]
    async with api.watch("/api/v1/watch/namespaces/{ns}/configmaps/b", watch="") as watching:
        assert await watching.told(1) == [("ADDED", "b")]


async def test_only_the_first_table_event_has_column_definitions(api: Api) -> None:
    await api.config_map("a", x="y")
    async with api.watch(CONFIG_MAPS, accept=TABLE) as watching:
        first = await watching.next()
        await api.config_map("b")
        second = await watching.next()
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 1]
    assert not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["cells"][:2] == ["b", 0]


async def test_a_watch_is_available_as_metadata_only(api: Api) -> None:
    await api.config_map("a", x="y")
    async with api.watch(CONFIG_MAPS, accept=PARTIAL) as watching:
        event: dict[str, Any] = await watching.next()
    found = event["object"]
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert found["metadata"]["name"] == "a"
    assert "data" not in found


async def test_a_watch_in_yaml_is_not_acceptable(api: Api) -> None:
    answer = await api("GET", CONFIG_MAPS, query={"watch": "true"}, accept=YAML)
    assert answer.code == 406
    assert "only the following media types are accepted: application/json;stream=watch" in answer.text


async def test_a_watch_by_an_unsupported_field_is_rejected(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"watch": "true", "fieldSelector": "data.a=b"})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
