"""Handlers that map changed objects to keys."""

import pytest

from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectMeta
from aiokube.api.resource import WatchEvent
from aiokube.runtime.handlers import enqueue
from aiokube.runtime.store import Store
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import WorkQueue


def owned(owner: str | None, version: int) -> Endpoints:
    labels = {"owner": owner} if owner is not None else None
    return Endpoints(
        ObjectMeta(name="a", namespace="n", uid="u", resource_version=str(version), labels=labels)
    )


def owner_of(item: Endpoints) -> str | None:
    return (item.metadata.labels or {}).get("owner")


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        (None, "x", ["x"]),
        ("x", None, ["x"]),
        ("x", "x", ["x"]),
        ("x", "y", ["x", "y"]),
        ("x", "nobody", ["x"]),
        ("nobody", "y", ["y"]),
        (None, "nobody", []),
    ],
)
def test_both_the_old_and_the_new_owner_are_enqueued(
    old: str | None, new: str | None, keys: list[str]
) -> None:
    def item(owner: str | None, version: int) -> Endpoints | None:
        return None if owner is None else owned(None if owner == "nobody" else owner, version)

    queue: WorkQueue[str] = WorkQueue(clock=ManualClock())
    enqueue(queue, owner_of)(item(old, 1), item(new, 2))
    taken = []
    while (key := queue.get_nowait()) is not None:
        taken.append(key)
    assert taken == keys


def test_every_change_of_a_store_reaches_the_queue() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=ManualClock())
    store: Store[Endpoints] = Store("endpoints")
    store.subscribe(enqueue(queue, owner_of))
    store.replace([owned("x", 5)], "5")
    store.apply([WatchEvent("MODIFIED", owned("y", 6))])
    assert queue.get_nowait() == "x"
    assert queue.get_nowait() == "y"
