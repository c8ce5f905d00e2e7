"""Goals of endpointd, as ratios to kube-controller-manager's figures."""

from typing import Literal

import msgspec

from benchmarks.measurements import Row, Scenario
from benchmarks.sides import Variant


class Goal(msgspec.Struct, frozen=True):
    """An upper bound: a ratio to upstream's figure, or with ``of="itself"`` an absolute number."""

    at_most: float
    of: Literal["theirs", "itself"] = "theirs"

    def __str__(self) -> str:
        return f"<= {self.at_most:.3g}x" if self.of == "theirs" else f"<= {self.at_most:g}"


EVERY_SIZE = "*"
GOALS: dict[tuple[Scenario, str, str], Goal] = {
    ("cold", "1x1000", "seconds"): Goal(1.0),
    ("cold", "1x1000", "resident_mib"): Goal(1 / 2),
    ("cold", "1x1000", "peak_mib"): Goal(1 / 2),
    ("cold", "1x5000", "seconds"): Goal(1.0),
    ("cold", "1x5000", "resident_mib"): Goal(1 / 2),
    ("cold", "1x5000", "peak_mib"): Goal(1 / 2),
    ("cold", "1x20000", "seconds"): Goal(2 / 3),
    ("cold", "1x20000", "resident_mib"): Goal(1 / 4),
    ("cold", "1x20000", "peak_mib"): Goal(1 / 4),
    ("cold", "1000x5", "seconds"): Goal(1 / 2),
    ("flip", "1x100", "cpu_ms_per_change"): Goal(1 / 3),
    ("flip", "1x1000", "cpu_ms_per_change"): Goal(1 / 10),
    ("flip", "1x5000", "cpu_ms_per_change"): Goal(1 / 50),
    ("flip", "1x5000", "p50_ms"): Goal(1 / 5),
    ("flip", "1x5000", "p99_ms"): Goal(1 / 5),
    ("flip", "1x20000", "cpu_ms_per_change"): Goal(1 / 200),
    ("flip", "1x20000", "p50_ms"): Goal(1 / 20),
    ("flip", "1x20000", "p99_ms"): Goal(1 / 20),
    ("flip", "1000x5", "cpu_ms_per_change"): Goal(1 / 3),
    ("flip", EVERY_SIZE, "slice_writes_per_change"): Goal(1.0),
    ("steady", "1x1000", "p50_ms"): Goal(1 / 10),
    ("steady", "1x1000", "p99_ms"): Goal(1 / 10),
    ("steady", "1x5000", "p50_ms"): Goal(1 / 10),
    ("steady", "1x5000", "p99_ms"): Goal(1 / 10),
    ("steady", "1000x5", "p50_ms"): Goal(1 / 5),
    ("steady", "1000x5", "p99_ms"): Goal(1 / 5),
    ("churn", "1x1000", "p50_ms"): Goal(1 / 10),
    ("churn", "1x1000", "p99_ms"): Goal(1 / 10),
    ("churn", "1x5000", "p50_ms"): Goal(1 / 10),
    ("churn", "1x5000", "p99_ms"): Goal(1 / 10),
    ("churn", "1000x5", "p50_ms"): Goal(1 / 5),
    ("churn", "1000x5", "p99_ms"): Goal(1 / 5),
    ("growth", "1x100 to 1x5000", "cpu_ratio"): Goal(1.5, of="itself"),
    ("growth", "1x100 to 1x20000", "cpu_ratio"): Goal(1.5, of="itself"),
    ("growth", "10x2 to 10000x2", "cpu_ratio"): Goal(1.5, of="itself"),
}
_EVERY_VARIANT: frozenset[Scenario] = frozenset({"growth"})
_MAIN: Variant = "both"


def goal_of(row: Row) -> Goal | None:
    """Return the goal of a row, if any."""
    if row.variant != _MAIN and row.scenario not in _EVERY_VARIANT:
        return None
    of_any = GOALS.get((row.scenario, EVERY_SIZE, row.metric.key))
    return GOALS.get((row.scenario, row.size, row.metric.key), of_any)


def is_met(row: Row, goal: Goal) -> bool | None:
    """Return whether a row's median meets its goal; None if the data is insufficient."""
    shown = row.ratio if goal.of == "theirs" else row.ours
    return shown.median <= goal.at_most if shown is not None else None
