"""Every broken set-up gets the correct answer in every view: unknown collections never count as empty."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.diagnose.verdicts import SETUPS, VIEWS, Answers, Setup, all_answers, worlds

from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.check import check
from endpointd.diagnose.snapshot import ClusterIndex

ROOT = Path(__file__).parents[4]

everything = functools.cache(all_answers)
seen = functools.cache(worlds)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_explain_and_check_give_the_right_answer(setup: Setup, view: str) -> None:
    found: Answers = everything()[setup.name, view]
    assert found == setup.answers(view)


def test_there_are_at_least_forty_broken_setups() -> None:
    assert len([setup for setup in SETUPS if setup.admin != Answers("ready")]) >= 40


def texts(world: ClusterIndex) -> list[str]:
    return [f"{finding.cause} {finding.fix}" for finding in check(world).findings]


@pytest.mark.parametrize("view", VIEWS)
def test_no_answer_advises_deleting_a_pod(view: str) -> None:
    for text in texts(seen()[view]):
        assert "delete pod" not in text
        assert "delete it" not in text


@pytest.mark.parametrize("view", ["view", "export"])
def test_without_nodes_a_diff_proposes_nothing_for_zones_hints_and_nodes(view: str) -> None:
    namespaces = {change.service.namespace for change in changes_of_all(seen()[view])}
    for name in ("all-well", "node-missing", "node-missing-published-anyway", "zone-wrong", "prefer-close"):
        assert name not in namespaces


def test_without_nodes_a_proposed_slice_keeps_the_published_zones() -> None:
    (change,) = (
        change
        for change in changes_of_all(seen()["view"])
        if change.service.namespace == "endpoint-stale" and change.kind == "EndpointSlice"
    )
    assert [endpoint.zone for endpoint in change.after.endpoints or ()] == ["zone-a"]  # type: ignore[union-attr]


def test_without_slices_a_diff_proposes_nothing() -> None:
    assert list(changes_of_all(seen()["get all"])) == []


def test_make_verdicts_prints_the_table() -> None:
    found = re.search(r"^verdicts:.*\n\t@(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    command = found[1].replace("$(BIN)/python", sys.executable)
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(": 0 wrong")
