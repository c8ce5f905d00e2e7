"""Get and list: consistent pages, requested versions and selectors."""

import base64
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world, config_map, refusal

from tinykube.server.storage.model import StorageSettings
from tinykube.server.verbs.continuation import LATEST, Continuation, decode_token, encode_token
from tinykube.server.verbs.read import Page


async def filled(world: World, names: str = "abcde") -> None:
    for name in names:
        await world.create(config_map(name, labels={"first": "yes"} if name == "a" else None))


def names(page: Page) -> list[str]:
    return [stored.key.name for stored in page.items]


async def test_all_pages_show_the_revision_of_the_first() -> None:
    async with a_world() as world:
        await filled(world)
        first = await world.list(limit=2)
        assert (names(first), first.remaining) == (["a", "b"], 3)
        await world.delete("d")
        await world.create(config_map("bb"))
        second = await world.list(limit=2, continue_token=first.continue_token)
        third = await world.list(limit=2, continue_token=second.continue_token)
        assert (names(second), second.remaining) == (["c", "d"], 1)
        assert (names(third), third.remaining, third.continue_token) == (["e"], None, "")
        assert first.revision == second.revision == third.revision


async def test_a_limit_of_zero_or_less_means_no_limit() -> None:
    async with a_world() as world:
        await filled(world)
        assert len((await world.list(limit=0)).items) == len((await world.list(limit=-3)).items) == 5


async def test_the_remaining_count_is_omitted_with_a_selector() -> None:
    async with a_world() as world:
        await filled(world)
        page = await world.list(limit=1, label_selector="first!=yes")
        assert (names(page), page.remaining) == (["b"], None)
        assert page.continue_token


async def test_pages_over_all_namespaces_continue_where_they_ended() -> None:
    async with a_world() as world:
        await world.create({"metadata": {"name": "other"}}, "namespaces")
        await filled(world, "ab")
        await world.create(config_map("a"), namespace="other")
        first = await world.list(namespace="", limit=2)
        token = decode_token(first.continue_token, namespace="", cluster_scoped=False)
        assert token == Continuation(first.revision, "default", "b")
        second = await world.list(namespace="", limit=2, continue_token=first.continue_token)
        assert [(stored.key.namespace, stored.key.name) for stored in second.items] == [("other", "a")]


async def test_an_expired_continue_token_is_rejected_with_one_that_continues_at_the_latest_revision() -> None:
    async with a_world(settings=StorageSettings(history_changes=2)) as world:
        await filled(world)
        first = await world.list(limit=2)
        for number in range(10):
            await world.update("a", config_map("a", {"n": str(number)}))
        await world.create(config_map("bb"))
        error = await refusal(world.list(limit=2, continue_token=first.continue_token))
        assert (error.code, error.reason) == (410, "Expired")
        fresh = error.metadata["continue"]
        assert decode_token(fresh, namespace="default", cluster_scoped=False).revision == LATEST
        page = await world.list(limit=2, continue_token=fresh)
        assert names(page) == ["bb", "c"]
        assert page.revision == world.backend.storage.revision
        rest = await world.list(continue_token=page.continue_token)
        assert names(rest) == ["d", "e"]


async def test_an_exact_version_lists_the_past_or_is_410_when_compacted() -> None:
    async with a_world(settings=StorageSettings(history_changes=4)) as world:
        await filled(world, "ab")
        then = str(world.backend.storage.revision)
        await world.delete("a")
        page = await world.list(resource_version=then, resource_version_match="Exact")
        assert (names(page), str(page.revision)) == (["a", "b"], then)
        for number in range(10):
            await world.update("b", config_map("b", {"n": str(number)}))
        error = await refusal(world.list(resource_version=then, resource_version_match="Exact"))
        assert (error.code, error.reason) == (410, "Expired")
        assert error.message == "The resourceVersion for the provided list is too old."


async def test_a_version_with_a_limit_is_exact_and_otherwise_a_minimum() -> None:
    async with a_world() as world:
        await filled(world, "ab")
        then = str(world.backend.storage.revision)
        await world.delete("a")
        assert names(await world.list(resource_version=then, limit=5)) == ["a", "b"]
        assert names(await world.list(resource_version=then)) == ["b"]
        assert names(
            await world.list(resource_version=then, resource_version_match="NotOlderThan", limit=5)
        ) == ["b"]
        assert names(await world.list(resource_version="0", limit=5)) == ["b"]


async def test_a_future_version_is_a_504_with_the_cause_informers_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tinykube.server.verbs.read._FRESHNESS_SECONDS", 0.0)
    async with a_world() as world:
        current = world.backend.storage.revision
        error = await refusal(world.list(resource_version="99999999"))
        assert (error.code, error.reason) == (504, "Timeout")
        assert error.message == f"Timeout: Too large resource version: 99999999, current: {current}"
        assert error.details == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"resource_version_match": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        (
            {"resource_version": "1", "resource_version_match": "Foo"},
            422,
            "resourceVersionMatch: Unsupported value",
        ),
        (
            {"resource_version": "0", "resource_version_match": "Exact"},
            422,
            'forbidden for resourceVersion "0"',
        ),
        (
            {"resource_version": "1", "resource_version_match": "Exact", "continue_token": "x"},
            422,
            "forbidden when continue is provided",
        ),
        ({"send_initial_events": True}, 422, "sendInitialEvents is forbidden for list"),
        ({"resource_version": "abc"}, 400, 'parsing "abc": invalid syntax'),
        ({"continue_token": "abc"}, 400, "continue key is not valid"),
        ({"label_selector": "a b"}, 400, "unable to parse requirement"),
        (
            {"field_selector": "data.a=b"},
            400,
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ({"field_selector": "foo"}, 400, "invalid selector: 'foo'; can't understand 'foo'"),
        ({"field_selector": "metadata.name=a\\"}, 400, "ends with a backslash"),
        ({"field_selector": "metadata.name=a\\b"}, 400, "invalid escape sequence"),
    ],
)
async def test_invalid_list_options_are_rejected(options: dict[str, Any], code: int, text: str) -> None:
    async with a_world() as world:
        error = await refusal(world.list(**options))
        assert error.code == code
        assert text in error.message


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name==b", ["b"]),
        ("metadata.name!=b", ["a", "c", "d", "e"]),
        ("metadata.name=zz", []),
        ("metadata.name=b,metadata.namespace=default", ["b"]),
        ("metadata.name=b,metadata.namespace=other", []),
        ("metadata.name=a\\,b", []),
    ],
)
async def test_field_selectors_select_by_metadata(selector: str, found: list[str]) -> None:
    async with a_world() as world:
        await filled(world)
        assert names(await world.list(field_selector=selector)) == found
        assert names(await world.list(namespace="", field_selector=selector)) == found


async def test_field_selectors_select_by_fields_of_the_kind() -> None:
    async with a_world() as world:
        for name, node in (("p", "n1"), ("q", "n2")):
            spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
            await world.create({"metadata": {"name": name}, "spec": spec}, "pods")
        assert names(await world.list("pods", field_selector="spec.nodeName=n2")) == ["q"]


async def test_an_exact_list_of_one_name_reads_the_past() -> None:
    async with a_world() as world:
        await filled(world, "ab")
        then = str(world.backend.storage.revision)
        await world.delete("b")
        page = await world.list(
            resource_version=then, resource_version_match="Exact", field_selector="metadata.name=b"
        )
        assert names(page) == ["b"]


@pytest.mark.parametrize(
    "token",
    [
        "%%%",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b'{"v":"v9","rv":1,"start":"a"}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":0,"start":"a"}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-7,"start":"a"}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":""}').decode(),
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"a\\u0000b"}').decode(),
    ],
)
async def test_an_invalid_continue_token_is_rejected(token: str) -> None:
    async with a_world() as world:
        error = await refusal(world.list(continue_token=token))
        assert (error.code, error.reason) == (400, "BadRequest")


async def test_a_continue_token_of_a_future_revision_is_rejected() -> None:
    async with a_world() as world:
        token = encode_token(Continuation(10**9, "default", "a"), namespaced_list=True)
        assert (await refusal(world.list(continue_token=token))).code == 400


async def test_a_resource_version_cannot_be_combined_with_a_continue_token() -> None:
    async with a_world() as world:
        await filled(world)
        token = (await world.list(limit=1)).continue_token
        error = await refusal(world.list(continue_token=token, resource_version="5"))
        assert error.message == "specifying resource version is not allowed when using continue"
