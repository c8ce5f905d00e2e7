"""The storage under ``kill -9``: acknowledged writes survive, revisions grow, watchers resume without gaps or duplicates."""

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.scenario.storage_writers import RESOURCE

from aiokube.clock import SystemClock
from tinykube.server.storage.datadir import DATABASE_NAME
from tinykube.server.storage.model import Change
from tinykube.server.storage.store import ObjectStorage, open_storage

ROUNDS = 20
SCRIPT = Path(__file__).with_name("storage_writers.py")


class Ack(NamedTuple):
    revision: int
    type: str
    name: str
    number: int


def run_until_killed(data_dir: Path, acks_before_the_end: int) -> list[Ack]:
    """Run the writers until a number of acknowledgements; return everything printed before the process was dead."""
    process = subprocess.Popen([sys.executable, str(SCRIPT), str(data_dir)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(acks_before_the_end)]
        process.kill()
        lines += process.stdout.readlines()
    return [
        Ack(int(revision), kind, name, int(number))
        for revision, kind, name, number in (line.decode().split() for line in lines if line.endswith(b"\n"))
    ]


def copy_of(data_dir: Path, to: Path) -> Path:
    """Copy the files as the crash left them; the next writers open the originals."""
    to.mkdir(mode=0o700)
    for path in data_dir.glob(f"{DATABASE_NAME}*"):
        shutil.copy(path, to / path.name)
    return to


async def changes_after(storage: ObjectStorage, revision: int) -> list[Change]:
    subscription = storage.subscribe(RESOURCE, after_revision=revision)
    # Each round writes something, so the first batch does not block. A batch has at most about 256 KiB.
    changes = list(await subscription.next_batch())
    while subscription.has_more:
        changes += await subscription.next_batch()
    return changes


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_twenty_crashes_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    data_dir = tmp_path / "data"
    seen_revision = 1
    state: dict[str, Change] = {}  # the state of a watcher over all crashes
    for crash in range(ROUNDS):
        acks = run_until_killed(data_dir, rng.randrange(1, 400))
        storage = open_storage(
            copy_of(data_dir, tmp_path / f"copy-{crash}"), describe=lambda *_: {}, clock=SystemClock()
        )
        async with storage:
            assert storage.revision >= max(ack.revision for ack in acks)
            assert min(ack.revision for ack in acks) > seen_revision, "revisions went back"
            changes = await changes_after(storage, seen_revision)
            revisions = [change.revision for change in changes]
            assert revisions == sorted(set(revisions))
            by_revision = {change.revision: change for change in changes}
            for ack in acks:
                change = by_revision[ack.revision]
                assert (change.type, change.after.key.name) == (ack.type, ack.name)
                if change.type != "DELETED":
                    assert change.after.decode()["data"]["number"] == ack.number
            for change in changes:
                known = state.get(change.after.key.name)
                assert (change.before.revision if change.before else None) == (
                    known.revision if known is not None else None
                ), "a change between is missing"
                if change.type == "DELETED":
                    del state[change.after.key.name]
                else:
                    state[change.after.key.name] = change
            found = {stored.key.name: stored.encoded for stored in storage.snapshot(RESOURCE).after("", "")}
            assert found == {name: change.after.encoded for name, change in state.items()}
            seen_revision = revisions[-1]
        shutil.rmtree(tmp_path / f"copy-{crash}")


@pytest.mark.slow
async def test_a_crashed_server_leaves_no_lock_behind(tmp_path: Path) -> None:
    acks = run_until_killed(tmp_path / "data", 1)
    storage = open_storage(tmp_path / "data", describe=lambda *_: {}, clock=SystemClock())
    assert storage.revision >= acks[-1].revision
    await storage.aclose()
