"""Guarantees of commits: groups, conflicts, failures, closing."""

import asyncio
from typing import Any

import pytest
from tests.unit.server.storage.gated import (
    CONFIGMAPS,
    WIDGETS,
    GatedLog,
    describe,
    document,
    removal,
    write,
)

from aiokube.testing.virtual_time import FakeClock, ManualClock
from tinykube.server.objects import StorageKey
from tinykube.server.storage.log import Batch, Done, MemoryLog
from tinykube.server.storage.model import (
    StorageFailedError,
    StorageSettings,
    Write,
    WriteConflictError,
)
from tinykube.server.storage.store import ObjectStorage, open_storage

A, B, C = (StorageKey(CONFIGMAPS, "default", name) for name in "abc")


def gated(**options: Any) -> tuple[ObjectStorage, GatedLog]:
    log = GatedLog(MemoryLog())
    storage = ObjectStorage(log, describe=describe, clock=FakeClock(), settings=StorageSettings(**options))
    return storage, log


def in_memory() -> ObjectStorage:
    return open_storage(None, describe=describe, clock=FakeClock())


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_write_is_readable_once_durable_and_is_the_head_immediately() -> None:
    storage, log = gated()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(storage.commit([write(A)]))
        await turns()
        assert storage.get(A) is None
        latest = storage.head(A)
        assert latest is not None
        assert storage.revision == 1
        second = group.create_task(storage.commit([write(A, latest.revision, number=7)]))
        await turns()
        await log.release()
        await first
        assert storage.get(A) is latest
        assert not second.done()
        await log.release()
    stored = storage.get(A)
    assert stored is not None
    assert stored.decode()["data"] == {"number": 7}


async def test_commits_are_grouped_per_event_loop_turn_and_while_the_log_is_writing() -> None:
    storage, log = gated()
    keys = [StorageKey(CONFIGMAPS, "default", f"n{number}") for number in range(10)]
    async with asyncio.TaskGroup() as group:
        for key in keys[:5]:
            group.create_task(storage.commit([write(key)]))
        await turns()
        for key in keys[5:]:
            group.create_task(storage.commit([write(key)]))
            await turns()
        assert [len(batch.rows) for batch, _ in log.held] == [5]
        await log.release()
        assert [len(batch.rows) for batch, _ in log.held] == [5]
        await log.release()
    assert storage.statistics().groups == 2
    assert storage.statistics().commits == 10


async def test_the_next_group_is_submitted_before_the_previous_one_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage, log = gated()
    told_before: list[bool] = []
    append = log.append

    def noting(batch: Batch, done: Done) -> None:
        told_before.append(storage.get(A) is not None)
        append(batch, done)

    monkeypatch.setattr(log, "append", noting)
    async with asyncio.TaskGroup() as group:
        group.create_task(storage.commit([write(A)]))
        await turns()
        group.create_task(storage.commit([write(B)]))
        await turns()
        await log.release()
        assert told_before == [False, False]
        assert storage.get(A) is not None
        await log.release()


async def test_a_conflict_is_raised_immediately_and_nothing_is_written() -> None:
    storage = in_memory()
    (change,) = await storage.commit([write(A)])
    with pytest.raises(WriteConflictError) as refused:
        await storage.commit([write(B), write(A, change.revision + 1)])
    assert refused.value.actual == change.revision
    assert storage.head(B) is None
    assert storage.revision == change.revision


async def test_a_commit_is_published_at_once_with_one_revision_per_write() -> None:
    storage = in_memory()
    (old,) = await storage.commit([write(A)])
    changes = await storage.commit([removal(A, old.revision), write(B), write(C)])
    assert [change.type for change in changes] == ["DELETED", "ADDED", "ADDED"]
    assert [change.revision for change in changes] == [3, 4, 5]
    assert changes[0].after.decode()["metadata"]["resourceVersion"] == "3"
    assert changes[0].before is old.after
    assert [stored.key for stored in storage.snapshot(CONFIGMAPS).after("", "")] == [B, C]


async def test_empty_commits_succeed_and_duplicate_keys_or_missing_objects_are_rejected() -> None:
    storage = in_memory()
    assert await storage.commit([]) == ()
    with pytest.raises(ValueError, match="once"):
        await storage.commit([write(A), write(A)])
    with pytest.raises(ValueError, match="nothing to remove"):
        await storage.commit([removal(A, 0)])
    assert storage.head(A) is None


async def test_a_document_that_cannot_be_encoded_leaves_no_trace() -> None:
    storage = in_memory()
    bad = document("b", "default")
    bad["data"] = {"what": object()}
    with pytest.raises(TypeError):
        await storage.commit([write(A), Write(B, bad, 0)])
    assert storage.head(A) is None
    (change,) = await storage.commit([write(A)])
    assert change.revision == 2


async def test_a_log_failure_fails_all_pending_commits_and_later_writes_succeed() -> None:
    storage, log = gated()
    first = asyncio.gather(storage.commit([write(A)]), return_exceptions=True)
    await turns()
    second = asyncio.gather(storage.commit([write(B)]), return_exceptions=True)
    await turns()
    log.fail()
    for (error,) in (await first, await second):
        assert isinstance(error, StorageFailedError)
        assert "disk is full" in str(error)
    assert storage.head(A) is None
    assert storage.head(B) is None
    assert storage.revision == 1
    assert storage.statistics().failures == 1
    third = asyncio.gather(storage.commit([write(A)]))
    await turns()
    await log.release()
    ((change,),) = await third
    assert change.revision > 3, "failed revisions are not reused"


async def test_cancelling_the_caller_does_not_revert_a_commit() -> None:
    storage, log = gated()
    task = asyncio.gather(storage.commit([write(A)]))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await log.release()
    assert storage.get(A) is not None


async def test_waiting_for_a_revision_respects_the_timeout() -> None:
    storage = in_memory()
    assert await storage.wait_for_revision(1, 0)
    assert not await storage.wait_for_revision(2, 0)
    assert not await storage.wait_for_revision(2, 0.001)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(storage.wait_for_revision(3, 10))
        await storage.commit([write(A)])
        assert not waiting.done()
        await storage.commit([write(B)])
    assert waiting.result()


async def test_closing_completes_accepted_writes_and_wakes_all_waiters() -> None:
    storage = in_memory()
    subscription = storage.subscribe(CONFIGMAPS, after_revision=1)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(subscription.next_batch())
        waiting = group.create_task(storage.wait_for_revision(99, 10))
        await turns()
        writing = group.create_task(storage.commit([write(A)]))
        await turns(1)
        await storage.aclose()
    assert list(reading.result()) == []
    assert not waiting.result()
    assert writing.result()
    with pytest.raises(StorageFailedError, match="closed"):
        await storage.commit([write(B)])
    assert list(await storage.subscribe(CONFIGMAPS, after_revision=1).next_batch()) == []
    await storage.aclose()


async def test_field_values_are_recomputed_when_a_definition_is_added_later() -> None:
    known: dict[str, str] = {}
    storage = open_storage(None, describe=lambda *_: dict(known), clock=FakeClock())
    key = StorageKey(WIDGETS, "default", "a")
    (change,) = await storage.commit([write(key)])
    known["spec.size"] = "3"
    storage.refresh_fields(WIDGETS)
    storage.refresh_fields(CONFIGMAPS)
    stored = storage.get(key)
    assert stored is not None
    assert stored.fields == {"spec.size": "3"}
    assert stored.encoded is change.after.encoded
    assert next(iter(storage.snapshot(WIDGETS).after("", ""))).fields == {"spec.size": "3"}


async def test_history_is_limited_by_age_in_every_collection() -> None:
    clock = ManualClock()
    storage = open_storage(
        None, describe=describe, clock=clock, settings=StorageSettings(history_seconds=300.0)
    )
    (first,) = await storage.commit([write(A)])
    for second in range(0, 400, 10):
        clock.now = float(second)
        key = StorageKey(WIDGETS, "default", f"w{second}")
        await storage.commit([write(key)])
    assert first.revision < storage.oldest_revision < storage.revision
    # With one change every 10 s, 300 s are kept, and at most one tick more.
    assert 30 <= storage.statistics().history_changes <= 32
    assert storage.statistics().objects == 41
