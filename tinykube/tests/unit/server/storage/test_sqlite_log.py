"""The data files: permissions, locking, contents and failures."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from tests.unit.server.storage.gated import CONFIGMAPS, LEASES, describe, document, removal, write

from aiokube.clock import SystemClock
from tinykube.server.objects import StorageKey
from tinykube.server.storage.model import (
    DataDirectoryInUseError,
    RevisionCompactedError,
    StorageFailedError,
    StorageOpenError,
    StorageSettings,
    Write,
)
from tinykube.server.storage.sqlite_log import SqliteLog
from tinykube.server.storage.store import ObjectStorage, open_storage

KEY = StorageKey(CONFIGMAPS, "default", "a")


def opened(path: Path, **options: int) -> ObjectStorage:
    return open_storage(
        path,
        describe=describe,
        clock=SystemClock(),
        settings=StorageSettings(**options),  # type: ignore[arg-type]
    )


def rows_in(path: Path) -> list[int]:
    with sqlite3.connect(path / "tinykube.db") as connection:
        found = [revision for (revision,) in connection.execute("SELECT revision FROM log ORDER BY revision")]
    connection.close()
    return found


async def rewrite(storage: ObjectStorage, key: StorageKey, times: int) -> int:
    latest = storage.head(key)
    revision = latest.revision if latest else 0
    for number in range(times):
        (change,) = await storage.commit([write(key, revision, number=number)])
        revision = change.revision
    return revision


async def test_data_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    async with opened(path) as storage:
        await rewrite(storage, KEY, 1)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}


async def test_a_shared_directory_is_made_private_if_empty_and_rejected_otherwise(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    await opened(empty).aclose()
    assert stat.S_IMODE(empty.stat().st_mode) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "letters.txt").touch()
    with pytest.raises(StorageOpenError, match="contains other files"):
        opened(shared)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageOpenError, match="not a directory"):
        opened(file)


async def test_a_database_with_the_former_name_is_opened_and_keeps_its_name(tmp_path: Path) -> None:
    storage = opened(tmp_path / "data")
    await rewrite(storage, KEY, 3)
    await storage.aclose()
    for path in (tmp_path / "data").glob("tinykube.db*"):
        path.rename(path.with_name(path.name.replace("tinykube", "endpointd")))
    storage = opened(tmp_path / "data")
    latest = storage.head(KEY)
    await storage.aclose()
    assert latest is not None
    assert not list((tmp_path / "data").glob("tinykube.db*"))


async def test_a_data_directory_is_locked_by_one_server(tmp_path: Path) -> None:
    async with opened(tmp_path / "data"):
        with pytest.raises(DataDirectoryInUseError, match=f"pid {os.getpid()}") as refused:
            opened(tmp_path / "data")
        assert refused.value.pid == os.getpid()
    await opened(tmp_path / "data").aclose()


async def test_a_newer_schema_version_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as storage:
        await rewrite(storage, KEY, 1)
    with sqlite3.connect(path / "tinykube.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageOpenError, match="schema version 99"):
        opened(path)
    assert len(rows_in(path)) == 1
    with pytest.raises(StorageOpenError):
        opened(path)  # no lock was left behind


async def test_a_database_of_another_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    with sqlite3.connect(path / "tinykube.db") as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    with pytest.raises(StorageOpenError, match="of another program"):
        opened(path)


async def test_a_damaged_file_is_reported_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path) as storage:
        await rewrite(storage, KEY, 3)
    database = path / "tinykube.db"
    healthy = database.read_bytes()
    database.write_bytes(b"not a database at all" * 400)
    with pytest.raises(StorageOpenError, match=r"tinykube\.db: unreadable \(.*\): restore it"):
        opened(path)
    assert database.read_bytes().startswith(b"not a database")
    database.write_bytes(healthy.replace(b'"resourceVersion":"4"', b'"resourceVersion":"7"'))
    with pytest.raises(StorageOpenError, match="damaged at revision 4"):
        opened(path)
    database.write_bytes(healthy.replace(b'"resourceVersion":"4"', b'"resourceVersion";"4"'))
    with pytest.raises(StorageOpenError, match="damaged at revision 4"):
        opened(path)
    database.write_bytes(healthy)
    await opened(path).aclose()


async def test_revisions_continue_after_a_restart_and_skip_ahead_after_a_crash(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as storage:
        revision = await rewrite(storage, KEY, 5)
    async with opened(tmp_path / "data") as storage:
        assert storage.revision == revision
        assert await rewrite(storage, KEY, 1) == revision + 1
        for path in (tmp_path / "data").glob("tinykube.db*"):
            (tmp_path / "copy").mkdir(mode=0o700, exist_ok=True)
            (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
        # A lying disk loses the end of the log in a power failure: the newest revisions are lost although
        # confirmed.
    (tmp_path / "copy" / "tinykube.db-wal").unlink()
    async with opened(tmp_path / "copy") as storage:
        assert storage.revision == revision
    async with opened(tmp_path / "lied") as storage:
        await rewrite(storage, KEY, 2)
        log = storage._log
        assert isinstance(log, SqliteLog)
        log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await rewrite(storage, KEY, 400)
        (tmp_path / "lost").mkdir(mode=0o700)
        (tmp_path / "lost" / "tinykube.db").write_bytes((tmp_path / "lied" / "tinykube.db").read_bytes())
        confirmed = storage.revision
    async with opened(tmp_path / "lost") as storage:
        assert storage.revision > confirmed


async def test_old_revisions_are_deleted_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path, history_changes=16) as storage:
        await rewrite(storage, KEY, 100)
        gone = StorageKey(CONFIGMAPS, "default", "gone")
        (end,) = await storage.commit([removal(gone, await rewrite(storage, gone, 1))])
        await rewrite(storage, KEY, 40)
        last, history = storage.revision, storage.statistics().history_changes
    found = rows_in(path)
    assert found[-1] == last
    assert end.revision not in found
    # The history's rows, the row that its first change replaced, and the rows that one group deleted late.
    assert len(found) <= history + 4
    async with opened(path, history_changes=16) as storage:
        assert storage.get(gone) is None
        with pytest.raises(RevisionCompactedError):
            storage.snapshot(CONFIGMAPS, "", 50)
        subscription = storage.subscribe(CONFIGMAPS, after_revision=last - 5)
        assert [change.revision for change in await subscription.next_batch()] == list(
            range(last - 4, last + 1)
        )


async def test_leases_and_events_are_stored_without_history(tmp_path: Path) -> None:
    path = tmp_path / "data"
    lease, other = (StorageKey(LEASES, "kube-node-lease", name) for name in ("node-1", "node-2"))
    async with opened(path) as storage:
        revision = await rewrite(storage, lease, 50)
        await storage.commit([removal(other, await rewrite(storage, other, 3))])
        confirmed = storage.revision
    assert rows_in(path) == [revision]
    async with opened(path) as storage:
        assert storage.revision == confirmed, "deleting rows does not reuse their revisions"
        assert storage.get(lease) is not None
        assert storage.get(other) is None
        with pytest.raises(RevisionCompactedError):
            storage.subscribe(LEASES, after_revision=confirmed - 1)
        storage.subscribe(LEASES, after_revision=confirmed)


async def test_a_full_disk_rejects_whole_commits_keeps_serving_and_recovers(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path, history_changes=4) as storage:
        kept = await rewrite(storage, KEY, 1)
        log = storage._log
        assert isinstance(log, SqliteLog)
        (pages,) = log._connection.execute("PRAGMA page_count").fetchone()
        log._connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        big = document("big", "default")
        big["data"]["filler"] = "x" * 40_000
        small = StorageKey(CONFIGMAPS, "default", "small")
        with pytest.raises(StorageFailedError, match="full"):
            await storage.commit([write(small), Write(StorageKey(CONFIGMAPS, "default", "big"), big, 0)])
        assert storage.head(small) is None
        assert storage.revision == kept
        assert [stored.key for stored in storage.snapshot(CONFIGMAPS).after("", "")] == [KEY]
        # Small ones fit, and their old revisions make room for the new ones.
        await rewrite(storage, KEY, 200)
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await storage.commit([write(small)])
    async with opened(path) as storage:
        assert storage.get(small) is not None
        assert len(storage.snapshot(CONFIGMAPS)) == 2


async def test_a_failed_group_does_not_delete_current_revisions(tmp_path: Path) -> None:
    path = tmp_path / "data"
    lease = StorageKey(LEASES, "kube-node-lease", "node-1")
    async with opened(path) as storage:
        revision = await rewrite(storage, lease, 1)
        log = storage._log
        assert isinstance(log, SqliteLog)
        log._connection.execute("PRAGMA max_page_count = 1")
        big = document("node-1", "kube-node-lease")
        big["data"]["filler"] = "x" * 400_000
        with pytest.raises(StorageFailedError):
            await storage.commit([Write(lease, big, revision)])
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await rewrite(storage, KEY, 3)
    async with opened(path) as storage:
        stored = storage.get(lease)
        assert stored is not None
        assert stored.revision == revision


async def test_the_file_shrinks_after_mass_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinykube.server.storage.sqlite_log._FREE_PAGES_KEPT", 8)
    path = tmp_path / "data"
    async with opened(path, history_changes=4) as storage:
        keys = [StorageKey(CONFIGMAPS, "default", f"big-{number}") for number in range(100)]
        writes = []
        for key in keys:
            big = document(key.name, key.namespace)
            big["data"]["filler"] = "x" * 8_000
            writes.append(Write(key, big, 0))
        changes = await storage.commit(writes)
        await storage.commit([removal(change.after.key, change.revision) for change in changes])
        await rewrite(storage, KEY, 300)
        log = storage._log
        assert isinstance(log, SqliteLog)
    assert (path / "tinykube.db").stat().st_size < 400_000


async def test_a_fully_compacted_history_is_known_to_be_gone_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path, history_changes=4) as storage:
        before = storage.revision
        passing = StorageKey(CONFIGMAPS, "default", "passing")
        await storage.commit([removal(passing, await rewrite(storage, passing, 1))])
        for number in range(8):
            other = StorageKey(CONFIGMAPS, "default", f"other-{number}")
            await rewrite(storage, other, 1)
    async with opened(path) as storage:
        # The rows of created and deleted objects are deleted: only the record of the compaction remains.
        with pytest.raises(RevisionCompactedError):
            storage.subscribe(CONFIGMAPS, after_revision=before)


async def test_a_volatile_collection_made_persistent_starts_its_history_at_the_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data"
    lease = StorageKey(LEASES, "kube-node-lease", "node-1")
    async with opened(path) as storage:
        revision = await rewrite(storage, lease, 3)
    settings = StorageSettings(volatile=frozenset())
    async with open_storage(path, describe=describe, clock=SystemClock(), settings=settings) as storage:
        with pytest.raises(RevisionCompactedError):
            storage.subscribe(LEASES, after_revision=revision - 2)
        (change,) = await storage.commit([write(lease, revision)])
        assert list(await storage.subscribe(LEASES, after_revision=revision).next_batch()) == [change]


async def test_a_failed_group_does_not_lose_the_compaction_record(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with opened(path, history_changes=4) as storage:
        passing = StorageKey(CONFIGMAPS, "default", "passing")
        seen = await rewrite(storage, passing, 1)
        await storage.commit([removal(passing, seen)])
        others = [StorageKey(CONFIGMAPS, "default", f"other-{number}") for number in range(5)]
        for other in others[:4]:
            await rewrite(storage, other, 1)
        log = storage._log
        assert isinstance(log, SqliteLog)
        log._connection.execute("PRAGMA max_page_count = 1")
        big = document("big", "default")
        big["data"]["filler"] = "x" * 400_000
        with pytest.raises(StorageFailedError):
            await storage.commit([Write(StorageKey(CONFIGMAPS, "default", "big"), big, 0)])
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await rewrite(storage, others[4], 1)
    async with opened(path) as storage:
        with pytest.raises(RevisionCompactedError):
            storage.subscribe(CONFIGMAPS, after_revision=seen)


async def test_each_commit_is_synced_and_auto_vacuum_is_incremental(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as storage:
        await rewrite(storage, KEY, 1)
        log = storage._log
        assert isinstance(log, SqliteLog)
        pragmas = ("journal_mode", "synchronous", "auto_vacuum")
        found = [log._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    assert found == ["wal", 2, 2], "write-ahead log, FULL, INCREMENTAL"
