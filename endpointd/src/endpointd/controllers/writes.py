"""Send several writes at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec


class Failure(msgspec.Struct, frozen=True, gc=False):
    """A write that failed, in words; ``outdated`` where it was planned from what is no longer so."""

    text: str
    outdated: bool = False


async def write_all(
    writes: Sequence[Callable[[], Awaitable[Failure | None]]], *, at_once: int
) -> Failure | None:
    """Do the writes, several at once, and return the first failure.

    After a failure none is begun that has not been; those under way are finished, so that the outcome of each is
    known. Cancelling cancels those under way. What a write raises is raised, in a group where there are several.
    """
    if len(writes) == 1:  # the hot path: no task for a single write
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
        for number in range(min(at_once, len(writes))):
            group.create_task(work(), name=f"write-{number}")
    return failures[0] if failures else None
