"""The simulated network and server: what each fault does to the real client."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokube.api.config import CONFIG_MAPS
from aiokube.api.core import PODS, SERVICES
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.client.errors import (
    ConflictError,
    ConnectionFailedError,
    NotFoundError,
    RequestTimedOutError,
    ResponseTruncatedError,
)
from aiokube.client.rest import Client
from aiokube.testing.simulated_loop import Schedule, SimulatedLoop, forbid_real_time
from aiokube.testing.virtual_time import FakeClock
from tinykube.testing.simulated_client import simulated_client
from tinykube.testing.simulated_network import Fault, Link
from tinykube.testing.simulated_server import LaggingApiServer, SimulatedApiServer

PATH = "/api/v1/namespaces/default/configmaps"


class Simulated:
    """A server, a link and a client."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.story: list[str] = []
        rng = random.Random(0)
        self.server = SimulatedApiServer(loop, rng, self.record)
        self.link = Link(loop, "client", [self.server], rng, self.record)
        self.server.links.append(self.link)
        self.client: Client = simulated_client(self.link, clock=FakeClock())

    def record(self, who: str, what: str) -> None:
        self.story.append(f"{who} {what}")

    async def create(self, name: str) -> None:
        await self.client.request("POST", PATH, body=b'{"metadata":{"name":"%b"}}' % name.encode())

    async def names(self) -> list[str]:
        page = await self.client.list_page(CONFIG_MAPS, namespace="default")
        return [item.metadata.name for item in page.items]


def simulate(test: Callable[[Simulated], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop(Schedule(disorder=0.0))

    async def main() -> None:
        simulated = Simulated(loop)
        simulated.server.start()
        await simulated.server.wait_ready()
        await test(simulated)

    try:
        with forbid_real_time():
            loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_lost_request_is_not_executed_and_one_with_a_lost_response_is() -> None:
    async def main(simulated: Simulated) -> None:
        for kind, name in (("lose-request", "a"), ("lose-answer", "b")):
            simulated.link.faults.append(Fault(kind, verb="create"))
            with pytest.raises(ConnectionFailedError):
                await simulated.create(name)
        assert await simulated.names() == ["b"]

    simulate(main)


def test_a_response_that_never_arrives_times_out() -> None:
    async def main(simulated: Simulated) -> None:
        simulated.link.faults.append(Fault("silence", verb="create"))
        began = simulated.loop.time()
        with pytest.raises(RequestTimedOutError):
            await simulated.create("a")
        assert simulated.loop.time() - began == pytest.approx(60, abs=0.1)
        assert await simulated.names() == ["a"]

    simulate(main)


def test_an_injected_status_has_no_effect_on_the_server_and_retry_after_is_honoured() -> None:
    async def main(simulated: Simulated) -> None:
        simulated.link.faults.append(Fault("status", verb="create", code=409))
        with pytest.raises(ConflictError):
            await simulated.create("a")
        simulated.link.faults.append(Fault("status", verb="create", code=429, retry_after_seconds=3))
        began = simulated.loop.time()
        await simulated.create("b")
        assert simulated.loop.time() - began == pytest.approx(3, abs=0.1)
        assert await simulated.names() == ["b"]

    simulate(main)


def test_a_cut_link_breaks_connections_after_fourteen_seconds() -> None:
    async def main(simulated: Simulated) -> None:
        page = await simulated.client.list_page(PODS)
        async with simulated.client.watch(PODS, resource_version=page.resource_version) as watch:
            simulated.link.cut()
            began = simulated.loop.time()
            with pytest.raises(ResponseTruncatedError):
                await anext(watch)
            assert simulated.loop.time() - began == pytest.approx(14, abs=0.1)
        simulated.link.restore()
        await simulated.create("a")

    simulate(main)


def test_a_short_cut_delays_requests_in_flight() -> None:
    async def main(simulated: Simulated) -> None:
        await simulated.names()
        simulated.link.cut()
        simulated.link.call_later(5, simulated.link.restore)
        await simulated.create("a")
        assert simulated.loop.time() > 5

    simulate(main)


def test_a_killed_server_loses_only_unsynced_writes() -> None:
    async def main(simulated: Simulated) -> None:
        await simulated.create("kept")
        sending = asyncio.ensure_future(simulated.create("lost"))  # noqa: TID251
        while not simulated.server._log._in_flight:  # type: ignore[union-attr]  # noqa: ASYNC110
            await asyncio.sleep(1e-5)
        simulated.server.kill()
        with pytest.raises(ConnectionFailedError):
            await sending
        with pytest.raises(ConnectionFailedError):
            await simulated.names()
        simulated.server.start()
        await simulated.server.wait_ready()
        assert await simulated.names() == ["kept"]

    simulate(main)


def test_a_server_killed_after_a_sync_has_stored_an_unconfirmed_write() -> None:
    async def main(simulated: Simulated) -> None:
        sending = asyncio.ensure_future(simulated.create("synced"))  # noqa: TID251
        while simulated.server._log is None or not simulated.server._log._in_flight:  # noqa: ASYNC110
            await asyncio.sleep(1e-5)
        simulated.server.kill(after_sync=True)
        with pytest.raises(ConnectionFailedError):
            await sending
        simulated.server.start()
        await simulated.server.wait_ready()
        assert await simulated.names() == ["synced"]

    simulate(main)


def test_a_lagging_server_serves_stale_watches_and_current_reads() -> None:
    async def main(simulated: Simulated) -> None:
        twin = LaggingApiServer(simulated.server, random.Random(0), simulated.record, lag_seconds=0.0)
        simulated.server.kill()
        simulated.server.start()
        await simulated.server.wait_ready()
        simulated.link._frontends[:] = [twin]
        client = simulated_client(simulated.link, clock=FakeClock())
        twin.freeze(frozen=True)
        await client.request("POST", PATH, body=b'{"metadata":{"name":"a"}}')
        assert [item.metadata.name for item in (await client.list_page(CONFIG_MAPS)).items] == ["a"]
        old = await client.list_page(CONFIG_MAPS, resource_version="0")
        assert not old.items
        async with client.watch(CONFIG_MAPS, resource_version=old.resource_version) as watch:
            simulated.link.call_later(7, lambda: twin.freeze(frozen=False))
            batch = await anext(watch)
        assert simulated.loop.time() > 7
        assert [event.item.metadata.name for event in batch if isinstance(event, WatchEvent)] == ["a"]

    simulate(main)


@pytest.mark.parametrize("kind", ["end-watch", "expire-watch", "stall-watch"])
def test_a_watch_can_end_expire_or_stall(kind: str) -> None:
    async def main(simulated: Simulated) -> None:
        simulated.link.faults.append(Fault(kind, seconds=2.0))
        page = await simulated.client.list_page(CONFIG_MAPS)
        found: list[Any] = []
        try:
            async with (
                asyncio.timeout(30),
                simulated.client.watch(
                    CONFIG_MAPS, resource_version=page.resource_version, timeout_seconds=60
                ) as watch,
            ):
                simulated.link.call_later(
                    3, lambda: simulated.loop.create_task(simulated.create("late"), name="late")
                )
                async for batch in watch:
                    found += [event for event in batch if not isinstance(event, Bookmark)]
        except ResponseTruncatedError:
            found.append("broken")
        except TimeoutError:
            found.append("silent")
        expected = {"end-watch": "broken", "stall-watch": "silent"}
        if kind == "expire-watch":
            assert isinstance(found[0], WatchError)
            assert found[0].status.code == 410
        else:
            assert found == [expected[kind]]

    simulate(main)


def test_a_delete_with_a_lost_response_is_resent_on_a_reused_connection() -> None:
    """As aiohttp does: the error that the caller gets may hide its own success."""

    async def main(simulated: Simulated) -> None:
        await simulated.create("a")
        simulated.link.faults.append(Fault("lose-answer", verb="delete"))
        with pytest.raises(NotFoundError):
            await simulated.client.delete(CONFIG_MAPS, ObjectKey("default", "a"))
        assert await simulated.names() == []

    simulate(main)


def test_the_guard_is_called_before_a_request_is_sent() -> None:
    async def main(simulated: Simulated) -> None:
        def refuse() -> None:
            raise PermissionError("not the leader")

        client = simulated.client.guarded(refuse)
        with pytest.raises(PermissionError):
            await client.delete(SERVICES, ObjectKey("default", "a"))

    simulate(main)
