"""The dashboard queries existing metrics by existing labels."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "chart" / "files" / "dashboard.json").read_text())
DOCUMENTED = re.findall(
    r"^\| `(\w+)` \| (\w+) \|([^|]*)\|",
    "\n".join((DEPLOY.parent / "docs" / page).read_text() for page in ("metrics.md", "guide/shadow.md")),
    re.MULTILINE,
)
"""The documented metrics, which other tests compare with the program's."""
EVERYWHERE = {"job", "instance"}


def queries() -> Iterator[tuple[str, str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]


def metrics() -> dict[str, set[str]]:
    """Return the labels of every metric."""
    found: dict[str, set[str]] = {}
    for name, kind, labels in DOCUMENTED:
        known = set(re.findall(r"`(\w+)`", labels)) | EVERYWHERE
        if kind == "histogram":
            found |= {f"{name}_bucket": known | {"le"}, f"{name}_sum": known, f"{name}_count": known}
        else:
            found[name] = known
    for process in ("process_cpu_seconds_total", "process_resident_memory_bytes"):
        found[process] = set(EVERYWHERE)
    return found


@pytest.mark.parametrize(("title", "query", "legend"), list(queries()))
def test_every_query_uses_existing_metrics_and_labels(title: str, query: str, legend: str) -> None:
    known = metrics()
    asked = re.findall(r"(\w+)\{", query)
    assert asked
    labels = set(re.findall(r"(\w+)\s*=~?\s*\"", query))
    for group in re.findall(r"\bby \(([^)]*)\)", query):
        labels |= {label.strip() for label in group.split(",")}
    labels |= set(re.findall(r"\{\{(\w+)\}\}", legend))
    for name in asked:
        assert name in known, f"{title}: no such metric"
        assert labels <= known[name], f"{title}: {name} has no {labels - known[name]}"


def test_counters_are_queried_as_rates_and_gauges_are_not() -> None:
    kinds = {name: kind for name, kind, _ in DOCUMENTED} | {"process_cpu_seconds_total": "counter"}
    for title, query, _ in queries():
        (name,) = re.findall(r"(\w+)\{", query)
        is_rate = "rate(" in query or "increase(" in query
        assert is_rate == (kinds.get(name, "gauge") == "counter" or name.endswith("_bucket")), title


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_variable_queries_an_existing_metric() -> None:
    (job,) = (each for each in DASHBOARD["templating"]["list"] if each["name"] == "job")
    (name,) = re.findall(r"label_values\((\w+),", job["query"]["query"])
    assert name in metrics()


def test_the_manifest_contains_the_dashboard_of_the_chart() -> None:
    item: Any = yaml.safe_load((DEPLOY / "manifests" / "monitoring" / "dashboard.yaml").read_text())
    assert json.loads(item["data"]["endpointd.json"]) == DASHBOARD
