"""The reflectors' assumptions, verified on the fake source and on a real kube-apiserver."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from aiokube.api.discovery import EndpointSlice
from aiokube.api.meta import key_of, version_number
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.errors import ServerTimeoutError
from aiokube.clock import SystemClock
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.source import Batch
from aiokube.runtime.store import Store
from aiokube.runtime.watch_faults import FaultKind, classify, classify_status
from aiokube.runtime.watch_states import WatchRules
from tests.contract.runtime.conftest import Upstream, key_in, labelled, without_finalizers

Event = WatchEvent[EndpointSlice] | Bookmark | WatchError


async def read(batches: AsyncIterator[Batch[EndpointSlice]], count: int) -> list[Event]:
    """Read exactly ``count`` events, skipping bookmarks unless they end the initial state."""
    events: list[Event] = []
    async for batch in batches:
        events += [event for event in batch if not isinstance(event, Bookmark) or event.initial_events_end]
        if len(events) >= count:
            break
    return events


def word(event: Event) -> str:
    match event:
        case WatchEvent():
            return f"{event.type} {event.item.metadata.name}"
        case Bookmark():
            return "END" if event.initial_events_end else "BOOKMARK"
        case WatchError():
            return f"ERROR {event.status.code}"


def version(item: EndpointSlice) -> int:
    return version_number(item.metadata.resource_version)


async def test_pages_are_ordered_complete_and_of_one_version(upstream: Upstream) -> None:
    for name in ("c", "a", "b"):
        await upstream.create(name)
    first = await upstream.source.list_page(limit=2)
    await upstream.create("d")
    second = await upstream.source.list_page(limit=2, continue_token=first.continue_token)
    assert [item.metadata.name for item in first.items + second.items] == ["a", "b", "c"]
    assert first.resource_version == second.resource_version
    assert (first.remaining_item_count, second.continue_token) == (1, "")


async def test_a_watch_reports_changes_after_its_version_in_order(upstream: Upstream) -> None:
    await upstream.create("before")
    start = (await upstream.source.list_page()).resource_version
    created = await upstream.create("a")
    updated = await upstream.update(labelled(created, "x"))
    await upstream.delete(updated)
    async with upstream.source.watch(resource_version=start, timeout_seconds=30) as watch:
        events = await read(watch, 3)
    assert [word(event) for event in events] == ["ADDED a", "MODIFIED a", "DELETED a"]
    items = [event.item for event in events if isinstance(event, WatchEvent)]
    assert version_number(start) < version(items[0]) < version(items[1]) < version(items[2])
    assert items[1].metadata.labels == {"value": "x"}
    assert len({item.metadata.uid for item in items}) == 1


async def test_the_response_to_a_write_equals_the_watch_event(upstream: Upstream) -> None:
    start = (await upstream.source.list_page()).resource_version
    created = await upstream.create("a")
    async with upstream.source.watch(resource_version=start, timeout_seconds=30) as watch:
        [event] = await read(watch, 1)
    assert isinstance(event, WatchEvent)
    assert event.item == created


async def test_initial_events_are_the_state_and_end_with_a_bookmark_even_if_empty(
    upstream: Upstream,
) -> None:
    if not upstream.has_watch_list:
        pytest.skip("this version of Kubernetes has no initial events by default")
    async with upstream.source.watch(send_initial_events=True, timeout_seconds=30) as watch:
        [end] = await read(watch, 1)
    assert word(end) == "END"
    for name in ("b", "a"):
        await upstream.create(name)
    start = (await upstream.source.list_page()).resource_version
    async with upstream.source.watch(
        resource_version=start, send_initial_events=True, timeout_seconds=30
    ) as watch:
        events = await read(watch, 3)
        assert sorted(word(event) for event in events[:2]) == ["ADDED a", "ADDED b"]
        assert isinstance(events[2], Bookmark)
        assert version_number(events[2].resource_version) >= version_number(start)
        await upstream.create("c")
        [after] = await read(watch, 1)
        assert word(after) == "ADDED c"


async def test_an_object_with_finalizers_terminates_before_it_is_deleted(upstream: Upstream) -> None:
    held = await upstream.create("held", finalizers=("example.com/hold",))
    async with upstream.source.watch(
        resource_version=held.metadata.resource_version, timeout_seconds=30
    ) as watch:
        await upstream.delete(held)
        [terminating] = await read(watch, 1)
        assert isinstance(terminating, WatchEvent)
        assert terminating.type == "MODIFIED"
        assert terminating.item.metadata.deletion_timestamp
        await upstream.update(without_finalizers(terminating.item))
        [gone] = await read(watch, 1)
        assert isinstance(gone, WatchEvent)
        assert gone.type == "DELETED"
        assert version(gone.item) > version(terminating.item)


async def test_a_list_at_a_future_version_fails_with_too_large_resource_version(upstream: Upstream) -> None:
    await upstream.create("a")
    with pytest.raises(ServerTimeoutError) as caught:
        await upstream.source.list_page(
            resource_version="99999999", resource_version_match="NotOlderThan", limit=500
        )
    assert classify(caught.value).kind is FaultKind.TOO_LARGE


async def test_a_watch_from_a_future_version_is_silent_until_its_timeout(
    upstream: Upstream,
) -> None:
    async with upstream.source.watch(resource_version="99999999", timeout_seconds=1) as watch:
        await upstream.create("a")
        assert await read(watch, 1) == []


async def test_a_compacted_version_is_an_error_event_within_the_watch(upstream: Upstream) -> None:
    await upstream.create("a")
    async with upstream.source.watch(resource_version=await upstream.age(), timeout_seconds=30) as watch:
        [error] = await read(watch, 1)
    assert isinstance(error, WatchError)
    assert classify_status(error.status).kind is FaultKind.EXPIRED


@pytest.mark.parametrize(
    "settings",
    [
        ReflectorSettings(),
        ReflectorSettings(initial="list", rules=WatchRules(page_size=2)),
        ReflectorSettings(shortest_watch_seconds=1, longest_watch_seconds=1),
    ],
    ids=["watch-list", "list", "short watches"],
)
async def test_a_reflector_follows_writes_and_knows_own_writes_immediately(
    upstream: Upstream, settings: ReflectorSettings
) -> None:
    for number in range(5):
        await upstream.create(f"before-{number}")
    store: Store[EndpointSlice] = Store("endpointslices")
    told: dict[str, EndpointSlice] = {}

    def mirror(old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if new is not None:
            told[new.metadata.name] = new
        elif old is not None:
            del told[old.metadata.name]

    store.subscribe(mirror)
    reflector = Reflector(
        upstream.source, store, clock=SystemClock(), rng=random.Random(1), settings=settings
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        await reflector.wait_synced(30)
        assert len(store) == 5
        for number in range(20):
            name = f"mine-{number}"
            created = await upstream.create(name)
            store.record_write(created)
            assert store.get(key_in(upstream, name)) == created
            updated = await upstream.update(labelled(created, "x"))
            store.record_write(updated)
            assert store.get(key_in(upstream, name)) == updated
            if number % 2:
                await upstream.delete(updated)
                store.record_delete(key_of(updated), updated.metadata.uid)
                assert store.get(key_in(upstream, name)) is None
        last = await upstream.create("last")
        caught_up = asyncio.Event()
        store.subscribe(lambda _, new: caught_up.set() if new == last else None)
        if store.get(key_of(last)) != last:
            async with asyncio.timeout(30):
                await caught_up.wait()
        listed = {item.metadata.name: item for item in (await upstream.source.list_page()).items}
        assert told == listed
        assert {item.metadata.name: item for item in store.values()} == listed
        assert store.statistics().pending_writes == 0
        assert not store.needs_relist
        task.cancel()
