"""Rendered output of the chart, read from files: testing it needs neither Helm nor a template interpreter.

``deploy/manifests`` is the chart with its defaults, ``golden/mine.yaml`` with :data:`OTHERWISE`. Both were rendered from the chart
whose digest is :data:`DIGEST`. After a change of the chart, render both again with ``helm template`` and update the digest; if
helm is installed, a test compares them.
"""

import hashlib
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "chart"
MANIFESTS = DEPLOY / "manifests"
GOLDEN = Path(__file__).parent / "golden"
DIGEST = "85519c9caa5405d7bd93b2fe8ed15921bedb7c6b45422c80dc34bba9fea1bfc1"
BOTH: dict[str, Any] = {"serviceMonitor": {"enabled": True}, "dashboard": {"enabled": True}}
OTHERWISE: dict[str, Any] = {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "mine"}],
    "replicas": 1,
    "config": {"maxEndpointsPerSlice": 50, "controllers": ["*", "-endpoints-controller"]},
    "serving": {"secretName": "endpointd-serving"},
    "priorityClassName": "",
    "tolerations": [],
    "podAnnotations": {"note": "1"},
    "networkPolicy": {"enabled": False},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("endpointd", "endpointd", BOTH),
    ("endpointd-shadow", "endpointd", {"shadow": True}),
    ("mine", "elsewhere", OTHERWISE),
]
"""Releases, with their namespace and values."""


def values() -> dict[str, Any]:
    """Return the chart's defaults."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return values with others on top, as Helm merges them."""
    result = dict(one)
    for name, value in other.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def documents(release: str) -> list[dict[str, Any]]:
    """Return the objects of a release, except the namespace."""
    if release == "mine":
        paths = [GOLDEN / "mine.yaml"]
    else:
        folders = ["shadow"] if release == "endpointd-shadow" else ["", "monitoring"]
        kustomizations = [MANIFESTS / folder / "kustomization.yaml" for folder in folders]
        paths = [
            path.parent / name
            for path in kustomizations
            for name in yaml.safe_load(path.read_text())["resources"]
        ]
    found = [item for path in paths for item in yaml.safe_load_all(path.read_text()) if item]
    return [item for item in found if item["kind"] != "Namespace"]


def digest() -> str:
    """Return a digest of the chart files that affect its output."""
    found = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return found.hexdigest()
