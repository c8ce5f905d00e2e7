"""Large decisions in a thread, so that other requests are answered meanwhile."""

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
    """Return ``decision(*arguments)``; the decision on a large custom resource runs in a thread.

    Only their rules are free of state that other requests change. What the decision was based on may have changed when
    it returns: the storage refuses the write then. Raises 409 where the definition has changed meanwhile.
    """
    definition = target.definition
    if definition.types is None or size_bytes <= DECIDED_ON_LOOP_BYTES:
        return decision(*arguments, **named)
    decided = await asyncio.to_thread(decision, *arguments, **named)
    if backend.registry.get(definition.group, definition.version, definition.plural) is not definition:
        raise conflict(target.resource, target.name, "its definition has changed meanwhile, try again")
    return decided
