"""Run several writes concurrently."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec


class Failure(msgspec.Struct, frozen=True, gc=False):
    """A failed write, as text; ``outdated`` if it was planned from stale state."""

    text: str
    outdated: bool = False


async def write_all(
    writes: Sequence[Callable[[], Awaitable[Failure | None]]], *, concurrency: int
) -> Failure | None:
    """Run the writes concurrently and return the first failure.

    After a failure no further write starts; those in flight finish, so that each outcome is known. Cancelling
    cancels those in flight. Exceptions are raised, in a group if there are several.
    """
    if len(writes) == 1:  # hot path: no task for a single write
        return await writes[0]()
    pending = iter(writes)
    failures: list[Failure] = []

    async def work() -> None:
        for write in pending:
            if failures:
                return
            failure = await write()
            if failure is not None:
                failures.append(failure)

    async with asyncio.TaskGroup() as group:
        for number in range(min(concurrency, len(writes))):
            group.create_task(work(), name=f"write-{number}")
    return failures[0] if failures else None
