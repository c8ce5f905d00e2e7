"""A running reflector within a test."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.runtime.watch.things import Recorder, Thing, contents

from aiokube.api.meta import ObjectMeta
from aiokube.runtime.reflector import Reflector
from aiokube.runtime.reflector_settings import ReflectorSettings
from aiokube.runtime.store import Store
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock, settle

LIST_FIRST = ReflectorSettings(initial="list")


def new(name: str, value: str = "", namespace: str = "ns") -> Thing:
    return Thing(ObjectMeta(name=name, namespace=namespace), value)


def now() -> float:
    return asyncio.get_running_loop().time()


class Running:
    def __init__(self, source: FakeSource[Thing], settings: ReflectorSettings | None = None) -> None:
        self.source = source
        self.store: Store[Thing] = Store("things")
        self.recorder = Recorder(self.store)
        self.reflector = Reflector(
            source, self.store, clock=FakeClock(), rng=random.Random(7), settings=settings
        )

    def asked(self) -> list[str]:
        """Return the requests since the last call."""
        said = []
        for request in self.source.requests:
            version = request.resource_version or "newest"
            if request.kind == "watch":
                said.append(f"{'stream' if request.send_initial_events else 'watch'} {version}")
            else:
                said.append("page" if request.continue_token else f"list {version}")
        self.source.requests.clear()
        return said

    def assert_alike(self) -> None:
        """Assert that the store equals the source, and that the handlers' changes add up to it."""
        assert contents(self.store) == self.source.objects
        assert self.recorder.mirror == self.source.objects
        assert len(self.store) == len(self.source.objects)


@asynccontextmanager
async def running(
    source: FakeSource[Thing], settings: ReflectorSettings | None = None, *, settled: bool = True
) -> AsyncIterator[Running]:
    """Run a reflector on the source; it must still be running at the end."""
    it = Running(source, settings)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(it.reflector.run(), name="reflector")
        if settled:
            await settle()
        yield it
        assert not task.done(), "a reflector never ends on its own"
        task.cancel()
