"""Additions to :mod:`aiokube.testing.virtual_time`: a decorator, and access to the clock."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from aiokube.testing.virtual_time import run_virtual


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let pytest run an async test in virtual time, and assert that it leaves no task behind."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        run_virtual(test(**fixtures))

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Run everything that needs no time; unlike the kit's, this one does not move the clock at all."""
    for _ in range(20):
        await asyncio.sleep(0)
