"""Large bodies arrive complete and unchanged, even with slow clients and keep-alive connections."""

import asyncio
import json

import pytest
from tests.unit.server.http.served import a_server

from tinykube.server.errors import StatusError
from tinykube.server.http.lists import plain_texts
from tinykube.server.http.responses import AnswerBudget, in_slices
from tinykube.server.objects import StorageKey
from tinykube.server.registry.configmaps import CONFIG_MAPS
from tinykube.server.storage.model import StoredObject
from tinykube.server.verbs.read import Page

MAPS = "/api/v1/namespaces/default/configmaps"
LETTERS = "abcdefgh"


async def test_a_list_of_several_megabytes_is_complete_and_the_connection_is_reusable() -> None:
    async with a_server() as api:
        for letter in LETTERS:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": letter}}
            await api("POST", MAPS, {**body, "data": {"x": letter * 400_000}})
        async with api.session.get(MAPS) as response:
            await asyncio.sleep(0.05)  # more than all buffers hold, so the server has to pause
            text = await response.read()
        assert int(response.headers["Content-Length"]) == len(text) > 3_200_000
        found = {item["metadata"]["name"]: item["data"]["x"] for item in json.loads(text)["items"]}
        assert found == {letter: letter * 400_000 for letter in LETTERS}
        assert (await api("GET", f"{MAPS}/a")).code == 200


async def test_a_client_that_disconnects_mid_response_does_not_affect_others() -> None:
    async with a_server() as api:
        for letter in LETTERS:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": letter}}
            await api("POST", MAPS, {**body, "data": {"x": letter * 900_000}})
        async with api.session.get(MAPS) as response:
            await response.content.readexactly(1_000)
            response.close()
        assert len((await api("GET", MAPS)).json()["items"]) == len(LETTERS)


def a_page(count: int, size: int) -> Page:
    head = b'{"kind":"ConfigMap","apiVersion":"v1",'
    items = [
        StoredObject(
            StorageKey(CONFIG_MAPS.resource, "default", f"c{number}"),
            "uid",
            number + 1,
            head + b'"metadata":{"name":"c%d"},"data":{"x":"%s"}}' % (number, b"y" * size),
            len(head),
            {},
            {},
        )
        for number in range(count)
    ]
    return Page(revision=count, items=items)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_content_length_of_a_list_matches_its_body(count: int) -> None:
    texts, size = plain_texts(CONFIG_MAPS, a_page(count, 10))
    body = b"".join(texts)
    assert len(body) == size
    assert len(json.loads(body)["items"]) == count


def test_an_unread_list_is_encoded_incrementally() -> None:
    texts, _ = plain_texts(CONFIG_MAPS, a_page(100, 100_000))
    pieces = in_slices(texts)
    first = next(pieces)
    assert len(first) <= 256 * 1024
    assert sum(len(piece) for piece in pieces) > 9_000_000


def test_the_total_size_of_unsent_responses_is_bounded() -> None:
    budget = AnswerBudget(100)
    first = budget.reserve(500)  # alone it may be larger
    with pytest.raises(StatusError) as caught:
        budget.reserve(1)
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "1")
    del first
    held = [budget.reserve(50), budget.reserve(50)]
    assert budget.used_bytes == 100
    held.clear()
    assert budget.used_bytes == 0


async def test_a_client_that_abandons_a_watch_causes_no_log_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_server() as api:
        for letter in LETTERS:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": letter}}
            await api("POST", MAPS, {**body, "data": {"x": letter * 900_000}})
        async with api.session.get(f"{MAPS}?watch=true") as response:
            await response.content.readexactly(1_000)
            response.close()
        assert (await api("GET", MAPS)).code == 200
    assert caplog.records == []
