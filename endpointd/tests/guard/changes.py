"""The guarded changes: each can be made four times in a world, each time to another pod at the same cost."""

from collections.abc import Callable, Coroutine

import msgspec
from tests.guard.counting import Operations, count_bytes, count_calls, counted
from tests.guard.world import FIRST_NEW_POD, SPECIAL_NODE, ChainWorld, PodFacts

from aiokube.api.core import NODES

Change = Callable[[ChainWorld, int], Coroutine[None, None, None]]
"""Prepares the turn-th change of a world; only awaiting the result makes the change."""


def flip(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.changed(PodFacts(11 + turn, ready=False)))


def gone(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.changed(PodFacts(21 + turn), verb="DELETED"))


def new(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.changed(PodFacts(FIRST_NEW_POD + turn), verb="ADDED"))


def address(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.changed(PodFacts(31 + turn, generation=1)))


def zone(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.node_changed(SPECIAL_NODE, f"zone-{'bcde'[turn]}"), NODES)


def edit(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.edit_externally()


def irrelevant(world: ChainWorld, turn: int) -> Coroutine[None, None, None]:
    return world.tell(world.changed(PodFacts(41 + turn, annotation="2")))


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one change in one world."""

    operations: Operations
    writes: tuple[tuple[str, str], ...]
    """Verb and resource of each."""
    body_bytes: int
    """The bytes encoded for the writes."""
    calls: int
    planning_bytes: int
    """Peak memory until the first write, or the end if nothing is written."""
    memory_bytes: int
    """Peak memory of the whole change."""


async def cost_of(change: Change, world: ChainWorld) -> Cost:
    """Make a change four times; the first is a warm-up, the others measure one kind of cost each."""
    world.rest()
    await change(world, 0)
    world.rest()
    with counted() as operations:
        await change(world, 1)
        found = operations()
    bodies = list(world.writer.bodies)
    world.rest()
    calls = await count_calls(change(world, 2))
    world.rest()
    planning_bytes, memory_bytes = await count_bytes(change(world, 3), world.writer)
    return Cost(
        operations=found,
        writes=tuple((verb, plural) for verb, plural, _ in bodies),
        body_bytes=sum(len(body) for _, _, body in bodies),
        calls=calls,
        planning_bytes=planning_bytes,
        memory_bytes=memory_bytes,
    )
