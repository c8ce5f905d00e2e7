"""An informer that cannot sync blocks only the controllers that need it; late stops are reported."""

import asyncio
import logging
from collections.abc import Collection

import pytest
from tests.unit.runtime.work.test_manager import Cache, Plain, Story, Worker, run_for
from tests.unit.runtime.work.virtual import now, virtually

from aiokube.clock import SystemClock
from aiokube.runtime.manager import Manager


class Reader(Worker):
    """A controller that names its informers."""

    def __init__(self, name: str, story: Story, *informers: str) -> None:
        super().__init__(name, story)
        self.informers = informers

    @property
    def needed_informers(self) -> Collection[str]:
        return self.informers


def starts(story: Story) -> list[tuple[float, str]]:
    return [(at, words.removesuffix(" runs")) for at, words in story if words.endswith(" runs")]


@virtually
async def test_each_controller_starts_once_its_own_caches_are_synced() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[
            Cache("pods", story, ready_at=1.0),
            Cache("slices", story, ready_at=50.0),
            Cache("nodes", story, ready_at=3.0),
        ],
        controllers=[
            Reader("slice-controller", story, "pods", "slices"),
            Reader("endpoints-controller", story, "pods"),
            Reader("audit", story),
            Worker("of-everything", story),
        ],
    )
    await run_for(100.0, manager)
    assert starts(story)[3:] == [
        (0.0, "audit"),
        (1.0, "endpoints-controller"),
        (50.0, "slice-controller"),
        (50.0, "of-everything"),
    ]


@virtually
async def test_election_waits_for_all_caches_but_only_briefly_if_a_controller_could_start() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story, ready_at=4.0), Cache("slices", story, ready_at=1000.0)],
        gate=Cache("election", story),
        controllers=[
            Reader("slice-controller", story, "pods", "slices"),
            Reader("endpoints-controller", story, "pods"),
            Reader("audit", story),
        ],
    )
    seen = []

    async def look() -> None:
        await asyncio.sleep(100.0)
        seen.append(manager.statistics())

    async with asyncio.TaskGroup() as group:
        group.create_task(look(), name="look")
        await run_for(2000.0, manager)
    assert starts(story)[2:] == [
        (14.0, "election"),
        (14.0, "endpoints-controller"),
        (14.0, "audit"),
        (1000.0, "slice-controller"),
    ]
    assert [(each.phase, each.waiting_for) for each in seen] == [("starting", ("slices",))]


@virtually
async def test_leader_election_starts_immediately_when_the_last_cache_is_synced() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story, ready_at=4.0), Cache("slices", story, ready_at=6.0)],
        gate=Cache("election", story),
        controllers=[Reader("endpoints-controller", story, "pods")],
    )
    await run_for(20.0, manager)
    assert (6.0, "election") in starts(story)


@virtually
async def test_a_program_whose_controllers_cannot_start_does_not_run_for_election() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[Cache("pods", story, ready_at=1e9)],
        gate=Cache("election", story),
        controllers=[Reader("endpoints-controller", story, "pods"), Reader("audit", story)],
    )
    await run_for(5000.0, manager)
    assert starts(story) == [(0.0, "pods")]


def test_a_controller_that_needs_an_unknown_informer_is_rejected() -> None:
    with pytest.raises(ValueError, match="x needs nodes: no such informer"):
        Manager(clock=SystemClock(), controllers=[Reader("x", [], "nodes")])


class Stubborn(Plain):
    """A part that ignores its stop."""

    async def run(self) -> None:
        await self._wait_for_godot()

    async def _wait_for_godot(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def stop(self, grace_seconds: float) -> None:
        self.story.append((now(), "told"))


def test_a_part_that_does_not_stop_in_time_is_cancelled_and_its_location_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story: Story = []

    @virtually
    async def run() -> None:
        manager = Manager(clock=SystemClock(), controllers=[Stubborn("mule", story)], grace_seconds=3.0)
        await run_for(1.0, manager)
        assert now() == 9.0  # 1, the grace of 3, the margin of 5

    with caplog.at_level(logging.WARNING):
        run()
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "did not stop in time and was cancelled: part=mule grace_seconds=3 at=Stubborn._wait_for_godot (test_manager_needs"
    )
    assert record.exc_info is None


class CatchingUp(Cache):
    """A cache that lost its connection before the election, and catches up at a given time."""

    def __init__(self, name: str, story: Story, *, current_at: float) -> None:
        super().__init__(name, story, ready_at=1.0)
        self._current_at = current_at

    async def wait_current(self) -> None:
        await asyncio.sleep(max(0.0, self._current_at - now()))

    def why_not_ready(self) -> str:
        return "connection refused"


@virtually
async def test_controllers_wait_after_the_election_until_their_caches_are_current(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[
            CatchingUp("pods", story, current_at=0.0),
            CatchingUp("nodes", story, current_at=20.0),
        ],
        gate=Cache("election", story, ready_at=5.0),
        controllers=[
            Reader("slice-controller", story, "pods", "nodes"),
            Reader("endpoints-controller", story, "pods"),
        ],
    )
    await run_for(100.0, manager)
    assert starts(story)[2:] == [
        (1.0, "election"),
        (5.0, "endpoints-controller"),
        (20.0, "slice-controller"),
    ]
    assert "for=nodes" in caplog.text
    assert "it lost its watch and is relisting: connection refused" in caplog.text


@virtually
async def test_controllers_do_not_wait_for_current_caches_without_leader_election() -> None:
    story: Story = []
    manager = Manager(
        clock=SystemClock(),
        informers=[CatchingUp("pods", story, current_at=20.0)],
        controllers=[Reader("endpoints-controller", story, "pods")],
    )
    await run_for(100.0, manager)
    assert (1.0, "endpoints-controller") in starts(story)
