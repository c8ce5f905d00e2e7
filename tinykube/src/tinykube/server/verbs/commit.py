"""Commit one object: storage errors become responses, and the hooks of the write run."""

from types import TracebackType

from tinykube.server.errors import StatusError, internal
from tinykube.server.objects import JsonObject, StorageKey
from tinykube.server.registry.definition import Request, Strategy
from tinykube.server.storage.model import (
    Change,
    Storage,
    StorageFailedError,
    StoredObject,
    Write,
    WriteConflictError,
)

_LONGEST_COMMIT_SECONDS = 10.0


MAX_ATTEMPTS = 100
"""How often a write is retried; each lost race means that another write has succeeded."""


def roll_back(request: Request) -> None:
    """Release the allocations of an abandoned write: run its ``on_failure`` hooks once."""
    hooks, request.on_failure, request.on_commit = request.on_failure, [], []
    for hook in hooks:
        hook()


class Attempt:
    """One attempt of a write. A failed attempt is rolled back; a lost race (WriteConflictError) is not an error."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def __enter__(self) -> None:
        """Start the attempt."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Roll back after an exception; suppress WriteConflictError, so that the caller retries."""
        if kind is None:
            return False
        roll_back(self._request)
        return issubclass(kind, WriteConflictError)


def note_created(strategy: Strategy, request: Request, stored: StoredObject) -> None:
    """Call the strategy's ``after_create``, if it has one."""
    if type(strategy).after_create is not Strategy.after_create:
        strategy.after_create(request, stored.decode())


def note_deleted(strategy: Strategy, request: Request, stored: StoredObject) -> None:
    """Call the strategy's ``after_delete``, if it has one."""
    if type(strategy).after_delete is not Strategy.after_delete:
        strategy.after_delete(request, stored.decode())


async def wait_until_durable(storage: Storage, stored: StoredObject) -> StoredObject:
    """Return an accepted object once it is durable, so that no response shows data that a crash could lose."""
    if stored.revision > storage.revision and not await storage.wait_for_revision(
        stored.revision, _LONGEST_COMMIT_SECONDS
    ):
        raise internal("the write behind this response did not become durable in time")
    return stored


async def commit_one(
    storage: Storage, request: Request, key: StorageKey, document: JsonObject | None, expected_revision: int
) -> Change:
    """Write one object; run ``on_commit`` once it is durable.

    Raises WriteConflictError (the caller decides whether to retry), and a StatusError of 500 if the disk
    write fails.
    """
    try:
        (change,) = await storage.commit((Write(key, document, expected_revision),))
    except StorageFailedError as error:
        raise disk_failed(error) from error
    hooks, request.on_commit, request.on_failure = request.on_commit, [], []
    for hook in hooks:
        hook()
    return change


def disk_failed(error: StorageFailedError) -> StatusError:
    """500: nothing was written. The message includes the disk error, so that the reader can act on it."""
    return internal(f"the write could not be stored: {error}")
