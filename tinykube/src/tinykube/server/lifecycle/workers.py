"""Workers of the lifecycle loops: they reconcile due keys and retry failed keys with backoff."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError

K = TypeVar("K", bound=Hashable)

_LOG = logging.getLogger(__name__)

# Writes of one iteration of the loop share a transaction, so reconciling many keys in parallel saves disk
# syncs.
_MAX_PARALLEL = 64
_BACKOFF = ExponentialBackoff(base_seconds=0.1, cap_seconds=60.0)


def lifecycle_queue(name: str, clock: Clock) -> WorkQueue[K]:
    """Return a queue whose failed keys are retried after 0.1 s, doubling up to 60 s."""
    return WorkQueue(name, clock=clock, limiter=RetryLimiter(_BACKOFF))


async def run_workers(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]]) -> None:
    """Reconcile each key when it is due, at most 64 in parallel, until cancelled.

    A key whose reconcile raises StatusError is retried with backoff. Any other exception is a bug: it cancels all
    workers and is raised in an ExceptionGroup.
    """
    slots = asyncio.Semaphore(_MAX_PARALLEL)
    async with asyncio.TaskGroup() as group:
        while True:
            await slots.acquire()
            key = await queue.get()
            task = group.create_task(_attempt(queue, key, reconcile), name=f"lifecycle {queue.name} {key}")
            task.add_done_callback(lambda _: slots.release())


async def _attempt(queue: WorkQueue[K], key: K, reconcile: Callable[[K], Awaitable[None]]) -> None:
    try:
        await reconcile(key)
    except StatusError as error:
        delay_seconds = queue.add_rate_limited(key)
        _LOG.warning(
            "lifecycle step failed, retrying",
            extra={
                "loop": queue.name,
                "key": str(key),
                "error": str(error),
                "retry_seconds": delay_seconds,
            },
        )
    else:
        queue.forget(key)
    finally:
        queue.done(key)
