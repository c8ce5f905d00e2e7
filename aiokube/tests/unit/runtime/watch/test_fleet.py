"""A fleet that loses its server: no stampede at the start, during and after the outage. In virtual time."""

import asyncio
import heapq
import random
from bisect import bisect_left

from tests.unit.runtime.watch.running import now

from aiokube.runtime.reachability import Reachability
from aiokube.testing.virtual_time import FakeClock

CLIENTS = 1000
SOURCES = 5
ANSWER_SECONDS = 0.02


class Server:
    """Refuses requests while it is down; then serves a limited rate, and refuses the rest (429)."""

    def __init__(self, capacity_per_second: float = float("inf")) -> None:
        self.away = True
        self.asked_at: list[float] = []
        self.refused = 0
        self._capacity = capacity_per_second
        self._answered_at: list[float] = []

    async def ask(self) -> bool:
        self.asked_at.append(now())
        await asyncio.sleep(ANSWER_SECONDS)
        if self.away:
            return False
        while self._answered_at and self._answered_at[0] <= now() - 1.0:
            heapq.heappop(self._answered_at)
        if len(self._answered_at) >= self._capacity:
            self.refused += 1
            return False
        heapq.heappush(self._answered_at, now())
        return True

    def max_requests_in(self, window_seconds: float, since: float, until: float) -> int:
        at = [moment for moment in sorted(self.asked_at) if since <= moment < until]
        return max(
            (bisect_left(at, moment + window_seconds) - index for index, moment in enumerate(at)), default=0
        )

    def count(self, since: float, until: float) -> int:
        return sum(since <= moment < until for moment in self.asked_at)


async def client(server: Server, number: int, followed_at: list[float]) -> None:
    """Break all watches at the same time, and wait for each of them to return."""
    reachability = Reachability(clock=FakeClock(), rng=random.Random(number))

    async def source(name: str) -> None:
        while True:
            await reachability.wait_turn(name, "refused")
            if await server.ask():
                reachability.answered(name)
                followed_at.append(now())
                return

    async with asyncio.TaskGroup() as group:
        for each in range(SOURCES):
            group.create_task(source(f"watch-{each}"), name=f"client-{number}-watch-{each}")


async def outage(server: Server, away_seconds: float) -> list[float]:
    followed_at: list[float] = []
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(client(server, number, followed_at), name=f"client-{number}")
        await asyncio.sleep(away_seconds)
        server.away = False
    return [moment - away_seconds for moment in sorted(followed_at)]


async def test_a_thousand_clients_spread_their_retries_and_all_recover_in_two_seconds() -> None:
    server = Server()
    away_seconds = 5.0
    seconds_back = await outage(server, away_seconds)
    assert len(seconds_back) == CLIENTS * SOURCES
    assert seconds_back[-1] < 1.5
    attempts = server.count(0.0, away_seconds)
    assert attempts < CLIENTS * 2 * away_seconds, "two per second and client, for any number of its watches"
    # 180 in a tenth of a second are the mean; 5,000 would be a stampede.
    assert server.max_requests_in(0.1, 0.0, away_seconds) < 300
    assert server.max_requests_in(0.1, away_seconds, away_seconds + 5) < 1250


async def test_all_of_a_thousand_clients_recover_with_a_server_of_limited_capacity() -> None:
    capacity = 500.0
    server = Server(capacity)
    seconds_back = await outage(server, 3.0)
    at_best = CLIENTS * SOURCES / capacity
    assert seconds_back[-1] < 2 * at_best
    assert server.max_requests_in(1.0, 3.0, 3.0 + at_best) < 3 * CLIENTS, (
        "refused requests are not repeated immediately"
    )
