"""Lists: order, pages, versions and errors."""

import asyncio
import base64
import json
from typing import Any

import pytest
from tests.contract.server.wire import CONFIG_MAPS, NAMESPACES, PODS, Api, names, pod, version


async def three(api: Api) -> int:
    for name in ("b", "a", "c"):
        made = await api.config_map(name, {"app": name})
    return version(made)


async def test_an_empty_list_has_items_and_a_version(api: Api) -> None:
    listed = await api.get(CONFIG_MAPS)
    assert listed["kind"] == "ConfigMapList"
    assert listed["apiVersion"] == "v1"
    assert listed["items"] == []
    assert set(listed["metadata"]) == {"resourceVersion"}
    assert version(listed) > 0


async def test_list_items_have_neither_kind_nor_api_version(api: Api) -> None:
    await three(api)
    for item in (await api.get(CONFIG_MAPS))["items"]:
        assert "kind" not in item
        assert "apiVersion" not in item


async def test_list_items_are_sorted_by_name(api: Api) -> None:
    await three(api)
    await api.config_map("b.b")
    await api.config_map("b-b")
    assert names(await api.get(CONFIG_MAPS)) == ["a", "b", "b-b", "b.b", "c"]


async def test_a_list_of_all_namespaces_is_sorted_by_storage_key(api: Api) -> None:
    other = f"{api.ns}-0"
    await api.post(NAMESPACES, {"metadata": {"name": other}})
    await api.config_map("z", {"order": api.ns})
    await api.post(
        f"/api/v1/namespaces/{other}/configmaps", {"metadata": {"name": "a", "labels": {"order": api.ns}}}
    )
    listed = await api.get("/api/v1/configmaps", query={"labelSelector": f"order={api.ns}"})
    assert names(listed) == ["a", "z"]  # "-" sorts before the "/" that ends a namespace


async def test_pages_over_all_namespaces_have_the_same_order(api: Api) -> None:
    other = f"{api.ns}-0"
    await api.post(NAMESPACES, {"metadata": {"name": other}})
    await api.config_map("y", {"order": api.ns})
    await api.config_map("z", {"order": api.ns})
    await api.post(
        f"/api/v1/namespaces/{other}/configmaps", {"metadata": {"name": "a", "labels": {"order": api.ns}}}
    )
    found = []
    query: dict[str, Any] = {"limit": 1, "labelSelector": f"order={api.ns}"}
    while True:
        page = await api.get("/api/v1/configmaps", query=query)
        found += names(page)
        if "continue" not in page["metadata"]:
            break
        query["continue"] = page["metadata"]["continue"]
    assert found == ["a", "y", "z"]


async def test_the_version_of_a_list_is_at_least_that_of_its_items(api: Api) -> None:
    newest = await three(api)
    assert version(await api.get(CONFIG_MAPS)) >= newest


async def test_a_missing_namespace_lists_as_empty(api: Api) -> None:
    assert names(await api.get("/api/v1/namespaces/not-there/configmaps")) == []


async def test_a_list_of_one_namespace_excludes_others(api: Api) -> None:
    await api.config_map("mine")
    assert names(await api.get(CONFIG_MAPS)) == ["mine"]


# ------------------------------------------------------------------------------------------------ pages


async def test_a_page_has_the_remaining_item_count(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    assert names(page) == ["a"]
    assert page["metadata"]["remainingItemCount"] == 2
    assert page["metadata"]["continue"]


async def test_pages_return_every_item_once(api: Api) -> None:
    await three(api)
    found: list[str] = []
    token = ""
    for _ in range(3):
        page = await api.get(CONFIG_MAPS, query={"limit": 1, **({"continue": token} if token else {})})
        found += names(page)
        token = page["metadata"].get("continue", "")
    assert found == ["a", "b", "c"]
    assert not token


async def test_the_last_page_has_no_continue_token_and_no_remaining_count(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 2})
    last = await api.get(CONFIG_MAPS, query={"limit": 2, "continue": page["metadata"]["continue"]})
    assert names(last) == ["c"]
    assert set(last["metadata"]) == {"resourceVersion"}


async def test_a_limit_equal_to_the_number_of_items_needs_no_second_page(api: Api) -> None:
    await three(api)
    assert set((await api.get(CONFIG_MAPS, query={"limit": 3}))["metadata"]) == {"resourceVersion"}


async def test_later_pages_have_the_version_of_the_first(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    await api.config_map("d")
    await api.delete(f"{CONFIG_MAPS}/b")
    await api.patch(f"{CONFIG_MAPS}/c", {"data": {"late": "yes"}})
    rest = await api.get(CONFIG_MAPS, query={"limit": 5, "continue": page["metadata"]["continue"]})
    assert names(rest) == ["b", "c"]
    assert version(rest) == version(page)
    assert "data" not in rest["items"][1]


async def test_a_middle_page_has_the_remaining_item_count(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    second = await api.get(CONFIG_MAPS, query={"limit": 1, "continue": page["metadata"]["continue"]})
    assert second["metadata"]["remainingItemCount"] == 1


async def test_a_page_of_a_selection_has_no_remaining_item_count(api: Api) -> None:
    await three(api)
    await api.config_map("d", {"app": "a"})
    page = await api.get(CONFIG_MAPS, query={"limit": 1, "labelSelector": "app=a"})
    assert names(page) == ["a"]
    assert "remainingItemCount" not in page["metadata"]
    rest = await api.get(
        CONFIG_MAPS, query={"limit": 1, "labelSelector": "app=a", "continue": page["metadata"]["continue"]}
    )
    assert names(rest) == ["d"]
    assert "continue" not in rest["metadata"]


async def test_pages_over_all_namespaces_can_be_filtered_by_namespace(api: Api) -> None:
    if not api.is_embedded:
        pytest.skip("kube-apiserver 1.36.3 gives the first page again and again")
    await three(api)
    query: dict[str, Any] = {"limit": 2, "fieldSelector": f"metadata.namespace={api.ns}"}
    page = await api.get("/api/v1/configmaps", query=query)
    rest = await api.get("/api/v1/configmaps", query={**query, "continue": page["metadata"]["continue"]})
    assert names(page) + names(rest) == ["a", "b", "c"]


@pytest.mark.parametrize("limit", ["0", "-1"])
async def test_a_zero_or_negative_limit_means_no_limit(api: Api, limit: str) -> None:
    await three(api)
    assert len((await api.get(CONFIG_MAPS, query={"limit": limit}))["items"]) == 3


@pytest.mark.parametrize("text", ["x", "", "1.5"])
@pytest.mark.parametrize("parameter", ["limit", "timeoutSeconds"])
async def test_an_invalid_number_is_rejected(api: Api, parameter: str, text: str) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={parameter: text})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message == f'strconv.ParseInt: parsing "{text}": invalid syntax'


async def test_an_invalid_continue_token_is_rejected(api: Api) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"limit": 1, "continue": "garbage"})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message is not None
    assert refusal.message.startswith("invalid continue token: continue key is not valid: ")


async def test_a_continue_token_of_an_unknown_encoding_version_is_rejected(api: Api) -> None:
    token = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v9","rv":5,"start":"a"}').rstrip(b"=").decode()
    refusal = await api.refused("GET", CONFIG_MAPS, query={"limit": 1, "continue": token})
    assert refusal.code == 400
    assert refusal.message == (
        "invalid continue token: continue key is not valid: "
        "server does not recognize this encoded version meta.k8s.io/v9"
    )


async def test_a_continue_token_has_the_format_of_upstream(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    token = page["metadata"]["continue"]
    read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert (read["v"], read["rv"]) == ("meta.k8s.io/v1", version(page))
    assert read["start"].lstrip("/") == "a\0"


async def test_a_continue_token_with_a_version_is_rejected(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    query = {"limit": 1, "continue": page["metadata"]["continue"], "resourceVersion": version(page)}
    refusal = await api.refused("GET", CONFIG_MAPS, query=query)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message == "specifying resource version is not allowed when using continue"


async def test_a_continue_token_with_version_0_is_accepted(api: Api) -> None:
    await three(api)
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    query = {"continue": page["metadata"]["continue"], "resourceVersion": "0"}
    assert names(await api.get(CONFIG_MAPS, query=query)) == ["b", "c"]


# --------------------------------------------------------------------------------------------- versions


async def test_a_list_at_version_0_returns_a_version(api: Api) -> None:
    listed = await api.get(CONFIG_MAPS, query={"resourceVersion": "0"})
    assert version(listed) > 0


async def test_a_list_at_a_version_is_not_older(api: Api) -> None:
    old = await three(api)
    newer = version(await api.config_map("d"))
    newer_than = {"resourceVersionMatch": "NotOlderThan"}
    queries: list[dict[str, Any]] = [{}, newer_than, {**newer_than, "limit": 9}]
    for query in queries:
        listed = await api.get(CONFIG_MAPS, query={"resourceVersion": newer, **query})
        assert names(listed) == ["a", "b", "c", "d"]
        assert version(listed) >= newer > old


async def test_a_version_with_a_limit_and_no_match_policy_is_exact(api: Api) -> None:
    old = await three(api)
    await api.config_map("d")
    listed = await api.get(CONFIG_MAPS, query={"resourceVersion": old, "limit": 9})
    assert names(listed) == ["a", "b", "c"]
    assert version(listed) == old


async def test_an_exact_version_lists_the_past_state(api: Api) -> None:
    old = await three(api)
    await api.delete(f"{CONFIG_MAPS}/a")
    await api.patch(f"{CONFIG_MAPS}/b", {"data": {"late": "yes"}})
    listed = await api.get(CONFIG_MAPS, query={"resourceVersion": old, "resourceVersionMatch": "Exact"})
    assert names(listed) == ["a", "b", "c"]
    assert version(listed) == old
    assert "data" not in listed["items"][1]


async def test_an_exact_version_supports_pages(api: Api) -> None:
    old = await three(api)
    await api.delete(f"{CONFIG_MAPS}/c")
    query = {"resourceVersion": old, "resourceVersionMatch": "Exact", "limit": 2}
    page = await api.get(CONFIG_MAPS, query=query)
    rest = await api.get(CONFIG_MAPS, query={"limit": 2, "continue": page["metadata"]["continue"]})
    assert names(page) + names(rest) == ["a", "b", "c"]
    assert version(rest) == old


async def test_an_exact_version_supports_selectors(api: Api) -> None:
    old = await three(api)
    await api.delete(f"{CONFIG_MAPS}/b")
    query = {"resourceVersion": old, "resourceVersionMatch": "Exact", "labelSelector": "app=b"}
    assert names(await api.get(CONFIG_MAPS, query=query)) == ["b"]


async def test_an_exact_version_supports_a_name_selector(api: Api) -> None:
    old = await three(api)
    await api.delete(f"{CONFIG_MAPS}/b")
    query = {"resourceVersion": old, "resourceVersionMatch": "Exact", "fieldSelector": "metadata.name=b"}
    assert names(await api.get(CONFIG_MAPS, query=query)) == ["b"]


async def test_version_0_supports_a_limit(api: Api) -> None:
    await three(api)
    listed = await api.get(CONFIG_MAPS, query={"resourceVersion": "0", "limit": 9})
    assert version(listed) > 0


async def test_a_future_version_is_awaited_and_then_rejected(api: Api) -> None:
    queries: list[dict[str, Any]] = [
        {},
        {"resourceVersionMatch": "NotOlderThan"},
        {"limit": 1},
        {"resourceVersionMatch": "Exact"},
    ]
    future = {"resourceVersion": "99999999"}
    initial = {**future, "watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    watched, refusals = await asyncio.gather(
        api("GET", CONFIG_MAPS, query=initial),
        asyncio.gather(
            *(api.refused("GET", CONFIG_MAPS, query={**future, **query}) for query in queries),
            api.refused("GET", f"{CONFIG_MAPS}/a", query=future),
        ),
    )
    # A watch-list is rejected like a list: with a Status, or an event that contains it.
    status = watched.json.get("object", watched.json)
    assert (status["code"], status["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    for refusal in refusals:
        assert (refusal.code, refusal.reason) == (504, "Timeout")
        assert refusal.message is not None
        assert refusal.message.startswith("Timeout: Too large resource version: 99999999, current: ")
        assert refusal.causes == [("ResourceVersionTooLarge", "", "Too large resource version")]
        assert refusal.details["retryAfterSeconds"] == 1


async def test_a_future_version_reached_during_the_wait_is_served(api: Api) -> None:
    now = version(await api.config_map("a"))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(api.get(CONFIG_MAPS, query={"resourceVersion": now + 1}))
        group.create_task(api.config_map("b"))
    assert "b" in names(waiting.result())


@pytest.mark.parametrize("text", ["x", "-1", "1.5"])
async def test_a_non_numeric_version_is_rejected(api: Api, text: str) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query={"resourceVersion": text})
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert refusal.message == (
        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
        f'strconv.ParseUint: parsing "{text}": invalid syntax'
    )


WITHOUT = "resourceVersionMatch is forbidden unless resourceVersion is provided"
BESIDE_TOKEN = "resourceVersionMatch is forbidden when continue is provided"
EXACTLY_0 = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"resourceVersionMatch": "Exact"}, [f"resourceVersionMatch: Forbidden: {WITHOUT}"]),
        ({"resourceVersionMatch": "NotOlderThan"}, [f"resourceVersionMatch: Forbidden: {WITHOUT}"]),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            [f"resourceVersionMatch: Forbidden: {EXACTLY_0}"],
        ),
        (
            {"resourceVersionMatch": "Latest", "resourceVersion": "5"},
            [
                'resourceVersionMatch: Unsupported value: "Latest": supported values: "Exact", "NotOlderThan", ""'
            ],
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "5", "continue": "x"},
            [f"resourceVersionMatch: Forbidden: {BESIDE_TOKEN}"],
        ),
        (
            {"resourceVersionMatch": "Exact", "continue": "x"},
            [
                f"resourceVersionMatch: Forbidden: {WITHOUT}",
                f"resourceVersionMatch: Forbidden: {BESIDE_TOKEN}",
            ],
        ),
        (
            {"sendInitialEvents": "true"},
            ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
        ),
        (
            {"sendInitialEvents": "false"},
            ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
        ),
    ],
)
async def test_an_invalid_version_match_is_rejected(api: Api, query: dict[str, str], why: list[str]) -> None:
    refusal = await api.refused("GET", CONFIG_MAPS, query=query)
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    reasons = why[0] if len(why) == 1 else f"[{', '.join(why)}]"
    assert refusal.message == f'ListOptions.meta.k8s.io "" is invalid: {reasons}'
    assert refusal.details["group"] == "meta.k8s.io"
    assert refusal.details["kind"] == "ListOptions"


# -------------------------------------------------------------------------------------- one object, a read


async def test_an_object_has_kind_and_api_version(api: Api) -> None:
    await api.config_map("a")
    found = await api.get(f"{CONFIG_MAPS}/a")
    assert (found["kind"], found["apiVersion"]) == ("ConfigMap", "v1")


async def test_the_not_found_error_names_the_object(api: Api) -> None:
    refusal = await api.refused("GET", f"{CONFIG_MAPS}/a")
    assert refusal == (404, "NotFound", 'configmaps "a" not found', {"name": "a", "kind": "configmaps"})


async def test_the_not_found_error_names_the_api_group(api: Api) -> None:
    refusal = await api.refused("GET", "/apis/apps/v1/namespaces/{ns}/deployments/a")
    assert refusal.message == 'deployments.apps "a" not found'
    assert refusal.details == {"name": "a", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize("asked", ["0", "1"])
async def test_a_read_is_at_least_as_new_as_requested(api: Api, asked: str) -> None:
    made = await api.config_map("a")
    await api.get(f"{CONFIG_MAPS}/a", query={"resourceVersion": version(made)})
    found = await api.get(f"{CONFIG_MAPS}/a", query={"resourceVersion": asked})
    assert version(found) == version(made)


async def test_a_read_at_a_non_numeric_version_is_rejected(api: Api) -> None:
    await api.config_map("a")
    refusal = await api.refused("GET", f"{CONFIG_MAPS}/a", query={"resourceVersion": "x"})
    assert refusal.message == (
        'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    )


async def test_a_read_of_one_object_ignores_the_watch_parameter(api: Api) -> None:
    await api.config_map("a")
    assert (await api.get(f"{CONFIG_MAPS}/a", query={"watch": "true"}))["metadata"]["name"] == "a"


async def test_pods_of_all_namespaces_are_listed(api: Api) -> None:
    await api.post(PODS, pod("p", {"only": api.ns}))
    assert names(await api.get("/api/v1/pods", query={"labelSelector": f"only={api.ns}"})) == ["p"]
