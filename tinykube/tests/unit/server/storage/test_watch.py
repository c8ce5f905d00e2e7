"""Subscriptions and encoded events: each change once, in order, for any number of watchers."""

import asyncio

import msgspec
import pytest
from tests.unit.server.storage.gated import CONFIGMAPS, LEASES, WIDGETS, describe, removal, write

from aiokube.testing.virtual_time import FakeClock
from tinykube.server.objects import StorageKey
from tinykube.server.storage.model import Change, RevisionCompactedError, StorageSettings, StoredObject
from tinykube.server.storage.store import ObjectStorage, open_storage
from tinykube.server.storage.watch import frame


def opened(**options: int) -> ObjectStorage:
    return open_storage(
        None,
        describe=describe,
        clock=FakeClock(),
        settings=StorageSettings(**options),  # type: ignore[arg-type]
    )


def key(name: str, namespace: str = "default") -> StorageKey:
    return StorageKey(CONFIGMAPS, namespace, name)


async def put(storage: ObjectStorage, name: str, namespace: str = "default", number: int = 0) -> Change:
    latest = storage.head(key(name, namespace))
    (change,) = await storage.commit(
        [write(key(name, namespace), latest.revision if latest else 0, number=number)]
    )
    return change


async def test_a_subscription_delivers_history_then_new_changes_once_each() -> None:
    storage = opened()
    changes = [await put(storage, "a", number=number) for number in range(3)]
    subscription = storage.subscribe(CONFIGMAPS, after_revision=changes[0].revision)
    assert list(await subscription.next_batch()) == changes[1:]
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(subscription.next_batch())
        await asyncio.sleep(0)
        newest = await put(storage, "b")
    assert list(reading.result()) == [newest]


async def test_a_thousand_watchers_are_woken_once_per_batch_and_share_it() -> None:
    storage = opened()
    subscriptions = [storage.subscribe(CONFIGMAPS, after_revision=1) for _ in range(1_000)]
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(subscription.next_batch()) for subscription in subscriptions]
        await asyncio.sleep(0)
        changes = await storage.commit([write(key("a")), write(key("b"))])
    assert {id(reader.result()) for reader in readers} == {id(readers[0].result())}
    assert list(readers[0].result()) == list(changes)


async def test_watchers_of_other_namespaces_and_collections_are_not_woken() -> None:
    storage = opened()
    async with asyncio.TaskGroup() as group:
        asleep = [
            group.create_task(storage.subscribe(CONFIGMAPS, "other", after_revision=1).next_batch()),
            group.create_task(storage.subscribe(WIDGETS, after_revision=1).next_batch()),
        ]
        awake = group.create_task(storage.subscribe(CONFIGMAPS, "default", after_revision=1).next_batch())
        await asyncio.sleep(0)
        change = await put(storage, "a")
        await asyncio.sleep(0)
        assert list(awake.result()) == [change]
        for task in asleep:
            assert not task.done()
            task.cancel()


async def test_a_slow_watcher_is_cut_off_and_cannot_resume() -> None:
    storage = opened(history_changes=16)
    subscription = storage.subscribe(CONFIGMAPS, after_revision=1)
    first = await put(storage, "a")
    assert list(await subscription.next_batch()) == [first]
    for number in range(40):
        await put(storage, "a", number=number)
    assert list(await subscription.next_batch()) == []
    assert subscription.overrun
    assert list(await subscription.next_batch()) == []
    with pytest.raises(RevisionCompactedError) as refused:
        storage.subscribe(CONFIGMAPS, after_revision=first.revision)
    again = storage.subscribe(CONFIGMAPS, after_revision=refused.value.oldest)
    batch = await again.next_batch()
    assert batch[0].revision == refused.value.oldest + 1
    assert batch[-1].revision == storage.revision


async def test_a_quiet_namespace_is_not_overrun_by_a_busy_one() -> None:
    storage = opened(history_changes=16)
    await put(storage, "a", "quiet")
    subscription = storage.subscribe(CONFIGMAPS, "quiet", after_revision=1)
    await subscription.next_batch()
    for number in range(40):
        await put(storage, "a", "busy", number)
    change = await put(storage, "b", "quiet")
    assert list(await subscription.next_batch()) == [change]
    assert not subscription.overrun


async def test_a_cancelled_read_loses_no_changes() -> None:
    storage = opened()
    subscription = storage.subscribe(CONFIGMAPS, after_revision=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await subscription.next_batch()
    first = await put(storage, "a")
    assert list(await subscription.next_batch()) == [first]


async def test_a_closed_subscription_returns_immediately() -> None:
    storage = opened()
    subscription = storage.subscribe(CONFIGMAPS, after_revision=1)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(subscription.next_batch())
        await asyncio.sleep(0)
        subscription.close()
    assert list(reading.result()) == []
    assert not subscription.overrun


async def test_a_subscription_can_start_at_a_future_revision() -> None:
    storage = opened()
    subscription = storage.subscribe(CONFIGMAPS, after_revision=3)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(subscription.next_batch())
        await asyncio.sleep(0)
        for number in range(3):
            await put(storage, "a", number=number)
    assert [change.revision for change in reading.result()] == [4]


async def test_volatile_collections_have_a_separate_short_history() -> None:
    storage = opened(volatile_changes=8)
    lease = StorageKey(LEASES, "kube-node-lease", "node-1")
    revision = 0
    for number in range(50):
        (change,) = await storage.commit([write(lease, revision, number=number)])
        revision = change.revision
    await put(storage, "a")
    assert storage.statistics().history_changes <= 9
    with pytest.raises(RevisionCompactedError):
        storage.snapshot(LEASES, "", 2)
    assert len(storage.snapshot(CONFIGMAPS, "", 2)) == 0


async def test_the_size_of_the_history_is_limited_in_bytes() -> None:
    storage = opened(history_bytes=20_000)
    revision = 0
    for number in range(100):
        big = write(key("a"), revision, number=number)
        assert big.document is not None
        big.document["data"]["filler"] = "x" * 1_000
        (change,) = await storage.commit([big])
        revision = change.revision
    assert 10_000 < storage.statistics().history_bytes <= 20_000


async def test_an_event_is_encoded_once_per_type_with_the_content_for_that_type() -> None:
    storage = opened()
    added = await put(storage, "a", number=1)
    modified = await put(storage, "a", number=2)
    assert frame(added, "ADDED") is frame(added, "ADDED")
    assert frame(added, "ADDED") == b'{"type":"ADDED","object":' + added.after.encoded + b"}\n"
    assert msgspec.json.decode(frame(modified, "MODIFIED"))["object"]["data"] == {"number": 2}
    assert msgspec.json.decode(frame(modified, "ADDED"))["object"]["data"] == {"number": 2}
    gone = msgspec.json.decode(frame(modified, "DELETED"))
    assert gone["type"] == "DELETED"
    assert gone["object"]["data"] == {"number": 1}, "the content it had when it still matched"
    assert gone["object"]["metadata"]["resourceVersion"] == str(modified.revision)
    (deleted,) = await storage.commit([removal(key("a"), modified.revision)])
    assert msgspec.json.decode(frame(deleted, "DELETED"))["object"] == deleted.after.decode()


async def test_only_the_newest_changes_cache_their_encoded_events() -> None:
    storage = opened()
    first = await put(storage, "a")
    frame(first, "ADDED")
    for number in range(300):
        await put(storage, "a", number=number)
    assert first.encoded_events.added is None
    assert frame(first, "ADDED") == frame(first, "ADDED")
    assert first.encoded_events.added is None


async def test_a_snapshot_is_immutable_and_its_pages_are_consistent() -> None:
    storage = opened()
    for name in ("b", "a", "c"):
        await put(storage, name)
    at = storage.revision
    now = storage.snapshot(CONFIGMAPS)
    await put(storage, "a", number=9)
    await put(storage, "d")
    await put(storage, "z", "another")

    def names(items: object) -> list[str]:
        return [stored.key.name for stored in items if isinstance(stored, StoredObject)]  # type: ignore[attr-defined]

    past = storage.snapshot(CONFIGMAPS, "", at)
    assert names(now.after("", "")) == names(past.after("", "")) == ["a", "b", "c"]
    assert next(iter(past.after("", ""))).decode()["data"] == {"number": 0}
    assert names(storage.snapshot(CONFIGMAPS).after("another", "z")) == ["a", "b", "c", "d"]
    assert names(storage.snapshot(CONFIGMAPS, "default").after("default", "b")) == ["c", "d"]
    assert next(iter(storage.snapshot(CONFIGMAPS, "", at).after("", ""))) is next(iter(past.after("", "")))
    with pytest.raises(ValueError, match="in the future"):
        storage.snapshot(CONFIGMAPS, "", storage.revision + 1)


async def test_a_reader_far_behind_gets_bounded_batches_without_gaps() -> None:
    storage = opened()
    first = await put(storage, "a")
    changes: list[Change] = []
    for number in range(40):
        name = "large" if number % 2 else f"in-{number}"
        latest = storage.head(key(name))
        changes += await storage.commit(
            [write(key(name), latest.revision if latest else 0, number=number, text="x" * 30_000)]
        )
    subscription = storage.subscribe(CONFIGMAPS, after_revision=first.revision)
    taken: list[Change] = []
    batches = 0
    while batch := subscription.take():
        assert sum(len(change.after.encoded) for change in batch) <= 256 * 1024
        assert subscription.has_more == (len(taken) + len(batch) < len(changes))
        taken += batch
        batches += 1
    assert taken == changes
    assert batches > 3


async def test_a_change_larger_than_a_batch_is_delivered() -> None:
    storage = opened()
    first = await put(storage, "a")
    (change,) = await storage.commit([write(key("b"), 0, text="x" * 600_000)])
    subscription = storage.subscribe(CONFIGMAPS, after_revision=first.revision)
    assert list(subscription.take() or ()) == [change]


async def test_large_encoded_events_are_not_cached() -> None:
    storage = opened()
    (change,) = await storage.commit([write(key("b"), 0, text="x" * 600_000)])
    assert frame(change, "ADDED") == frame(change, "ADDED")
    assert change.encoded_events.added is None
