"""The audit repeats forever, uses little time, and survives errors."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.runtime.pacing import Steps
from aiokube.testing.virtual_time import FakeClock, VirtualTimeLoop, run_virtual
from endpointd.controllers.audit import AuditCounts, Auditor


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


class Part:
    """An audited component: each audit takes the given time and returns the given finding."""

    def __init__(self, *names: str, seconds: float = 0.0) -> None:
        self.names = list(names)
        self.seconds = seconds
        self.findings: dict[str, str | Exception] = {}
        self.audits: list[tuple[str, float]] = []

    def audited_keys(self) -> list[ObjectKey]:
        return [key(name) for name in self.names]

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        yield 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.audits.append((key.name, loop.time()))
        loop.jump(self.seconds)
        found = self.findings.get(key.name)
        if isinstance(found, Exception):
            raise found
        return found


def audit_for(seconds: float, auditor: Auditor, *, meanwhile: Callable[[], None] | None = None) -> None:
    """Run the auditor for this long."""

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(auditor.run(), name="audit")
            await asyncio.sleep(seconds / 2)
            if meanwhile is not None:
                meanwhile()
            await asyncio.sleep(seconds / 2)
            task.cancel()

    virtual: Coroutine[Any, Any, None] = scenario()
    run_virtual(virtual)


def test_the_first_audit_round_waits_for_more_urgent_work() -> None:
    auditor = Auditor(clock=FakeClock(), first_round_after_seconds=60.0)
    part = Part("a")
    auditor.add("part", part)
    audit_for(59.0, auditor)
    assert part.audits == []


def test_every_key_of_every_component_is_audited_once_per_round() -> None:
    auditor = Auditor(clock=FakeClock(), min_pause_seconds=1.0, round_seconds=60.0)
    first, second = Part("a", "b"), Part("c")
    auditor.add("first", first)
    auditor.add("second", second)
    audit_for(100.0, auditor)
    assert first.audits == [("a", 0.0), ("b", 1.0), ("a", 60.0), ("b", 61.0)]
    assert second.audits == [("c", 2.0), ("c", 62.0)]
    statistics = auditor.statistics()
    assert (statistics.rounds, statistics.last_round_seconds) == (2, 3.0)
    assert statistics.parts == {"first": AuditCounts(4), "second": AuditCounts(2)}
    assert statistics.last_mismatch == ""


def test_audits_take_a_hundredth_of_the_time_regardless_of_their_duration() -> None:
    auditor = Auditor(clock=FakeClock(), share=0.01, min_pause_seconds=0.1)
    part = Part("a", "b", "c", seconds=0.5)
    auditor.add("part", part)
    audit_for(1000.0, auditor)
    assert [at for _, at in part.audits[:4]] == [0.0, 50.0, 100.0, 150.1]
    assert auditor.statistics().worked_seconds <= 0.011 * 1000


def test_an_empty_audit_polls_slowly() -> None:
    auditor = Auditor(clock=FakeClock(), round_seconds=60.0)
    part = Part()
    auditor.add("part", part)
    audit_for(100.0, auditor, meanwhile=lambda: part.names.append("late"))
    assert part.audits == [("late", 60.0)]


def test_a_mismatch_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    auditor = Auditor(clock=FakeClock())
    part = Part("a", "b")
    part.findings["b"] = "the members"
    auditor.add("part", part)
    audit_for(50.0, auditor)
    assert auditor.statistics().parts["part"] == AuditCounts(audits=2, mismatches=1)
    assert auditor.statistics().last_mismatch == "part default/b: the members"
    assert [record.getMessage() for record in caplog.records] == [
        "audit mismatch repaired: component=part key=default/b finding=the members"
    ]


def test_a_failing_audit_ends_neither_the_round_nor_the_auditor(caplog: pytest.LogCaptureFixture) -> None:
    auditor = Auditor(clock=FakeClock())
    part = Part("a", "b")
    part.findings["a"] = ZeroDivisionError("mistake")
    auditor.add("part", part)
    audit_for(100.0, auditor)
    assert [name for name, _ in part.audits] == ["a", "b", "a", "b"]
    assert auditor.statistics().parts["part"] == AuditCounts(audits=4, errors=2)
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert "audit failed: component=part key=default/a" in caplog.text


def test_a_component_that_cannot_list_its_keys_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Part):
        def audited_keys(self) -> list[ObjectKey]:
            raise KeyError("mistake")

    auditor = Auditor(clock=FakeClock())
    sound = Part("a")
    auditor.add("broken", Broken())
    auditor.add("sound", sound)
    audit_for(50.0, auditor)
    assert len(sound.audits) == 1
    assert auditor.statistics().parts["broken"] == AuditCounts(errors=1)
    assert "cannot list the keys to audit" in caplog.text


def test_component_names_are_unique_and_the_time_share_is_at_most_one() -> None:
    auditor = Auditor(clock=FakeClock())
    auditor.add("part", Part())
    with pytest.raises(ValueError, match="already has a component 'part'"):
        auditor.add("part", Part())
    for share in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            Auditor(clock=FakeClock(), share=share)
