"""Fixtures of the client's tests."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import trustme
from tests.unit.client.support import Server, running_server

from aiokube.testing.virtual_time import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
async def skip_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Make the event loop believe that these seconds have passed: its timers fire without a wait."""
    loop = asyncio.get_running_loop()
    real = loop.time
    skipped = 0.0

    def skip(seconds: float) -> None:
        nonlocal skipped
        skipped += seconds

    monkeypatch.setattr(loop, "time", lambda: real() + skipped)
    return skip
