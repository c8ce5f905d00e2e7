"""After any history of writes and faults, once the source is quiet, the store equals the source."""

import asyncio
import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.runtime.watch.things import Recorder, Thing, contents

from aiokube.api.meta import ObjectKey, ObjectMeta, key_of, version_number
from aiokube.api.resource import Bookmark, WatchError
from aiokube.client.errors import (
    ConnectionFailedError,
    ResponseTruncatedError,
    UndecodableEventError,
    UnexpectedResponseError,
)
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.store import Store
from aiokube.runtime.watch_states import WatchRules
from aiokube.testing.api_errors import expired_error, failure_status, status_error, too_large_error
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, run_virtual

NAMES = ("a", "b", "c", "d")

ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: ConnectionFailedError("localhost:6443: connection refused"),
    lambda: ResponseTruncatedError("reset"),
    lambda: UnexpectedResponseError("not JSON"),
    lambda: expired_error(),
    lambda: too_large_error(2000, 1000),
    lambda: status_error(429, "TooManyRequests", "later", retry_after_seconds=5),
    lambda: status_error(500, "InternalError", "etcdserver: leader changed"),
    lambda: status_error(503, "ServiceUnavailable", "starting"),
    lambda: status_error(401, "Unauthorized", "who"),
    lambda: status_error(403, "Forbidden", "no"),
    lambda: status_error(410, "Odd", "gone"),
    lambda: status_error(422, "Invalid", "sendInitialEvents: Forbidden"),
)
IN_STREAM = (
    expired_error().status,
    failure_status(500, "InternalError", "storm"),
    failure_status(429, "TooManyRequests", "later", retry_after_seconds=3),
    failure_status(410, "Gone", "gone"),
)


class World:
    """A source, a reflector on it, and the steps of a test, each with a descriptive name."""

    def __init__(self, chance: random.Random, watch_list: bool, checks_version: bool) -> None:
        self.chance = chance
        self.source: FakeSource[Thing] = FakeSource()
        self.backup = self.source.backup()
        self.store: Store[Thing] = Store("things")
        self.recorder = Recorder(self.store)
        self.lost_history = False
        self.number = 0
        how = ReflectorSettings(
            initial="watch-list" if watch_list else "list",
            rules=WatchRules(page_size=2, checks_version=checks_version),
        )
        self.reflector = Reflector(self.source, self.store, clock=FakeClock(), rng=chance, settings=how)
        self.highest: dict[tuple[ObjectKey, str], int] = {}
        self.store.subscribe(self.check_order)

    def check_order(self, old: Thing | None, new: Thing | None) -> None:
        if new is not None and not self.lost_history:
            which = (key_of(new), new.metadata.uid)
            version = version_number(new.metadata.resource_version)
            highest = self.highest.get(which, 0)
            # A list that does not reflect our deletion yet may contain the object again, but no older version
            # of it.
            assert version > highest or (old is None and version == highest), "an object went back in time"
            self.highest[which] = version

    # ------------------------------------------------------------------------------------------------ steps

    def write(self) -> None:
        self.change(silently=False)

    def change(self, *, silently: bool) -> Thing | None:
        name = self.chance.choice(NAMES)
        key, self.number = ObjectKey("ns", name), self.number + 1
        item = Thing(ObjectMeta(name=name, namespace="ns"), str(self.number))
        if key not in self.source.objects:
            return self.source.create(item, silently=silently)
        if self.chance.random() < 0.4:
            self.source.delete(key, silently=silently)
            return None
        return self.source.modify(item, silently=silently)

    def own_write(self) -> None:
        before = self.source.objects
        written = self.change(silently=False)
        if written is not None:
            self.store.record_write(written)
        else:
            [gone] = before.keys() - self.source.objects.keys()
            self.store.record_delete(gone, before[gone].metadata.uid)

    def write_with_lost_event(self) -> None:
        """Lose an event and the history: only a relist can detect that."""
        self.source.release()  # otherwise the relist might return a state before it
        self.change(silently=True)
        self.source.compact()
        self.source.break_watches()

    def fail(self) -> None:
        count = self.chance.randint(1, 4)
        on = self.chance.choice(("list", "watch", "any"))
        self.source.fail_next(*[self.chance.choice(ERRORS)() for _ in range(count)], on=on)  # type: ignore[arg-type]

    def fail_in_stream(self) -> None:
        self.source.inject(WatchError(self.chance.choice(IN_STREAM)))

    def lie(self) -> None:
        self.source.inject(Bookmark("5"))

    def garble(self) -> None:
        """Corrupt an event; the server knows the real object."""
        self.source.release()
        written = self.change(silently=True)
        key = key_of(written) if written is not None and self.chance.random() < 0.7 else None
        self.source.inject(UndecodableEventError("things", "unexpected byte", key=key))
        self.source.compact()  # without an open watch it is not sent again either

    def fall_behind(self) -> None:
        self.source.hold()

    def back_up(self) -> None:
        self.backup = self.source.backup()

    def mangle(self) -> None:
        self.source.mangle = self.chance.choice(
            (None, lambda batch: [*batch, *batch], lambda batch: [*batch[:2], *batch])
        )

    def steps(self) -> list[Callable[[], None]]:
        source = self.source
        return [
            *[self.write] * 6,
            *[self.own_write] * 3,
            self.write_with_lost_event,
            self.fail,
            self.fail_in_stream,
            self.lie,
            self.garble,
            self.fall_behind,
            source.release,
            source.break_watches,
            source.end_watches,
            source.abandon_watches,
            source.compact,
            source.hang_next,
            self.mangle,
            self.back_up,
        ]

    async def restore(self) -> None:
        """Restore the database, and write nothing for an hour.

        If versions pass the newest seen one before a client notices, the loss is undetectable, which is why
        administrators bump revisions.
        """
        self.lost_history = True
        self.end_faults()
        self.source.restore(self.backup)
        await asyncio.sleep(3600)

    def end_faults(self) -> None:
        self.source.mangle = None
        self.source.release()


async def history(seed: int, watch_list: bool, restores: bool, length: int) -> None:
    world = World(random.Random(seed), watch_list, checks_version=seed % 2 == 1)
    steps = world.steps()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.reflector.run(), name="reflector")
        for step in range(length):
            if restores and step == length // 2:
                await world.restore()
            world.chance.choice(steps)()
            await asyncio.sleep(world.chance.choice((0, 0, 0.001, 1, 40)))
            assert world.recorder.mirror == contents(world.store)
            assert not task.done()
        world.end_faults()
        world.source.pass_versions(100)  # no server is quiet forever; a bookmark will report its version
        await asyncio.sleep(3600)
        assert contents(world.store) == world.source.objects
        assert world.recorder.mirror == world.source.objects
        assert world.reflector.statistics().phase == "watching"
        statistics = world.store.statistics()
        assert (statistics.handler_errors, statistics.pending_writes) == (0, 0)
        assert len(world.source.requests) < 40 * (length + 10), "no hot loop"
        task.cancel()


seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, watch_list=st.booleans(), length=st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_the_store_equals_the_source_once_the_source_is_quiet(
    seed: int, watch_list: bool, length: int
) -> None:
    run_virtual(history(seed, watch_list, restores=False, length=length), seed=seed)


@given(seed=seeds, watch_list=st.booleans(), length=st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_the_store_equals_the_source_after_the_source_lost_history(
    seed: int, watch_list: bool, length: int
) -> None:
    run_virtual(history(seed, watch_list, restores=True, length=length), seed=seed)
