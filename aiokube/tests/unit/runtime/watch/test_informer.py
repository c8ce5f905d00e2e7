"""The informer."""

import asyncio
import random

import pytest
from tests.unit.runtime.watch.running import new
from tests.unit.runtime.watch.things import Recorder, Thing, key, version_of

from aiokube.runtime.informer import Informer, wait_all_synced
from aiokube.runtime.lister import Lister
from aiokube.runtime.reflector_settings import NotSyncedError
from aiokube.testing.api_errors import status_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle


def informer_of(source: FakeSource[Thing], name: str = "things") -> Informer[Thing]:
    return Informer(source, name=name, clock=FakeClock(), rng=random.Random(1))


async def test_an_informer_provides_a_lister_and_dispatches_to_handlers() -> None:
    source = FakeSource([new("a")])
    informer = informer_of(source)
    lister: Lister[Thing] = informer.lister
    recorder = Recorder()
    informer.add_handler(recorder)
    assert not informer.synced
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run(), name="informer things")
        await informer.wait_synced(timeout_seconds=5)
        assert version_of(lister.get(key("a"))) == "101"
        source.create(new("b"))
        await settle()
        assert recorder.take() == ["+a@101", "+b@102"]
        task.cancel()


async def test_a_late_handler_receives_the_stored_objects_and_misses_no_change() -> None:
    source = FakeSource([new("a")])
    informer = informer_of(source)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run(), name="informer things")
        await informer.wait_synced()
        late, later = Recorder(), Recorder()
        stop = informer.add_handler(late)
        assert late.take() == ["+a@101"]
        informer.add_handler(lambda old, new: later(old, new), replay=False)
        source.create(new("b"))
        await settle()
        assert late.take() == later.take() == ["+b@102"]
        stop()
        source.create(new("c"))
        await settle()
        assert late.take() == []
        task.cancel()


async def test_recorded_own_writes_are_readable_immediately() -> None:
    source = FakeSource([new("a")])
    informer = informer_of(source)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run(), name="informer things")
        await informer.wait_synced()
        source.hold()
        informer.store.record_write(source.modify(new("a", "mine")))
        assert version_of(informer.lister.get(key("a"))) == "102"
        source.release()
        await settle()
        assert informer.statistics().store.pending_writes == 0
        task.cancel()


async def test_informer_statistics_combine_store_and_reflector() -> None:
    informer = informer_of(FakeSource([new("a")]), "widgets")
    statistics = informer.statistics()
    assert (statistics.store.name, statistics.reflector.name, informer.name) == ("widgets",) * 3
    assert statistics.reflector.phase == "stopped"


async def test_waiting_for_several_informers_reports_each_unsynced_one_with_its_reason() -> None:
    forbidden = FakeSource([new("a")])
    forbidden.fail_next(*[status_error(403, "Forbidden", "you may not read secrets")] * 100)
    stuck: FakeSource[Thing] = FakeSource()
    stuck.hang_next(100)
    informers = [
        informer_of(FakeSource([new("a")]), "fine"),
        informer_of(forbidden, "secrets"),
        informer_of(stuck, "stuck"),
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run(), name=informer.name) for informer in informers]
        with pytest.raises(ExceptionGroup, match="secrets, stuck") as caught:
            await wait_all_synced(informers, timeout_seconds=10)
        [secrets, other] = caught.value.exceptions
        assert isinstance(secrets, NotSyncedError)
        assert "you may not read secrets" in str(secrets)
        assert "no error" in str(other)
        await wait_all_synced(informers[:1], timeout_seconds=1)
        for task in tasks:
            task.cancel()
