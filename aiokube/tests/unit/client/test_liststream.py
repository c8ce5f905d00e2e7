"""Lists are decoded as they arrive, in complete items, for any chunks and any content of the items."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.core import PODS
from aiokube.client.errors import ExpiredError, ResponseTruncatedError, UnexpectedResponseError
from aiokube.client.liststream import ListSplitter
from aiokube.testing.virtual_time import ManualClock


def pod(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": "7"}, **fields}


def list_of(*pods: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {"resourceVersion": "41"}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(pods), **fields}


def text_of(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def split(text: bytes, sizes: list[int]) -> list[dict[str, Any]]:
    """Read a list in chunks of these sizes, repeated, as the client does; return its items."""
    splitter = ListSplitter(worth_decoding_bytes=1)
    items: list[dict[str, Any]] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        piece = splitter.feed(text[at : at + size])
        at, turn = at + size, turn + 1
        if piece is not None:
            try:
                items += json.loads(piece)["items"]
            except ValueError:
                splitter.put_back(piece)
    rest = json.loads(splitter.rest())
    return items + (rest["items"] or [])


# The text between two items may occur within them: in lists of objects with metadata, and (quoted) in
# strings.
nested = st.lists(st.builds(lambda name: {"metadata": {"name": name}}, st.text(max_size=3)), max_size=3)
items = st.builds(
    lambda name, templates, text: pod(name, spec={"templates": templates, "text": text}),
    st.text(min_size=1, max_size=5),
    nested,
    st.sampled_from(["", '},{"metadata":{', '"items":[', "é\u2028"]),
)


@given(st.lists(items, max_size=6), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_any_chunking_gives_the_same_list_items(pods: list[dict[str, Any]], sizes: list[int]) -> None:
    assert split(text_of(list_of(*pods)), sizes) == pods


@given(st.lists(items, max_size=4), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_list_items_may_precede_kind_and_metadata(pods: list[dict[str, Any]], sizes: list[int]) -> None:
    assert split(text_of({"items": pods, "kind": "PodList", "metadata": {}}), sizes) == pods


async def read(
    server: Server, clock: ManualClock, document: dict[str, Any] | bytes
) -> tuple[list[str], str, str]:
    text = document if isinstance(document, bytes) else text_of(document)
    server.script(json_response(text.decode()))
    async with client_of(server, clock) as client, client.list_stream(PODS) as stream:
        names = [item.metadata.name async for batch in stream for item in batch]
        return names, stream.resource_version, stream.continue_token


@pytest.mark.parametrize("size", [0, 1, 2, 3000])
async def test_a_list_yields_its_items_and_then_its_resource_version(
    server: Server, clock: ManualClock, size: int
) -> None:
    filling = {"note": "x" * 300}
    wanted = [f"pod-{number}" for number in range(size)]
    found = await read(server, clock, list_of(*(pod(name, spec=filling) for name in wanted)))
    assert found == (wanted, "41", "")


async def test_missing_items_are_an_empty_list(server: Server, clock: ManualClock) -> None:
    assert await read(server, clock, b'{"metadata":{"resourceVersion":"9"},"items":null}') == ([], "9", "")
    assert await read(server, clock, b'{"metadata":{"resourceVersion":"9"}}') == ([], "9", "")


async def test_a_resource_version_after_many_items_is_found(server: Server, clock: ManualClock) -> None:
    pods = [pod(f"pod-{number}", spec={"note": "x" * 900}) for number in range(600)]
    document = {"items": pods, "metadata": {"resourceVersion": "12", "continue": "more"}}
    names, version, token = await read(server, clock, document)
    assert (len(names), version, token) == (600, "12", "more")


async def test_items_are_yielded_before_the_response_is_complete(server: Server, clock: ManualClock) -> None:
    text = text_of(list_of(*(pod(f"pod-{number}", spec={"note": "x" * 900}) for number in range(900))))
    go_on = asyncio.Event()

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(text[:600_000])
        await go_on.wait()
        await response.write(text[600_000:])
        return response

    server.script(slowly)
    async with client_of(server, clock) as client, client.list_stream(PODS) as stream:
        count = len(await anext(aiter(stream)))
        assert 0 < count < 900
        assert stream.resource_version == ""
        go_on.set()
        async for batch in stream:
            count += len(batch)
    assert (count, stream.resource_version) == (900, "41")


async def test_an_aborted_list_response_is_an_error(server: Server, clock: ManualClock) -> None:
    text = text_of(list_of(*(pod(f"pod-{number}", spec={"note": "x" * 900}) for number in range(900))))

    async def broken(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(text[:600_000])
        if request.transport is not None:
            request.transport.abort()
        return response

    server.script(broken)
    async with client_of(server, clock) as client, client.list_stream(PODS) as stream:
        with pytest.raises(ResponseTruncatedError):
            async for _ in stream:
                pass
    assert stream.resource_version == ""


async def test_a_truncated_body_in_a_complete_response_is_an_error(
    server: Server, clock: ManualClock
) -> None:
    text = text_of(list_of(*(pod(f"pod-{number}", spec={"note": "x" * 900}) for number in range(900))))
    for end in (600_000, text.rindex(b'},{"metadata"') + 1):
        with pytest.raises(UnexpectedResponseError):
            await read(server, clock, text[:end])


async def test_an_undecodable_item_fails_the_list_and_is_not_quoted(
    server: Server, clock: ManualClock
) -> None:
    pods = [pod(f"pod-{number}", spec={"note": "x" * 900}) for number in range(600)]
    pods[3] = {"metadata": {"name": 5, "namespace": "secret-text"}}
    with pytest.raises(
        UnexpectedResponseError, match="GET /api/v1/pods: the response cannot be read"
    ) as caught:
        await read(server, clock, list_of(*pods))
    assert "secret-text" not in str(caught.value)


async def test_an_error_response_is_raised_on_entry(server: Server, clock: ManualClock) -> None:
    server.script(failure(410, "Expired", "too old"))
    async with client_of(server, clock) as client:
        with pytest.raises(ExpiredError):
            async with client.list_stream(PODS, resource_version="5", resource_version_match="Exact"):
                raise AssertionError("not entered")
    assert server.seen[-1].query == "resourceVersion=5&resourceVersionMatch=Exact"
    assert server.seen[-1].headers["Accept-Encoding"] == "gzip"


async def test_a_list_stream_must_be_entered_before_use(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        with pytest.raises(RuntimeError, match="entered"):
            await anext(aiter(client.list_stream(PODS)))
