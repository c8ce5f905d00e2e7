"""A watch yields batches of typed events in order, and isolates undecodable ones."""

import asyncio

import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.core import PODS, SERVICES, Pod, PodWire
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Bookmark, Resource, WatchError, WatchEvent
from aiokube.client.errors import (
    ForbiddenError,
    LineTooLongError,
    UndecodableEventError,
    UnexpectedResponseError,
)
from aiokube.client.watchlines import MAX_LINE_BYTES
from aiokube.testing.virtual_time import ManualClock


def added(name: str, version: int) -> str:
    return f'{{"type":"ADDED","object":{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}}}}}}\n'


async def all_of(server: Server, clock: ManualClock, text: str) -> list[object]:
    server.script(json_response(text))
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        return [event async for batch in batches for event in batch]


async def test_events_received_together_form_one_ordered_batch(server: Server, clock: ManualClock) -> None:
    server.script(json_response(added("a", 1) + added("b", 2) + added("c", 3)))
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        received = [batch async for batch in batches]
    assert len(received) == 1
    names = [event.item.metadata.name for event in received[0] if isinstance(event, WatchEvent)]
    assert names == ["a", "b", "c"]


async def test_bookmarks_and_errors_are_distinct_event_types(server: Server, clock: ManualClock) -> None:
    text = (
        '{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"5",'
        '"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
        '{"type":"ERROR","object":{"kind":"Status","message":"too old","reason":"Expired","code":410}}\n'
    )
    first, second = await all_of(server, clock, text)
    assert first == Bookmark("5", initial_events_end=True)
    assert isinstance(second, WatchError)
    assert second.status.code == 410


async def test_events_are_yielded_as_they_are_sent(server: Server, clock: ManualClock) -> None:
    go_on = asyncio.Event()

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(added("a", 1).encode() + added("b", 2)[:10].encode())
        await go_on.wait()
        await response.write(added("b", 2)[10:].encode())
        return response

    server.script(slowly)
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        assert len(await anext(batches)) == 1
        go_on.set()
        assert len(await anext(batches)) == 1
        with pytest.raises(StopAsyncIteration):
            await anext(batches)


async def test_entering_a_watch_raises_the_servers_error(server: Server, clock: ManualClock) -> None:
    server.script(failure(403, "Forbidden", "pods is forbidden"))
    async with client_of(server, clock) as client:
        with pytest.raises(ForbiddenError, match="pods is forbidden"):
            async with client.watch(PODS):
                raise AssertionError


async def test_a_watch_requests_initial_events_and_bookmarks(server: Server, clock: ManualClock) -> None:
    server.script(json_response(""))
    async with client_of(server, clock) as client:
        async with client.watch(PODS, resource_version="3", send_initial_events=True, timeout_seconds=9):
            pass
        async with client.watch(PODS, allow_bookmarks=False):
            pass
    assert [seen.query for seen in server.seen] == [
        (
            "watch=true&resourceVersion=3&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            "&allowWatchBookmarks=true&timeoutSeconds=9"
        ),
        "watch=true",
    ]


async def test_an_undecodable_event_is_raised_in_order_and_the_watch_continues(
    server: Server, clock: ManualClock
) -> None:
    bad = (
        '{"type":"MODIFIED","object":{"metadata":{"name":"bad","namespace":"ns","resourceVersion":"2"},'
        '"spec":{"nodeName":{"secret":1}}}}\n'
    )
    server.script(json_response(added("a", 1) + bad + added("c", 3)))
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        assert len(await anext(batches)) == 1
        with pytest.raises(UndecodableEventError) as raised:
            await anext(batches)
        (last,) = await anext(batches)
    assert isinstance(last, WatchEvent)
    assert last.item.metadata.name == "c"
    error = raised.value
    assert (error.resource, error.key, error.resource_version) == ("pods", ObjectKey("ns", "bad"), "2")
    assert "of ns/bad in pods" in str(error)
    assert "spec.nodeName" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    "line", ["nonsense", '{"type":"ADDED"}', '{"type":"WHAT","object":{}}', '{"type":1}', "[]"]
)
async def test_a_line_that_is_not_an_event_is_undecodable(
    server: Server, clock: ManualClock, line: str
) -> None:
    with pytest.raises(UndecodableEventError) as raised:
        await all_of(server, clock, line + "\n")
    assert raised.value.key is None


def choking(wire: PodWire) -> Pod:
    raise ValueError("hunter2")


async def test_an_event_that_fails_in_a_projection_is_undecodable_and_not_quoted(
    server: Server, clock: ManualClock
) -> None:
    things = Resource(group="", version="v1", plural="things", kind="Thing", wire=PodWire, project=choking)
    server.script(json_response(added("a", 1)))
    async with client_of(server, clock) as client, client.watch(things) as batches:
        with pytest.raises(UndecodableEventError) as raised:
            await anext(batches)
    assert str(raised.value) == "a watch event of ns/a in things cannot be decoded: ValueError"


async def test_a_list_that_fails_in_a_projection_is_an_unexpected_response_and_not_quoted(
    server: Server, clock: ManualClock
) -> None:
    things = Resource(group="", version="v1", plural="things", kind="Thing", wire=PodWire, project=choking)
    server.script(json_response('{"items":[{}]}'))
    async with client_of(server, clock) as client:
        with pytest.raises(UnexpectedResponseError, match=r"cannot be read as things: ValueError$"):
            await client.list_page(things)


async def test_lines_that_are_not_utf_8_are_undecodable(server: Server, clock: ManualClock) -> None:
    server.script(web.Response(body=b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n'))
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        with pytest.raises(UndecodableEventError):
            await anext(batches)


async def test_a_two_mebibyte_event_in_many_chunks_is_decoded(server: Server, clock: ManualClock) -> None:
    line = (
        '{"type":"ADDED","object":{"metadata":{"name":"big","annotations":{"x":"'
        + "y" * 2 * 1024 * 1024
        + '"}}}}\n'
    )
    (event,) = await all_of(server, clock, line)
    assert isinstance(event, WatchEvent)
    assert event.item.metadata.name == "big"


async def test_an_endless_line_is_rejected(server: Server, clock: ManualClock) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(MAX_LINE_BYTES // 2**20 + 1):
            await response.write(b"x" * 2**20)
        return response

    server.script(endless)
    async with client_of(server, clock) as client, client.watch(SERVICES) as batches:
        with pytest.raises(LineTooLongError, match="API server"):
            await anext(batches)


async def test_leaving_a_watch_closes_its_connection(server: Server, clock: ManualClock) -> None:
    gone = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(added("a", 1).encode())
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()  # the server cancels the handler of a closed connection
        return response

    server.script(endless)
    async with client_of(server, clock) as client:
        async with client.watch(PODS) as batches:
            await anext(batches)
        await gone.wait()


async def test_reading_a_watch_before_entering_is_a_clear_error(server: Server, clock: ManualClock) -> None:
    async with client_of(server, clock) as client:
        watch = client.watch(PODS)
        with pytest.raises(RuntimeError, match="entered"):
            await anext(watch)  # type: ignore[call-overload]
