"""Run large decisions in a thread, so that other requests are not blocked."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tinykube.server.errors import conflict
from tinykube.server.verbs.context import Backend, Target

_T = TypeVar("_T")
_P = ParamSpec("_P")

DECIDED_ON_LOOP_BYTES = 32 * 1024


async def decide(
    backend: Backend,
    target: Target,
    size_bytes: int,
    decision: Callable[_P, _T],
    *arguments: _P.args,
    **named: _P.kwargs,
) -> _T:
    """Return ``decision(*arguments)``; decisions on large custom resources run in a thread.

    Only their validation is free of state that other requests change. If the input has changed when the
    decision returns, the storage rejects the write. Raises 409 if the definition has changed.
    """
    definition = target.definition
    if definition.types is None or size_bytes <= DECIDED_ON_LOOP_BYTES:
        return decision(*arguments, **named)
    decided = await asyncio.to_thread(decision, *arguments, **named)
    if backend.registry.get(definition.group, definition.version, definition.plural) is not definition:
        raise conflict(target.resource, target.name, "the definition has changed, try again")
    return decided
