"""The log on disk: SQLite with a write-ahead log, synced on each commit, written by its own thread."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tinykube.server.objects import GroupResource
from tinykube.server.storage.datadir import DataDirectory
from tinykube.server.storage.log import Batch, Done, Row, checksum_of, damaged
from tinykube.server.storage.marker import Mark, MarkerFile
from tinykube.server.storage.model import StorageOpenError
from tinykube.server.storage.reserve import Reserve

SCHEMA_VERSION = 2
_APPLICATION_ID = 0x656E6470  # "endp": distinguishes foreign files from damaged ones

_RESERVED_REVISIONS = 1_000
_RESERVE_AHEAD = 500
"""A new block of revisions is reserved while this many are left: if a disk loses a confirmed commit in a power
failure, the reservation is in an earlier commit."""

_FREE_PAGES_KEPT = 2_048
_FREED_PAGES_A_TIME = 64
_LOOK_AFTER_GROUPS = 64

_SCHEMA = (
    """CREATE TABLE log (
        revision INTEGER PRIMARY KEY, api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL,
        name TEXT NOT NULL, previous INTEGER NOT NULL, item_offset INTEGER NOT NULL, value BLOB,
        checksum INTEGER NOT NULL)""",
    """CREATE TABLE compacted (
        api_group TEXT NOT NULL, plural TEXT NOT NULL, revision INTEGER NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (api_group, plural)
    ) WITHOUT ROWID""",
    """CREATE TABLE high_water (
        id INTEGER PRIMARY KEY CHECK (id = 1), database BLOB NOT NULL, revision INTEGER NOT NULL,
        last_revision INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
)
_WITHOUT_CHECKSUMS = 1
"""The previous schema version. It is migrated when it is opened."""
_COLUMNS = "revision, api_group, plural, namespace, name, previous, item_offset, value"


class SqliteLog:
    """A log in its own data directory.

    A batch is one transaction and one sync; after the first append, only the thread accesses the file. Raises
    StorageOpenError (in use, damaged, of a newer version, no access); existing data is then not modified.
    """

    def __init__(self, data_dir: Path) -> None:
        self._directory = DataDirectory(data_dir)
        self._path = self._directory.database
        self._marker = MarkerFile(self._directory.marker)
        self._is_full = False
        try:
            mark = self._marker.read()
            if self._directory.prepare_database() and mark is not None:
                raise StorageOpenError(
                    f"{self._path}: missing or empty, but {self._marker.path.name} beside it records revision "
                    f"{mark.revision}: restore it from a backup, or remove {self._marker.path} to start with an empty database"
                )
            with _kept(self._path.with_name(f"{self._path.name}-wal")):
                self._connection = self._connect(mark)
            self._reserve = Reserve(self._directory.reserve)
        except BaseException:
            self._directory.close()
            raise
        self._batches: queue.SimpleQueue[tuple[Batch, Done] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._groups = 0
        self._last_revision = 0
        self._closed = False

    def _connect(self, mark: Mark | None) -> sqlite3.Connection:
        with self._open_errors():
            connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=0, cached_statements=32
            )
        try:
            with self._open_errors():
                self._prepare(connection, mark)
            self._check_mark(mark)
            self._create_marker()
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_marker(self) -> None:
        try:
            self._marker.create(Mark(self._database_id, self._last_recorded))
        except OSError as error:
            raise StorageOpenError(f"{self._marker.path}: cannot be written: {error.strerror}") from error

    def _prepare(self, connection: sqlite3.Connection, mark: Mark | None) -> None:
        # No shared memory file: the directory's lock guarantees exclusive access.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version, application = _pragma(connection, "user_version"), _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != _APPLICATION_ID and (tables or version):
            raise StorageOpenError(f"{self._path}: a database of another program; use another data directory")
        if tables and version < _WITHOUT_CHECKSUMS:
            raise StorageOpenError(
                f"{self._path}: damaged (schema version {version}): restore it from a backup"
            )
        if (not tables and (application or mark is not None)) or (
            version == _WITHOUT_CHECKSUMS and mark is not None
        ):
            raise self._damaged("it is older than its marker file")
        if version > SCHEMA_VERSION:
            raise StorageOpenError(
                f"{self._path}: has schema version {version}, this program supports up to {SCHEMA_VERSION}: "
                "use the newer program that wrote it, or another data directory"
            )
        if not tables:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        if tables:
            self._check_structure(connection)
        if not tables:
            _in_transaction(connection, _create)
        elif version == _WITHOUT_CHECKSUMS:
            _in_transaction(connection, _add_checksums)
        self._check_schema(connection)
        state = connection.execute(
            "SELECT database, revision, last_revision, checksum FROM high_water"
        ).fetchone()
        if state is None or _state_checksum(*state[:3]) != state[3]:
            raise self._damaged("invalid record of its last revision")
        self._database_id: bytes = state[0]
        self._reserved: int = state[1]
        newest: int = connection.execute("SELECT max(revision) FROM log").fetchone()[0] or 0
        self.high_water: int = max(self._reserved, newest)
        self._last_recorded = max(state[2], newest)
        compacted: dict[GroupResource, int] = {}
        for group, plural, revision, checksum in connection.execute("SELECT * FROM compacted"):
            if _compacted_checksum(group, plural, revision) != checksum:
                raise self._damaged("invalid record of a compaction")
            compacted[GroupResource(group, plural)] = revision
        self.compacted: Mapping[GroupResource, int] = compacted

    def _damaged(self, what: str) -> StorageOpenError:
        return StorageOpenError(
            f"{self._path}: damaged ({what}): restore it from a backup, or move it away to start with an empty database"
        )

    def _check_structure(self, connection: sqlite3.Connection) -> None:
        """Raise StorageOpenError if the file's pages are inconsistent: rows could be missing silently."""
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(" ".join(str(found).split()))

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if found != set(_SCHEMA):
            raise self._damaged("its tables differ from the schema")

    def _check_mark(self, mark: Mark | None) -> None:
        """Raise StorageOpenError if the marker names another database, or a revision that this one lacks."""
        if mark is None:
            return  # new, or a copy of the database alone
        marker = self._marker.path
        if mark.database != self._database_id:
            raise StorageOpenError(
                f"{self._path}: not the database that {marker} belongs to: restore both from the same backup, or "
                f"remove {marker} to use this database"
            )
        if mark.revision > self._last_recorded:
            raise StorageOpenError(
                f"{self._path}: ends at revision {self._last_recorded}, but revision {mark.revision} was confirmed: its "
                f"end is lost, or it is an older copy; restore it, or remove {marker} to continue without the missing revisions"
            )

    def rows(self) -> Iterator[Row]:
        """Iterate over all rows by revision."""
        with self._open_errors():
            for *columns, checksum in self._connection.execute(
                f"SELECT {_COLUMNS}, checksum FROM log ORDER BY revision"  # noqa: S608
            ):
                row = Row._make(columns)
                if _checksum_or_none(row) != checksum:
                    raise damaged(row, "wrong checksum")
                yield row

    @contextlib.contextmanager
    def _open_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageOpenError(
                f"{self._path}: unreadable ({' '.join(str(error).split())}): restore it from a backup, or move it away to start with an empty database"
            ) from error

    def append(self, batch: Batch, done: Done) -> None:
        """Queue a batch for the thread."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="tinykube-storage", daemon=True)
            self._thread.start()
        self._batches.put((batch, done))

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - set before the thread is started
        while (item := self._batches.get()) is not None:
            batch, done = item
            error = self._write(batch)
            if error is not None and _is_disk_full(error):
                self._is_full = True
                self._reserve.release()
                if batch.makes_room:
                    error = self._write(batch)
            # A closed loop does not wait for a result.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done, error)
            if error is None:
                self._free_pages()

    def _write(self, batch: Batch) -> Exception | None:
        connection = self._connection
        reserved = self._reserved
        try:
            connection.execute("BEGIN IMMEDIATE")
            # Deletions first: the pages that they free are available to the new rows, even if the disk is
            # full.
            if batch.deletions:
                connection.executemany(
                    "DELETE FROM log WHERE revision = ?", ((each,) for each in batch.deletions)
                )
            if batch.rows:
                connection.executemany(
                    "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    ((*row, checksum_of(row)) for row in batch.rows),
                )
            if batch.compacted:
                connection.executemany(
                    "INSERT OR REPLACE INTO compacted VALUES (?, ?, ?, ?)",
                    [
                        (*resource, at, _compacted_checksum(*resource, at))
                        for resource, at in batch.compacted.items()
                    ],
                )
            if batch.last_revision > reserved - _RESERVE_AHEAD:
                reserved = batch.last_revision + _RESERVED_REVISIONS
            if reserved != self._reserved or not batch.rows:
                # A batch without rows leaves no other record of its revision.
                _put_state(connection, self._database_id, reserved, batch.last_revision)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - every error fails the waiting writers
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return error
        self._reserved = reserved
        self._last_revision = batch.last_revision
        last_recorded = batch.rows[-1].revision if batch.rows else batch.last_revision
        with contextlib.suppress(OSError):  # an older mark is still valid
            self._marker.write(Mark(self._database_id, last_recorded))
        return None

    @property
    def is_full(self) -> bool:
        """Whether the disk was full at the last write."""
        return self._is_full

    def try_recover(self) -> bool:
        """Return whether the disk has room again, first of all for the reserve."""
        if self._is_full and self._reserve.acquire():
            self._is_full = False
        return not self._is_full

    def _free_pages(self) -> None:
        """Shrink the file a little if many pages are free; best effort, not waited for."""
        self._groups += 1
        if self._groups % _LOOK_AFTER_GROUPS:
            return
        with contextlib.suppress(sqlite3.Error):
            if _pragma(self._connection, "freelist_count") > _FREE_PAGES_KEPT:
                # As a script: execute() steps a statement without columns once, which frees one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES_A_TIME})")

    async def aclose(self) -> None:
        """Finish pending work, record a clean shutdown, and close the files."""
        if not self._closed:
            # At most one batch is pending, so this takes one sync and a checkpoint.
            await asyncio.get_running_loop().run_in_executor(None, self.close)

    def close(self) -> None:
        """Do the same, blocking the caller."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
        try:
            with contextlib.suppress(sqlite3.Error):
                if self._last_revision:
                    # Clean shutdown: the next start continues directly after it, without skipping a block.
                    last = self._last_revision
                    _put_state(self._connection, self._database_id, last, last)
            self._connection.close()
        finally:
            self._marker.close()
            self._reserve.close()
            self._directory.close()


@contextlib.contextmanager
def _kept(wal: Path) -> Iterator[None]:
    """Preserve a write-ahead log if the block fails: SQLite removes it even without a write."""
    kept = wal.with_name(f"{wal.name}.kept")
    with contextlib.suppress(OSError):
        kept.unlink(missing_ok=True)
        kept.hardlink_to(wal)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            kept.replace(wal)
        raise
    with contextlib.suppress(OSError):
        kept.unlink()


def _in_transaction(connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], None]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    change(connection)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    _put_state(connection, uuid.uuid4().bytes, 0, 0)


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Migrate a database of the previous version. Its contents are trusted."""
    for table in ("log", "compacted", "high_water"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    _create(connection)
    connection.create_function("row_checksum", 8, lambda *columns: checksum_of(Row._make(columns)))
    connection.create_function("compacted_checksum", 3, _compacted_checksum)
    connection.execute(f"INSERT INTO log SELECT {_COLUMNS}, row_checksum({_COLUMNS}) FROM old_log")  # noqa: S608
    columns = "api_group, plural, revision"
    connection.execute(
        f"INSERT INTO compacted SELECT {columns}, compacted_checksum({columns}) FROM old_compacted"  # noqa: S608
    )
    (reserved,) = connection.execute("SELECT revision FROM old_high_water").fetchone()
    (database,) = connection.execute("SELECT database FROM high_water").fetchone()
    _put_state(connection, database, reserved, 0)
    for table in ("log", "compacted", "high_water"):
        connection.execute(f"DROP TABLE old_{table}")


def _put_state(connection: sqlite3.Connection, database: bytes, reserved: int, last_revision: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO high_water VALUES (1, ?, ?, ?, ?)",
        (database, reserved, last_revision, _state_checksum(database, reserved, last_revision)),
    )


def _state_checksum(database: object, reserved: object, last_revision: object) -> int:
    return zlib.crc32(f"{database!r} {reserved!r} {last_revision!r}".encode())


def _compacted_checksum(group: object, plural: object, revision: object) -> int:
    return zlib.crc32(f"{group!r} {plural!r} {revision!r}".encode())


def _checksum_or_none(row: Row) -> int | None:
    try:
        return checksum_of(row)
    except (TypeError, UnicodeError):
        return None


def _is_disk_full(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_FULL


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
