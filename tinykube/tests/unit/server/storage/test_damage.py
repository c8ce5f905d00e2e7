"""Damaged files: rejected when they are opened, never served as data."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.server.storage.gated import CONFIGMAPS, LEASES, removal, write
from tests.unit.server.storage.test_sqlite_log import KEY, opened, rewrite

from tinykube.server.objects import StorageKey
from tinykube.server.storage.marker import Mark, MarkerFile
from tinykube.server.storage.model import StorageFailedError, StorageOpenError, Write
from tinykube.server.storage.sqlite_log import SqliteLog
from tinykube.server.storage.store import ObjectStorage

FLIPS = int(os.environ.get("TINYKUBE_BIT_FLIPS", "120"))
SEED = int(os.environ.get("TINYKUBE_FUZZ_SEED", "20261122"))
FILES = ("tinykube.db", "tinykube.db-wal", "marker")

Contents = dict[StorageKey, bytes]


def contents(storage: ObjectStorage) -> Contents:
    return {
        stored.key: stored.encoded
        for resource in (CONFIGMAPS, LEASES)
        for stored in storage.snapshot(resource).after("", "")
    }


async def fill(storage: ObjectStorage) -> None:
    for number in range(12):
        key = StorageKey(CONFIGMAPS, "default", f"c{number}")
        revision = await rewrite(storage, key, 1 + number % 4)
        if number % 5 == 4:
            await storage.commit([removal(key, revision)])
    lease = StorageKey(LEASES, "default", "gone")
    await rewrite(storage, StorageKey(LEASES, "default", "l"), 5)
    await storage.commit([removal(lease, await rewrite(storage, lease, 3))])


async def crashed(tmp_path: Path) -> tuple[Path, Contents, int]:
    """Return the files after a crash, half in the database and half in its log, and their contents."""
    async with opened(tmp_path / "data") as storage:
        await fill(storage)
    async with opened(tmp_path / "data") as storage:
        await fill_more(storage)
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
        return tmp_path / "crashed", contents(storage), storage.revision


async def fill_more(storage: ObjectStorage) -> None:
    for number in range(6):
        await rewrite(storage, StorageKey(CONFIGMAPS, "more", f"m{number}"), 3)


async def orderly(tmp_path: Path) -> tuple[Path, Contents, int]:
    async with opened(tmp_path / "data") as storage:
        await fill(storage)
        await fill_more(storage)
        held, revision = contents(storage), storage.revision
    return tmp_path / "data", held, revision


@pytest.mark.slow
@pytest.mark.parametrize("left_by", [orderly, crashed])
async def test_a_flipped_bit_never_changes_the_served_data(tmp_path: Path, left_by: object) -> None:
    rng = random.Random(SEED)
    source, held, revision = await left_by(tmp_path)  # type: ignore[operator]
    refused = 0
    for number in range(FLIPS):
        path = tmp_path / f"flip-{number}"
        shutil.copytree(source, path)
        file = rng.choice([path / name for name in FILES if (path / name).exists()])
        data = bytearray(file.read_bytes())
        position, bit = rng.randrange(len(data)), rng.randrange(8)
        data[position] ^= 1 << bit
        file.write_bytes(data)
        context = f"seed {SEED}: bit {bit} of byte {position} of {file.name}"
        refusal = ""
        try:
            storage = opened(path)
        except StorageOpenError as error:
            refusal = str(error)
        else:
            async with storage:
                assert contents(storage) == held, context
                assert storage.revision >= revision, context
        assert "\n" not in refusal, context
        refused += bool(refusal)
        shutil.rmtree(path)
    assert refused > FLIPS // 10, "most bits carry data"


async def test_a_truncated_write_ahead_log_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    path, held, revision = await crashed(tmp_path)
    wal = path / "tinykube.db-wal"
    whole = wal.read_bytes()
    wal.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(
            StorageOpenError, match=rf"but revision {revision} was confirmed: its end is lost"
        ):
            opened(path)
        assert wal.read_bytes() == whole[: len(whole) // 2]
    wal.write_bytes(whole)
    async with opened(path) as storage:
        assert contents(storage) == held


async def test_a_missing_or_truncated_database_is_rejected_if_one_existed(tmp_path: Path) -> None:
    path, held, revision = await orderly(tmp_path)
    database = path / "tinykube.db"
    whole = database.read_bytes()
    for damage in (database.unlink, database.touch, lambda: database.write_bytes(whole[:4096])):
        damage()
        with pytest.raises(StorageOpenError, match="restore it from a backup"):
            opened(path)
    database.write_bytes(b"")
    with pytest.raises(StorageOpenError, match=f"records revision {revision}"):
        opened(path)
    database.write_bytes(whole)
    async with opened(path) as storage:
        assert contents(storage) == held


async def test_an_older_copy_is_accepted_only_without_the_marker(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as storage:
        await rewrite(storage, KEY, 1)
    old = (tmp_path / "data" / "tinykube.db").read_bytes()
    async with opened(tmp_path / "data") as storage:
        held = contents(storage)
        await rewrite(storage, KEY, 1)
    (tmp_path / "data" / "tinykube.db").write_bytes(old)
    with pytest.raises(StorageOpenError, match="it is an older copy"):
        opened(tmp_path / "data")
    (tmp_path / "data" / "marker").unlink()
    async with opened(tmp_path / "data") as storage:
        assert contents(storage) == held


async def test_the_database_of_another_directory_is_rejected(tmp_path: Path) -> None:
    for name in ("one", "other"):
        async with opened(tmp_path / name) as storage:
            await rewrite(storage, KEY, 1)
    shutil.copy(tmp_path / "other" / "tinykube.db", tmp_path / "one" / "tinykube.db")
    with pytest.raises(StorageOpenError, match="not the database that"):
        opened(tmp_path / "one")


async def test_an_unreadable_marker_is_rejected(tmp_path: Path) -> None:
    path, held, _ = await orderly(tmp_path)
    (path / "marker").write_bytes(b"\0" * 1024)
    with pytest.raises(StorageOpenError, match="remove it to accept the database"):
        opened(path)
    (path / "marker").unlink()
    async with opened(path) as storage:
        assert contents(storage) == held


def test_a_torn_marker_write_falls_back_to_the_previous_mark(tmp_path: Path) -> None:
    marker = MarkerFile(tmp_path / "marker")
    marker.create(Mark(b"i" * 16, 1))
    marker.write(Mark(b"i" * 16, 2))
    marker.write(Mark(b"i" * 16, 3))
    data = bytearray((tmp_path / "marker").read_bytes())
    newest = data.index((3).to_bytes(8, "big"))
    data[newest] ^= 1
    (tmp_path / "marker").write_bytes(data)
    assert marker.read() == Mark(b"i" * 16, 2)
    marker.close()


async def test_unknown_tables_are_rejected(tmp_path: Path) -> None:
    path, _, _ = await orderly(tmp_path)
    with sqlite3.connect(path / "tinykube.db") as connection:
        connection.execute("CREATE TABLE other (id INTEGER)")
    connection.close()
    with pytest.raises(StorageOpenError, match="its tables differ from the schema"):
        opened(path)


V1 = """
CREATE TABLE log (
        revision INTEGER PRIMARY KEY, api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL,
        name TEXT NOT NULL, previous INTEGER NOT NULL, item_offset INTEGER NOT NULL, value BLOB);
CREATE TABLE compacted (
        api_group TEXT NOT NULL, plural TEXT NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY (api_group, plural)
    ) WITHOUT ROWID;
CREATE TABLE high_water (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL);
PRAGMA application_id = 1701733488;
PRAGMA user_version = 1;
"""


async def test_a_database_without_checksums_is_migrated_when_opened(tmp_path: Path) -> None:
    path, held, revision = await orderly(tmp_path)
    (tmp_path / "old").mkdir(mode=0o700)
    with sqlite3.connect(tmp_path / "old" / "tinykube.db") as old:
        old.executescript("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;" + V1)
        old.execute("ATTACH ? AS new", (str(path / "tinykube.db"),))
        columns = "revision, api_group, plural, namespace, name, previous, item_offset, value"
        old.execute(f"INSERT INTO log SELECT {columns} FROM new.log")
        old.execute("INSERT INTO compacted SELECT api_group, plural, revision FROM new.compacted")
        old.execute("INSERT INTO high_water SELECT id, revision FROM new.high_water")
    old.close()
    for _ in range(2):
        async with opened(tmp_path / "old") as storage:
            assert contents(storage) == held
            assert storage.revision == revision
    assert (tmp_path / "old" / "marker").exists()


# ------------------------------------------------------------------------------------------- a full disk


async def test_on_a_full_disk_only_deletions_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "data") as storage:
        revision = await rewrite(storage, KEY, 1)
        other = StorageKey(CONFIGMAPS, "default", "other")
        stays = await rewrite(storage, other, 1)
        log = storage._log
        assert isinstance(log, SqliteLog)
        (pages,) = log._connection.execute("PRAGMA page_count").fetchone()
        log._connection.execute(f"PRAGMA max_page_count = {pages}")
        released: list[bool] = []

        def release() -> None:
            """Free the space that the real reserve would free."""
            log._connection.execute(f"PRAGMA max_page_count = {pages + 16}")
            released.append(True)

        monkeypatch.setattr(log._reserve, "release", release)
        monkeypatch.setattr(log._reserve, "acquire", lambda: False)
        big = write(StorageKey(CONFIGMAPS, "default", "big"))
        assert big.document is not None
        big.document["data"]["filler"] = "x" * 40_000
        with pytest.raises(StorageFailedError, match="full"):
            await storage.commit([big])
        assert released
        with pytest.raises(StorageFailedError, match="the disk is full: delete objects or free disk space"):
            await storage.commit([write(StorageKey(CONFIGMAPS, "default", "small"))])
        assert "the disk is full" in storage.problem
        await storage.commit([removal(KEY, revision)])
        going = write(other, stays)
        assert going.document is not None
        going.document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        await storage.commit([going])
        assert "the disk is full" in storage.problem
        monkeypatch.setattr(log._reserve, "acquire", lambda: True)
        assert storage.problem == ""
        log._connection.execute("PRAGMA max_page_count = 1000000")
        await storage.commit([write(KEY)])
    async with opened(tmp_path / "data") as storage:
        assert storage.get(KEY) is not None


SMALL_DISK = """
import asyncio, sys
from pathlib import Path
from tinykube.server.storage.model import StorageFailedError, Write
from tests.unit.server.storage.test_damage import contents, removal, opened, write, CONFIGMAPS, StorageKey

async def main(path):
    made = {}
    async with opened(path) as storage:
        try:
            for number in range(100_000):
                key = StorageKey(CONFIGMAPS, "default", f"c{number}")
                new = write(key)
                new.document["data"]["filler"] = "x" * 20_000
                (change,) = await storage.commit([new])
                made[key] = change.after
        except StorageFailedError as error:
            assert "full" in str(error), error
        assert len(made) > 10, len(made)
        assert "the disk is full" in storage.problem
        for key in list(made)[:-5]:
            await storage.commit([removal(key, made.pop(key).revision)])
    async with opened(path) as storage:
        assert set(contents(storage)) == set(made), (len(contents(storage)), len(made))
    print("kept", len(made))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_really_full_disk_loses_no_data_and_accepts_deletions(tmp_path: Path) -> None:
    """On a separate file system of 16 MiB, if this user may mount one."""
    script = 'mount -t tmpfs -o size=16m none "$1" && exec "$2" -c "$3" "$1/data"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, SMALL_DISK]
    try:
        allowed = subprocess.run([*command[:4], 'mount -t tmpfs none "$1"', "sh", str(tmp_path)], check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not available")
    if allowed.returncode:
        pytest.skip("this user may not mount a file system")
    tests = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": str(tests)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "kept 5\n"


def test_writes_that_free_space_are_distinguished(tmp_path: Path) -> None:
    key = StorageKey(CONFIGMAPS, "", "a")
    from tinykube.server.storage.store import _makes_room

    assert _makes_room(Write(key, None, 1))
    assert not _makes_room(write(key))
