"""Streamed lists: all or nothing, with a fallback to pages."""

import asyncio
import random
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from tests.unit.runtime.watch.running import LIST_FIRST, new, running
from tests.unit.runtime.watch.things import Thing, key

from aiokube.client.errors import ConnectionFailedError, ResponseTruncatedError
from aiokube.runtime.informer import Informer
from aiokube.runtime.runnables import InformerRunnable
from aiokube.testing.api_errors import expired_error, status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle

SIZE = 10


class Stream:
    """A list of the fake source in parts; breaks once after ``source.parts_until_break`` of them."""

    def __init__(self, source: "StreamingSource", resource_version: str | None) -> None:
        self._source = source
        self._asked = resource_version
        self._items: tuple[Thing, ...] = ()
        self._version = ""
        self.resource_version = ""
        self.continue_token = ""

    async def __aenter__(self) -> Self:
        page = await self._source.list_page(resource_version=self._asked)
        self._source.streams += 1
        self._items, self._version = page.items, page.resource_version
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[tuple[Thing, ...]]:
        for at in range(0, len(self._items), 3):
            if self._source.parts_until_break == at // 3:
                self._source.parts_until_break = None
                raise self._source.break_with
            await asyncio.sleep(self._source.part_seconds)
            yield self._items[at : at + 3]
        self.resource_version = self._version


class StreamingSource(FakeSource[Thing]):
    def __init__(self) -> None:
        super().__init__([new(f"thing-{number}") for number in range(SIZE)])
        self.streams = 0
        self.part_seconds = 0.0
        self.parts_until_break: int | None = None
        self.break_with: Exception = ResponseTruncatedError("the connection was reset")

    def list_stream(
        self, *, resource_version: str | None = None, resource_version_match: str | None = None
    ) -> Stream:
        return Stream(self, resource_version)


async def test_a_streamed_list_is_stored_atomically() -> None:
    source = StreamingSource()
    source.part_seconds = 1.0
    sizes: set[int] = set()
    async with running(source, LIST_FIRST, settled=False) as it:
        it.store.subscribe(lambda _old, _new: sizes.add(len(it.store)))
        await asyncio.sleep(2.5)
        assert not it.store.synced
        await asyncio.sleep(2)
        assert (it.asked(), sizes) == (["list newest", f"watch {100 + SIZE}"], {SIZE})
        assert source.streams == 1
        it.assert_alike()


async def test_changes_during_a_streamed_list_are_received_by_the_watch() -> None:
    source = StreamingSource()
    source.part_seconds = 1.0
    async with running(source, LIST_FIRST, settled=False) as it:
        await asyncio.sleep(1.5)
        source.modify(new("thing-0", "meanwhile"))
        source.delete(key("thing-9"))
        await asyncio.sleep(5)
        it.assert_alike()


async def test_no_streamed_list_is_requested_if_watch_list_is_used() -> None:
    source = StreamingSource()
    async with running(source) as it:
        assert it.asked() == ["stream newest"]
        assert source.streams == 0


async def test_an_interrupted_streamed_list_is_discarded_and_replaced_by_pages() -> None:
    source = StreamingSource()
    source.parts_until_break = 2
    async with running(source, LIST_FIRST) as it:
        assert not it.store.synced
        source.delete(key("thing-0"))  # it was among the received items
        await asyncio.sleep(5)
        assert source.streams == 1
        assert it.asked() == ["list newest", "list newest", f"watch {100 + SIZE + 1}"]
        it.assert_alike()
        assert "reset" in it.reflector.statistics().last_error


async def test_a_streamed_list_that_takes_too_long_is_replaced_by_pages() -> None:
    source = StreamingSource()
    source.part_seconds = 80.0
    async with running(source, LIST_FIRST) as it:
        await asyncio.sleep(100)
        it.assert_alike()
        assert source.streams == 1


async def test_a_throttled_streamed_list_is_retried_as_a_stream() -> None:
    source = StreamingSource()
    source.fail_next(
        status_error(429, "TooManyRequests", "later"), status_error(503, "ServiceUnavailable", "soon")
    )
    async with running(source, LIST_FIRST) as it:
        await asyncio.sleep(60)
        it.assert_alike()
        assert source.streams == 1


async def test_an_expired_watch_is_followed_by_another_streamed_list() -> None:
    source = StreamingSource()
    async with running(source, LIST_FIRST) as it:
        source.fail_next(expired_error(), on="watch")
        source.compact()
        source.break_watches(ConnectionFailedError("gone"))
        source.delete(key("thing-4"))
        source.create(new("thing-x"))
        source.compact()
        await asyncio.sleep(60)
        it.assert_alike()
        assert source.streams == 2


async def test_a_streamed_list_with_a_continue_token_is_completed_in_pages() -> None:
    class PartialStreamingSource(StreamingSource):
        def list_stream(
            self, *, resource_version: str | None = None, resource_version_match: str | None = None
        ) -> Stream:
            return Part(self, resource_version)

    class Part(Stream):
        async def __aenter__(self) -> Self:
            page = await source.list_page(resource_version=self._asked, limit=4)
            self._items, self._version = page.items, page.resource_version
            self.continue_token = page.continue_token
            return self

    source = PartialStreamingSource()
    async with running(source, LIST_FIRST) as it:
        await settle()
        assert it.asked() == ["list newest", "page", f"watch {100 + SIZE}"]
        it.assert_alike()


async def test_an_informer_is_ready_only_once_its_list_is_followed_by_a_watch() -> None:
    source = StreamingSource()
    source.fail_next(*[status_error(403, "Forbidden", "may not watch")] * 3, on="watch")
    informer = Informer(source, name="things", clock=FakeClock(), rng=random.Random(7), settings=LIST_FIRST)
    part = InformerRunnable(informer)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(part.run(), name="part")
        waiting = group.create_task(part.wait_ready(), name="ready")
        await informer.wait_synced()
        await settle()
        assert not waiting.done()
        assert "may not watch" in part.why_not_ready()
        assert not informer.statistics().reflector.followed
        await asyncio.sleep(120)
        assert waiting.done()
        assert informer.statistics().reflector.followed
        running.cancel()
