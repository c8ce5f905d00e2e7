"""Compacted versions in lists, pages and watches."""

import asyncio

import pytest
from tests.contract.server.wire import CONFIG_MAPS, Api, names, version


@pytest.mark.slow
async def test_lists_and_pages_at_a_compacted_version_are_expired(api: Api) -> None:
    for name in ("a", "b", "c"):
        old = version(await api.config_map(name))
    page = await api.get(CONFIG_MAPS, query={"limit": 1})
    exact = {"resourceVersion": old, "resourceVersionMatch": "Exact"}
    await api.config_map("d")
    await api.compact()
    for _ in range(250):  # kube-apiserver notices the compaction within fifteen seconds
        answer = await api("GET", CONFIG_MAPS, query=exact)
        if answer.code != 200:
            break
        await asyncio.sleep(0.1)

    refusal = await api.refused("GET", CONFIG_MAPS, query=exact)
    assert (refusal.code, refusal.reason) == (410, "Expired")
    assert refusal.message == "The resourceVersion for the provided list is too old."
    refusal = await api.refused("GET", CONFIG_MAPS, query={"resourceVersion": old, "limit": 1})
    assert (refusal.code, refusal.reason) == (410, "Expired")

    answer = await api("GET", CONFIG_MAPS, query={"limit": 1, "continue": page["metadata"]["continue"]})
    assert (answer.code, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"] == (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    fresh = answer.json["metadata"]["continue"]
    rest = await api.get(CONFIG_MAPS, query={"limit": 5, "continue": fresh})
    assert names(rest) == ["b", "c", "d"]
    assert version(rest) > version(page)

    # "Not older" compares with the current version, so compaction is irrelevant.
    assert names(await api.get(CONFIG_MAPS, query={"resourceVersion": old})) == ["a", "b", "c", "d"]


async def test_a_watch_from_a_compacted_version_gets_an_error_event(api: Api) -> None:
    if api.is_embedded:
        await api.compact()
    async with api.watch(CONFIG_MAPS, resourceVersion=1) as watching:
        (told,) = await watching.rest()
    assert told["type"] == "ERROR"
    status = told["object"]
    assert status["message"].startswith("too old resource version: 1 (")
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert (status["reason"], status["code"], status["metadata"]) == ("Expired", 410, {})
