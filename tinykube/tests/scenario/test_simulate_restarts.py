"""Annotated Deployments are restarted periodically, one update after the other."""

import asyncio
from typing import Any

from tests.scenario.simulate_world import SimulatedWorld, simulated, workload

from aiokube.testing.virtual_time import run_virtual
from tinykube.simulate.annotations import RESTART, RESTART_EVERY
from tinykube.simulate.settings import SimulateSettings

QUICK = SimulateSettings(nodes=2, zones=("a", "b"), image_pull_seconds=1.0, stop_seconds=2.0, seed=3)


def deployment(every: str, **spec: Any) -> dict[str, Any]:
    document = workload("Deployment", replicas=4, **spec)
    document["metadata"]["annotations"] = {RESTART_EVERY: every}
    return document


def restarts(world: SimulatedWorld) -> str | None:
    (found,) = world.api.documents("deployments")
    template = found["spec"]["template"]["metadata"]
    number = (template.get("annotations") or {}).get(RESTART)
    return None if number is None else str(number)


def test_a_periodic_restart_rolls_out_once_per_period() -> None:
    async def scenario() -> None:
        async with simulated(QUICK) as world:
            world.api.make(deployment("60s"))
            await asyncio.sleep(50)
            assert restarts(world) is None
            before = {pod["metadata"]["name"] for pod in world.alive()}
            await asyncio.sleep(50)
            assert restarts(world) == "1"
            after = {pod["metadata"]["name"] for pod in world.alive()}
            assert (len(after), before & after) == (4, set())
            await asyncio.sleep(60)
            assert restarts(world) == "2"

    run_virtual(scenario())


def test_no_periodic_restart_starts_before_the_last_rollout_is_complete() -> None:
    async def scenario() -> None:
        async with simulated(QUICK) as world:
            slow = deployment("1s", minReadySeconds=30)
            world.api.make(slow)
            await asyncio.sleep(20)
            assert restarts(world) is None  # the first pods are not available yet
            await asyncio.sleep(600)
            assert 2 <= int(restarts(world) or 0) <= 10

    run_virtual(scenario())


def test_paused_deployments_and_invalid_periods_are_not_restarted() -> None:
    async def scenario() -> None:
        for document in (deployment("5s", paused=True), deployment("often")):
            async with simulated(QUICK) as world:
                world.api.make(document)
                await asyncio.sleep(60)
                assert restarts(world) is None

    run_virtual(scenario())
