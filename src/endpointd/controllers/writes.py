"""What the server's answers to a controller's writes mean, and how several writes go out at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from endpointd.api.meta import KubernetesObject, ObjectKey
from endpointd.api.resource import Resource
from endpointd.api.status import NAMESPACE_TERMINATING
from endpointd.client.errors import ForbiddenError, NotFoundError

T = TypeVar("T", bound=KubernetesObject)


def is_namespace_terminating(error: Exception) -> bool:
    """Tell whether a create was refused because its namespace is going: nothing is owed to it any more (S-72, E-22)."""
    return isinstance(error, ForbiddenError) and error.status.has_cause(NAMESPACE_TERMINATING)


def is_gone(error: Exception, resource: Resource[Any], key: ObjectKey) -> bool:
    """Return whether the server says that this object does not exist.

    Only a Status with reason NotFound that names the object and its resource says so. Any other 404 proves
    nothing: a proxy, or an API server that is starting, answers 404 to requests for objects that exist.
    """
    if not isinstance(error, NotFoundError) or error.status.reason != "NotFound":
        return False
    details = error.status.details
    return details is not None and details.name == key.name and details.kind in (None, resource.plural)


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
