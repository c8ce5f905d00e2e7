"""Memory grows with the cluster, not with its history: minutes of a busy cluster, compressed.

The full hour with 1,000 pods is ``python -m benchmarks.memory --no-resident``; this is its short form.
"""

import gc
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiokube.api.meta import ObjectKey
from aiokube.runtime.store import Store
from aiokube.runtime.store_index import StoreIndex
from benchmarks.churn_life import SHORT, Chapter, LifeSettings, live
from benchmarks.footprint import lengths_of
from benchmarks.memory import Found, growth
from endpointd.controllers.membership import Membership

ROOT = Path(__file__).parents[3]
BOUNDED = {
    "FailureLog._windows",  # namespaces with failures, at most 4,096
    "Recent._values",  # recently emitted Events, at most 4,096
    "RepairThrottle._at",  # repairs of the second before the last repair
    "WorkQueue._timers",  # cancelled timers are swept when they are the majority
}
"""Containers that may be longer later: each has its own bound and holds nothing of a single change."""
MOST_OF_BOUNDED = 60


@pytest.fixture(autouse=True)
def _without_traces() -> Iterator[None]:
    logging.disable(logging.WARNING)  # pytest would keep log records
    yield
    logging.disable(logging.NOTSET)
    gc.unfreeze()  # the program freezes cached objects


def grown(chapters: list[Chapter]) -> dict[str, tuple[int, int]]:
    """Return the containers that are longer in the last chapter than in the first."""
    first, last = chapters[0].held.lengths, chapters[-1].held.lengths
    return {
        name: (first.get(name, 0), length) for name, length in last.items() if length > first.get(name, 0)
    }


@pytest.mark.slow
def test_minutes_of_churn_leak_no_memory(tmp_path: Path) -> None:
    """Runs in a separate process, because all of its allocated blocks are counted."""
    output = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks.memory", "--no-resident", "--short", "-o", str(output)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    chapters = msgspec.json.decode(output.read_bytes(), type=Found).hour
    assert chapters[-1].changes - chapters[0].changes > 1_700
    assert chapters[-1].lists >= chapters[0].lists + 10
    longer = grown(chapters)
    assert longer.keys() <= BOUNDED, child.stdout
    assert all(now - before <= MOST_OF_BOUNDED for before, now in longer.values()), child.stdout


def keep_index_entries(patch: pytest.MonkeyPatch) -> None:
    update = StoreIndex.update

    def keeping(self: StoreIndex[Any], changes: Any) -> None:
        update(self, [(None, new) for _, new in changes])

    patch.setattr(StoreIndex, "update", keeping)


def remember_every_change(patch: pytest.MonkeyPatch) -> None:
    apply = Store.apply
    remembered: dict[str, list[object]] = {}

    def keeping(self: Store[Any], batch: Any) -> None:
        batch = list(batch)
        remembered.setdefault(self.name, []).extend(batch)
        apply(self, batch)

    patch.setattr(Store, "apply", keeping)


@pytest.mark.parametrize(
    ("mistake", "where"),
    [(keep_index_entries, "StoreIndex._buckets[]"), (remember_every_change, "")],
)
def test_a_leak_is_detected(
    mistake: Callable[[pytest.MonkeyPatch], None], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    chapters = live(
        LifeSettings(
            sizes=(10, 5), chapter_minutes=(0.2, 0.7), roll_every_seconds=30, relist_every_seconds=30
        )
    )
    if where:
        assert where in grown(chapters)
    else:
        assert growth(chapters) > 10 * SHORT.most_blocks_a_change


def test_lengths_are_found_along_attributes_slots_closures_and_methods() -> None:
    store: Store[Any] = Store("pods")
    membership = Membership(Store("services"), store)
    membership._members[ObjectKey("shop", "web")] = {"a", "b"}

    def closure() -> object:
        return membership

    for root in (membership, closure, membership.start, [membership], {"one": membership}):
        found = lengths_of([root])
        assert found["Membership._members"] == 1
        assert found["Membership._members[]"] == 2
        assert found["Store._namespaces"] == 0
