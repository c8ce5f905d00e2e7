"""Concurrent writes, and the remaining ones after a failure (S-71)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import ObjectKey
from aiokube.api.status import NAMESPACE_TERMINATING, Status, StatusCause, StatusDetails
from aiokube.client.errors import api_error, is_gone, is_namespace_terminating
from endpointd.controllers.writes import Failure, write_all


class Writes:
    """Writes that block until released, and record their start and end."""

    def __init__(self, *outcomes: Failure | Exception | None) -> None:
        self.started: list[int] = []
        self.ended: list[int] = []
        self.gates = [asyncio.Event() for _ in outcomes]
        self._outcomes = outcomes

    def all(self) -> list[Callable[[], Awaitable[Failure | None]]]:
        return [self._write(number) for number in range(len(self._outcomes))]

    def _write(self, number: int) -> Callable[[], Awaitable[Failure | None]]:
        async def write() -> Failure | None:
            self.started.append(number)
            await self.gates[number].wait()
            self.ended.append(number)
            outcome = self._outcomes[number]
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return write

    async def release(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()
            await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_concurrency_is_limited_and_all_writes_run() -> None:
    writes = Writes(None, None, None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(write_all(writes.all(), concurrency=2))
        await settle()
        assert writes.started == [0, 1]
        await writes.release(1)
        assert writes.started == [0, 1, 2]
        await writes.release(2, 0)
    assert task.result() is None
    assert writes.ended == [1, 2, 0]


async def test_after_a_failure_no_write_starts_and_those_in_flight_finish() -> None:
    """S-71: the first failure stops further writes; the outcome of each started write is known."""
    first, second = Failure("first"), Failure("second")
    writes = Writes(second, first, None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(write_all(writes.all(), concurrency=2))
        await settle()
        await writes.release(1)
        assert not task.done()
        await writes.release(0)
    assert task.result() is first
    assert writes.started == [0, 1]


async def test_nothing_to_write_is_no_failure() -> None:
    assert await write_all([], concurrency=3) is None


async def test_a_single_write_returns_its_own_failure() -> None:
    writes = Writes(Failure("no"))
    await writes.release(0)
    assert await write_all(writes.all(), concurrency=3) == Failure("no")


async def test_an_exception_of_a_write_is_raised() -> None:
    writes = Writes(ZeroDivisionError("mistake"), None)
    await writes.release(0, 1)
    with pytest.raises(ExceptionGroup) as caught:
        await write_all(writes.all(), concurrency=1)
    assert caught.group_contains(ZeroDivisionError, match="mistake")


@pytest.mark.parametrize(
    ("code", "cause", "expected"),
    [
        (403, NAMESPACE_TERMINATING, True),
        (403, "Other", False),
        (403, None, False),
        (404, NAMESPACE_TERMINATING, False),
    ],
)
def test_a_rejection_can_indicate_that_the_namespace_is_terminating(
    code: int, cause: str | None, expected: bool
) -> None:
    """S-72, E-22."""
    details = StatusDetails(causes=(StatusCause(reason=cause),)) if cause else None
    assert is_namespace_terminating(api_error(Status(code=code, details=details))) is expected


@pytest.mark.parametrize(
    ("code", "reason", "details", "expected"),
    [
        (404, "NotFound", StatusDetails(name="web"), True),
        (404, "NotFound", StatusDetails(name="web", kind="endpoints"), True),
        (404, "NotFound", StatusDetails(name="web", kind="namespaces"), False),
        (404, "NotFound", StatusDetails(name="other"), False),
        (404, "NotFound", StatusDetails(), False),
        (404, "NotFound", None, False),
        (404, None, StatusDetails(name="web"), False),
        (409, "Conflict", StatusDetails(name="web"), False),
    ],
)
def test_an_object_is_deleted_only_if_a_not_found_status_names_it(
    code: int, reason: str | None, details: StatusDetails | None, expected: bool
) -> None:
    error = api_error(Status(code=code, reason=reason, details=details))
    assert is_gone(error, ENDPOINTS, ObjectKey("default", "web")) is expected
    assert not is_gone(ValueError("x"), ENDPOINTS, ObjectKey("default", "web"))


def test_an_internal_error_does_not_indicate_a_terminating_namespace() -> None:
    assert not is_namespace_terminating(ValueError("x"))
