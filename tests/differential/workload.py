"""A life of services, pods and nodes, made up from a seed: the same seed, the same life, on any machine.

What is made up are values (:mod:`tests.differential.operations`); nothing here talks to a cluster.
"""

import random
from collections.abc import Sequence

from tests.differential.operations import Batch, Operation
from tests.differential.workload_external_edits import MEDDLING, WEDGING
from tests.differential.workload_pods import POD_ACTIONS, create_node, create_pod
from tests.differential.workload_services import (
    FREEZING,
    SERVICE_ACTIONS,
    create_service,
    delete_held_service,
    end_terminating_service,
)
from tests.differential.workload_world import Steps, Weighted, WorkloadOptions, World

__all__ = ["WorkloadOptions", "generate"]

_FREEZING_PROBABILITY = 0.25
_HELD_PROBABILITY = 0.25
_MEDDLING_PROBABILITY = 0.7  # where nothing is frozen
_WEDGING_PROBABILITY = 0.15  # where something is meddled with


def generate(seed: int, operations: int, options: WorkloadOptions | None = None) -> tuple[Batch, ...]:
    """Return at least this many operations (at most a few more), in batches.

    Two calls with equal arguments return equal values, and a longer workload begins like a shorter one.
    Every operation is valid where the ones before it have been applied and the API server is Kubernetes'.
    """
    world = World(options or WorkloadOptions(), random.Random(seed))
    batches = [Batch(0, _beginning(world))]
    total = len(batches[0].operations)
    while total < operations:
        batch = Batch(len(batches), _batch(world))
        batches.append(batch)
        total += len(batch.operations)
    return tuple(batches)


def _beginning(world: World) -> tuple[Operation, ...]:
    """Return a small cluster to start from: three nodes, some services, some pods."""
    steps: list[Operation] = []
    for action, times in ((create_node, 3), (create_service, 4), (create_pod, 6)):
        for _ in range(times):
            steps += action(world)
    return tuple(steps)


def _batch(world: World) -> tuple[Operation, ...]:
    """Return what happens between two rests: first what is done at rest only, one sort of it, then life."""
    options = world.options
    world.meddled_with.clear()
    steps: list[Operation] = [*end_terminating_service(world)]
    if options.freezing and not steps and world.maybe(_FREEZING_PROBABILITY):
        if world.maybe(_HELD_PROBABILITY) and (steps := [*delete_held_service(world)]):
            return tuple(steps)
        steps += _choose(world, FREEZING)
    elif options.meddling and world.maybe(_MEDDLING_PROBABILITY):
        for _ in range(world.chance.choice((1, 1, 2))):
            steps += _choose(world, MEDDLING)
        if options.wedging and world.maybe(_WEDGING_PROBABILITY):
            steps += _choose(world, WEDGING)
    size = world.chance.randint(*options.batch_operations)
    while len(steps) < size:
        steps += _choose(world, (*SERVICE_ACTIONS, *POD_ACTIONS))
    return tuple(steps)


def _choose(world: World, actions: Sequence[Weighted]) -> Steps:
    """Let one of the actions happen; it may find nothing to do."""
    (_, action) = world.chance.choices(actions, weights=[weight for weight, _ in actions])[0]
    return action(world)
