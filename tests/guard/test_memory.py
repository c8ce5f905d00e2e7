"""What the program holds does not grow with what has happened, only with what there is: minutes of a busy cluster, compressed.

The hour with 1,000 pods is ``python -m benchmarks.memory --no-resident``; this is the short form of it.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from benchmarks.churn_life import Chapter, LifeSettings, live
from benchmarks.footprint import lengths_of
from benchmarks.memory import growth, render_hour

from endpointd.api.meta import ObjectKey
from endpointd.controllers.membership import Membership
from endpointd.runtime.store import Store

SHORT = LifeSettings(
    sizes=(30, 10, 5), chapter_minutes=(0.5, 2), roll_every_seconds=30, relist_every_seconds=30
)
MOST_BLOCKS_A_CHANGE = 0.5
"""Five times what an hour may leave: in so short a time most of it is what is told for the first time, or bounded."""
BOUNDED = {
    "Recent._values",  # what Events were told of lately: 4,096 at most
    "RepairPace._at",  # repairs of the last second before the last repair
    "WorkQueue._timers",  # what was called off is swept out when most of it was
    "endpointd.api.core:_shared_labels",  # each version of a workload leaves one set of labels behind, up to a bound
    "endpointd.api.core:_shared_values",
}
"""What may be longer later: each has a bound of its own, and none holds anything of a single change."""
MOST_OF_BOUNDED = 60


@pytest.fixture(autouse=True)
def _without_traces() -> Iterator[None]:
    logging.disable(logging.WARNING)  # pytest would keep what is logged
    yield
    logging.disable(logging.NOTSET)
    gc.unfreeze()  # the program freezes what it has cached


def grown(chapters: list[Chapter]) -> dict[str, tuple[int, int]]:
    """Return the containers that are longer in the last chapter than in the first."""
    first, last = chapters[0].held.lengths, chapters[-1].held.lengths
    return {
        name: (first.get(name, 0), length) for name, length in last.items() if length > first.get(name, 0)
    }


@pytest.mark.slow
def test_minutes_of_churn_leave_nothing_behind() -> None:
    chapters = live(SHORT)
    assert chapters[-1].changes - chapters[0].changes > 1_700
    assert chapters[-1].lists >= chapters[0].lists + 10
    longer = grown(chapters)
    assert longer.keys() <= BOUNDED, render_hour(chapters)
    assert all(now - before <= MOST_OF_BOUNDED for before, now in longer.values()), render_hour(chapters)
    assert growth(chapters) <= MOST_BLOCKS_A_CHANGE, render_hour(chapters)


def forget_no_member(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_take_from_node", lambda self, pod: None)


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
    [(forget_no_member, "Membership._on_node[]"), (remember_every_change, "")],
)
def test_a_leak_is_seen(
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
        assert growth(chapters) > MOST_BLOCKS_A_CHANGE


def test_lengths_are_found_along_attributes_slots_closures_and_methods() -> None:
    store: Store[Any] = Store("pods")
    membership = Membership(Store("services"), store)
    membership._on_node["node-1"] = {ObjectKey("shop", "a"), ObjectKey("shop", "b")}

    def closure() -> object:
        return membership

    for root in (membership, closure, membership.start, [membership], {"one": membership}):
        found = lengths_of([root])
        assert found["Membership._on_node"] == 1
        assert found["Membership._on_node[]"] == 2
        assert found["Store._namespaces"] == 0
