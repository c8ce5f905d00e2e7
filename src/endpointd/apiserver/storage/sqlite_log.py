"""The log on disk: SQLite with a write-ahead log, synced at each commit, written by one thread of its own."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from endpointd.apiserver.objects import GroupResource
from endpointd.apiserver.storage.datadir import DataDirectory
from endpointd.apiserver.storage.log import Batch, Done, Row
from endpointd.apiserver.storage.model import StorageOpenError

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x656E6470  # "endp": a file of someone else is told from a damaged one

_RESERVED_REVISIONS = 1_000
_RESERVE_AHEAD = 500
"""A new block of revisions is reserved while so many of the last are left: one commit that a lying disk loses with the
power does not take its reservation with it."""

_FREE_PAGES_KEPT = 2_048
_FREED_PAGES_A_TIME = 64
_LOOK_AFTER_GROUPS = 64

_SCHEMA = (
    """CREATE TABLE log (
        revision INTEGER PRIMARY KEY, api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL,
        name TEXT NOT NULL, previous INTEGER NOT NULL, item_offset INTEGER NOT NULL, value BLOB)""",
    """CREATE TABLE compacted (
        api_group TEXT NOT NULL, plural TEXT NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY (api_group, plural)
    ) WITHOUT ROWID""",
    "CREATE TABLE high_water (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL)",
    "INSERT INTO high_water VALUES (1, 0)",
)
_COLUMNS = "revision, api_group, plural, namespace, name, previous, item_offset, value"


class SqliteLog:
    """A log in a data directory of its own.

    A batch is one transaction and one sync; nobody but the thread touches the file after the first append. Raises
    StorageOpenError (in use, damaged, of a newer version, no access); what it finds is never overwritten then.
    """

    def __init__(self, data_dir: Path) -> None:
        self._directory = DataDirectory(data_dir)
        self._path = self._directory.database
        try:
            self._directory.prepare_database()
            self._connection = self._connect()
        except BaseException:
            self._directory.close()
            raise
        self._batches: queue.SimpleQueue[tuple[Batch, Done] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._groups = 0
        self._last_revision = 0
        self._closed = False

    def _connect(self) -> sqlite3.Connection:
        with self._told():
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=0, cached_statements=32
            )
        try:
            with self._told():
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # No shared memory file: the directory's lock says that nobody else is here.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version, application = _pragma(connection, "user_version"), _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != _APPLICATION_ID and (tables or version):
            raise StorageOpenError(
                f"{self._path}: is a database of something else; use another data directory"
            )
        if version > SCHEMA_VERSION:
            raise StorageOpenError(
                f"{self._path}: has schema version {version}, this program knows {SCHEMA_VERSION}: "
                "use the newer program that wrote it, or another data directory"
            )
        if not tables:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        if not tables:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        self._reserved = int(connection.execute("SELECT revision FROM high_water").fetchone()[0])
        newest = connection.execute("SELECT max(revision) FROM log").fetchone()[0]
        self.high_water: int = max(self._reserved, newest or 0)
        self.compacted: Mapping[GroupResource, int] = {
            GroupResource(group, plural): revision
            for group, plural, revision in connection.execute(
                "SELECT api_group, plural, revision FROM compacted"
            )
        }

    def rows(self) -> Iterator[Row]:
        """Iterate over all that is there, by revision."""
        with self._told():
            yield from map(
                Row._make,
                self._connection.execute(f"SELECT {_COLUMNS} FROM log ORDER BY revision"),  # noqa: S608
            )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageOpenError(
                f"{self._path}: cannot be read ({error}): restore it from a copy, or move it away to start empty"
            ) from error

    def append(self, batch: Batch, done: Done) -> None:
        """Hand a batch to the thread."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="endpointd-storage", daemon=True)
            self._thread.start()
        self._batches.put((batch, done))

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - set before the thread is started
        while (item := self._batches.get()) is not None:
            batch, done = item
            error = self._write(batch)
            # A loop that is closed already waits for no answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done, error)
            if error is None:
                self._give_back_pages()

    def _write(self, batch: Batch) -> Exception | None:
        connection = self._connection
        reserved = self._reserved
        try:
            connection.execute("BEGIN IMMEDIATE")
            # Removals first: the pages they free are there for the new rows, even where the disk is full.
            if batch.deletions:
                connection.executemany(
                    "DELETE FROM log WHERE revision = ?", ((each,) for each in batch.deletions)
                )
            if batch.rows:
                connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", batch.rows)
            if batch.compacted:
                connection.executemany(
                    "INSERT OR REPLACE INTO compacted VALUES (?, ?, ?)",
                    [(resource.group, resource.plural, at) for resource, at in batch.compacted.items()],
                )
            if batch.last_revision > reserved - _RESERVE_AHEAD:
                reserved = batch.last_revision + _RESERVED_REVISIONS
                connection.execute("UPDATE high_water SET revision = ?", (reserved,))
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, every waiting writer is told
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return error
        self._reserved = reserved
        self._last_revision = batch.last_revision
        return None

    def _give_back_pages(self) -> None:
        """Shrink the file a little where much of it is free; nobody waits for it, and it may fail."""
        self._groups += 1
        if self._groups % _LOOK_AFTER_GROUPS:
            return
        with contextlib.suppress(sqlite3.Error):
            if _pragma(self._connection, "freelist_count") > _FREE_PAGES_KEPT:
                # As a script: execute() takes one step of a statement without columns, which frees one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES_A_TIME})")

    async def aclose(self) -> None:
        """Finish what is under way, note that nothing was lost, and let go of the files."""
        if not self._closed:
            # At most one batch is under way, so this takes as long as one sync, and a checkpoint.
            await asyncio.get_running_loop().run_in_executor(None, self.close)

    def close(self) -> None:
        """Do the same at once, holding up whoever calls."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
        try:
            with contextlib.suppress(sqlite3.Error):
                if self._last_revision:
                    # An orderly end: the next start goes on right behind, and skips no block.
                    self._connection.execute("UPDATE high_water SET revision = ?", (self._last_revision,))
            self._connection.close()
        finally:
            self._directory.close()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
