"""A seeded workload of services, pods and nodes: the same seed gives the same workload on any machine.

The workload consists of values (:mod:`tests.differential.operations`); this module does not talk to a cluster.
"""

import random
from collections.abc import Sequence

from tests.differential.operations import Batch, Operation
from tests.differential.workload_external_edits import EXTERNAL_EDITS, STUCK_CASES
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
_EXTERNAL_EDIT_PROBABILITY = 0.7  # if no service is frozen
_STUCK_CASE_PROBABILITY = 0.15  # if objects are edited externally


def generate(seed: int, operations: int, options: WorkloadOptions | None = None) -> tuple[Batch, ...]:
    """Return at least ``operations`` operations (at most a few more), in batches.

    Equal arguments give equal values, and a longer workload starts like a shorter one. Every operation is valid if the
    previous ones have been applied and the API server is Kubernetes'.
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
    """Return a small initial cluster: three nodes, some services, some pods."""
    steps: list[Operation] = []
    for action, times in ((create_node, 3), (create_service, 4), (create_pod, 6)):
        for _ in range(times):
            steps += action(world)
    return tuple(steps)


def _batch(world: World) -> tuple[Operation, ...]:
    """Return the operations between two rests: first one kind of those that need rest, then ordinary changes."""
    options = world.options
    world.edited.clear()
    steps: list[Operation] = [*end_terminating_service(world)]
    if options.freezing and not steps and world.maybe(_FREEZING_PROBABILITY):
        if world.maybe(_HELD_PROBABILITY) and (steps := [*delete_held_service(world)]):
            return tuple(steps)
        steps += _choose(world, FREEZING)
    elif options.external_edits and world.maybe(_EXTERNAL_EDIT_PROBABILITY):
        for _ in range(world.chance.choice((1, 1, 2))):
            steps += _choose(world, EXTERNAL_EDITS)
        if options.stuck_cases and world.maybe(_STUCK_CASE_PROBABILITY):
            steps += _choose(world, STUCK_CASES)
    size = world.chance.randint(*options.batch_operations)
    while len(steps) < size:
        steps += _choose(world, (*SERVICE_ACTIONS, *POD_ACTIONS))
    return tuple(steps)


def _choose(world: World, actions: Sequence[Weighted]) -> Steps:
    """Run one of the actions; it may find nothing to do."""
    (_, action) = world.chance.choices(actions, weights=[weight for weight, _ in actions])[0]
    return action(world)
