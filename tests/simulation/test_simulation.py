"""Whole clusters, each simulated from one seed: endpointd's replicas, the API servers, and all faults."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.simulation.cluster import simulate
from tests.simulation.script import make_script, with_events
from tests.simulation.seeds import run_seeds
from tests.simulation.shrink import shrink
from tests.simulation.sieve import run_sieve

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "50"))
ROOT = Path(__file__).parents[2]

_DIGESTS = """
from tests.simulation.cluster import simulate
from tests.simulation.script import make_script
for seed in (3, 7):
    print(simulate(make_script(seed)).digest)
"""


@pytest.mark.timeout(1800)
def test_every_invariant_holds_for_every_seed() -> None:
    """Run more: ``make simulate SEEDS=10000``."""
    failed = [result for result in run_seeds(range(SEEDS), os.cpu_count() or 1) if result.found]
    assert not failed, "\n".join(
        f"seed {one.seed}: {one.found}\n  python -m tests.simulation shrink {one.seed}" for one in failed
    )


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    traces = set()
    for hash_seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
            check=True,
            timeout=120,
        )
        traces.add(done.stdout)
    assert len(traces) == 1


def test_a_recorded_callback_order_replays_the_same_simulation() -> None:
    script = msgspec.structs.replace(make_script(7), disorder=1.0)
    first = simulate(script)
    assert first.choices
    assert simulate(script, first.choices).digest == first.digest


def test_scripts_are_deterministic_and_differ_by_seed() -> None:
    assert make_script(5) == make_script(5)
    assert len({make_script(seed).events for seed in range(20)}) == 20


def test_a_failure_is_shrunk_to_a_short_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that publishes nothing violates liveness; a service and its pod are enough to show it."""
    from endpointd.controllers.endpointslice import apply

    async def write_nothing(*arguments: object, **named: object) -> object:
        raise RuntimeError("planted")

    monkeypatch.setattr(apply.SliceApplier, "apply", write_nothing)
    script = make_script(7)
    script = with_events(script, [event for event in script.events if event.kind == "operation"][:30])
    violations = simulate(script).violations
    assert violations
    shrunk = shrink(script, violations[0].invariant, max_runs=60)
    assert 1 <= len(shrunk.script.events) <= 5
    assert "services" in shrunk.text()


def test_crashes_late_events_and_stale_reads_at_any_point_do_not_change_the_final_state() -> None:
    """Every ninth place; ``python -m tests.simulation.sieve`` disturbs the scenario at all of them."""
    table = run_sieve(step=9)
    assert len(table) == 4
    assert [line for _, wrong in table.values() for line in wrong] == []
