"""Compare the measurements of the two API servers with each other and with endpointd's goals."""

from typing import Literal

import msgspec

from benchmarks.embedded_servers import OURS, THEIRS, ServerName
from benchmarks.measurements import Environment, Metric
from benchmarks.summary import Spread, ratios
from benchmarks.table import aligned


class Finding(msgspec.Struct, frozen=True):
    """One scenario, run once on one server."""

    scenario: str
    server: ServerName
    run: int
    values: dict[str, float]


class EmbeddedReport(msgspec.Struct, frozen=True):
    """All measurements of one command."""

    started: str
    seconds: float
    environment: Environment
    options: dict[str, str]
    findings: tuple[Finding, ...]


class Goal(msgspec.Struct, frozen=True):
    """Goal of a figure: relative to kube-apiserver, or absolute."""

    bound: float
    is_least: bool = False
    of: Literal["theirs", "itself"] = "theirs"

    def __str__(self) -> str:
        sign = ">=" if self.is_least else "<="
        return f"{sign} {self.bound:.3g}x" if self.of == "theirs" else f"{sign} {self.bound:g}"

    def is_met(self, ours: Spread, ratio: Spread | None) -> bool | None:
        """Return whether the median meets the goal; None if the data is insufficient."""
        shown = ratio if self.of == "theirs" else ours
        if shown is None:
            return None
        return shown.median >= self.bound if self.is_least else shown.median <= self.bound


_WRITES = (
    Metric("per_second", "a second", "", 0),
    Metric("cpu_ms_per_write", "CPU a write", "ms", 2),
)
_FAN_OUT = (
    Metric("cpu_us_per_delivery", "CPU per delivered event", "us", 1),
    Metric("lag_ms", "from the last response to the last delivery", "ms", 1),
    Metric("resident_mib", "memory then", "MiB", 0),
)
_PODS = (
    Metric("seconds", "created and updated with a status", "s", 2),
    Metric("cpu_seconds", "CPU of that", "s", 2),
    Metric("resident_mib", "memory after", "MiB", 0),
    Metric("kib_per_pod", "memory a pod", "KiB", 1),
    Metric("list_seconds", "list of all", "s", 3),
    Metric("list_cpu_seconds", "CPU of a list", "s", 3),
    Metric("list_mib", "size of a list", "MiB", 1),
)

METRICS: dict[str, tuple[Metric, ...]] = {
    "idle": (
        Metric("start_seconds", "start to ready", "s", 2),
        Metric("resident_mib", "memory, idle", "MiB", 0),
        Metric("cpu_percent", "CPU, idle", "%", 2),
    ),
    "ConfigMaps, 1 client": _WRITES,
    "ConfigMaps, 32 clients": _WRITES,
    "latency of a watch": (Metric("p50_ms", "p50", "ms", 1), Metric("p99_ms", "p99", "ms", 1)),
    "200 events to 300 watchers": _FAN_OUT,
    "200 events to 1,000 watchers": _FAN_OUT,
    "3,000 pods": _PODS,
    "10,000 pods": _PODS,
}

_AT_MOST_THEIRS = Goal(1.0)
_AT_LEAST_THEIRS = Goal(1.0, is_least=True)
_A_THIRD = Goal(1 / 3)
GOALS: dict[tuple[str, str], Goal] = {
    ("idle", "start_seconds"): Goal(1.0, of="itself"),
    ("idle", "resident_mib"): Goal(100.0, of="itself"),
    ("ConfigMaps, 1 client", "per_second"): _AT_LEAST_THEIRS,
    ("ConfigMaps, 32 clients", "per_second"): _AT_LEAST_THEIRS,
    ("latency of a watch", "p50_ms"): _AT_MOST_THEIRS,
    ("latency of a watch", "p99_ms"): _AT_MOST_THEIRS,
    ("200 events to 300 watchers", "cpu_us_per_delivery"): Goal(10.0, of="itself"),
    ("200 events to 1,000 watchers", "cpu_us_per_delivery"): Goal(10.0, of="itself"),
    ("3,000 pods", "seconds"): _AT_MOST_THEIRS,
    ("3,000 pods", "resident_mib"): _A_THIRD,
    ("3,000 pods", "list_seconds"): _AT_MOST_THEIRS,
    ("3,000 pods", "list_cpu_seconds"): _AT_MOST_THEIRS,
    ("10,000 pods", "seconds"): _AT_MOST_THEIRS,
    ("10,000 pods", "resident_mib"): _A_THIRD,
    ("10,000 pods", "list_seconds"): _AT_MOST_THEIRS,
    ("10,000 pods", "list_cpu_seconds"): _AT_MOST_THEIRS,
}
_HEADER = ("", THEIRS, OURS, "ours/theirs", "goal", "")
_VERDICTS = {True: "met", False: "MISSED", None: ""}


def render(findings: tuple[Finding, ...]) -> str:
    """Return the table: a block per scenario, a line per metric; medians, with the range if runs differ."""
    lines: list[tuple[str, ...]] = [_HEADER]
    for scenario, metrics in METRICS.items():
        here = [one for one in findings if one.scenario == scenario]
        if here:
            lines += [("",) * len(_HEADER), (scenario, *[""] * (len(_HEADER) - 1))]
            lines += [_line(scenario, metric, here) for metric in metrics]
    return "\n".join(aligned(lines))


def _line(scenario: str, metric: Metric, findings: list[Finding]) -> tuple[str, ...]:
    theirs, ours = (
        [one.values[metric.key] for one in findings if one.server == server] for server in (THEIRS, OURS)
    )
    ratio = ratios(ours, theirs)
    goal = GOALS.get((scenario, metric.key))
    verdict = goal.is_met(Spread.of(ours), ratio) if goal is not None and ours else None
    return (
        f"  {metric.label}{f' ({metric.unit})' if metric.unit else ''}",
        _shown(theirs, metric.digits),
        _shown(ours, metric.digits),
        f"{ratio.median:.2f}x" if ratio is not None else "-",
        str(goal) if goal is not None else "",
        _VERDICTS[verdict],
    )


def _shown(samples: list[float], digits: int) -> str:
    if not samples:
        return "-"
    spread = Spread.of(samples)
    text = f"{spread.median:,.{digits}f}"
    if len(samples) == 1:
        return text
    return f"{text} [{spread.low:,.{digits}f}..{spread.high:,.{digits}f}]"
