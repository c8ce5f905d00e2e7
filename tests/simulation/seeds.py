"""Run many seeds in several processes."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import NamedTuple

from tests.simulation.cluster import simulate
from tests.simulation.script import make_script


class SeedResult(NamedTuple):
    """Result of one seed; ``found`` is its first violation, or ``""``."""

    seed: int
    found: str
    virtual_seconds: float
    cpu_seconds: float


def run_seed(seed: int) -> SeedResult:
    """Simulate one seed."""
    began = time.process_time()
    outcome = simulate(make_script(seed))
    found = str(outcome.violations[0]) if outcome.violations else ""
    return SeedResult(seed, found, outcome.virtual_seconds, time.process_time() - began)


def run_seeds(seeds: Sequence[int], jobs: int) -> Iterator[SeedResult]:
    """Simulate all seeds; yield results as they become available, in any order."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1_000) as pool:
        left = iter(seeds)
        pending = {pool.submit(run_seed, seed) for _, seed in zip(range(4 * jobs), left, strict=False)}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    seed = next(left, None)
                    if seed is not None:
                        pending.add(pool.submit(run_seed, seed))
                    yield future.result()
        finally:
            for future in pending:
                future.cancel()
