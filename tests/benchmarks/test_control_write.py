"""The slice written by the benchmark itself."""

import asyncio
import json
from itertools import pairwise

import pytest

from aiokube.testing.virtual_time import FakeClock
from benchmarks.control_write import ControlWrite, control_slice_body
from benchmarks.published import MAX_ENDPOINTS_PER_SLICE, OBSERVED_SLICES, Judge


class Server:
    """Takes a little longer for each write; records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes | None]] = []
        self.seconds = 0.010

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        timeout_seconds: float | None = None,
    ) -> bytes:
        self.asked.append((method, path, body))
        if method == "PUT":
            await asyncio.sleep(self.seconds)
            self.seconds += 0.010
        return b"{}"


async def test_the_control_slice_is_written_twice_a_second_and_deleted_after_the_scenario() -> None:
    server, clock = Server(), FakeClock()
    control_write = ControlWrite(server, clock)
    async with control_write.running():
        await clock.sleep(1.2)
    assert [method for method, _, _ in server.asked] == ["POST", "PUT", "PUT", "PUT", "DELETE"]
    values = {name: round(value, 6) for name, value in control_write.values().items()}
    assert values == {"own_slice_write_p50_ms": 20.0, "own_slice_write_p99_ms": 30.0}


async def test_every_write_changes_the_slice() -> None:
    server, clock = Server(), FakeClock()
    async with ControlWrite(server, clock).running():
        await clock.sleep(1.2)
    bodies = [body for method, _, body in server.asked if method in ("POST", "PUT")]
    assert all(before != after for before, after in pairwise(bodies))


async def fail_within(server: Server) -> None:
    async with ControlWrite(server, FakeClock()).running():
        raise RuntimeError("the scenario failed")


async def test_the_control_slice_is_deleted_if_the_scenario_fails() -> None:
    server = Server()
    with pytest.raises(ExceptionGroup):
        await fail_within(server)
    assert server.asked[-1][0] == "DELETE"


def test_no_latency_is_reported_without_a_write() -> None:
    assert ControlWrite(Server(), FakeClock()).values() == {}


def test_the_control_slice_is_as_large_as_a_full_one_and_belongs_to_no_service() -> None:
    document = json.loads(control_slice_body(ready=False))
    assert len(document["endpoints"]) == MAX_ENDPOINTS_PER_SLICE
    assert "labels" not in document["metadata"]
    assert [each["conditions"]["ready"] for each in document["endpoints"]].count(False) == 1
    addresses = {each["addresses"][0] for each in document["endpoints"]}
    assert len(addresses) == MAX_ENDPOINTS_PER_SLICE


def test_the_judge_ignores_the_control_slice() -> None:
    judge = Judge()
    assert list(judge.slice_event("ADDED", OBSERVED_SLICES.decode(control_slice_body(ready=True)))) == []
    assert (judge.slice_writes, judge.is_empty()) == (0, True)
