"""kubectl prints the same for custom resources on the embedded and the real server."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane, find_assets

pytestmark = pytest.mark.cluster

GROUP = "kubectl.example.com"
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.kubectl.example.com}
spec:
  group: kubectl.example.com
  scope: Namespaced
  names: {plural: gauges, kind: Gauge, shortNames: [gg]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A gauge measures.
        properties:
          spec:
            type: object
            description: The measured quantity.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How much it takes.}
              colour: {type: string, default: red, enum: [red, green]}
              replicas: {type: integer}
          status:
            type: object
            properties:
              replicas: {type: integer}
"""
GAUGE = """\
apiVersion: kubectl.example.com/v1
kind: Gauge
metadata: {name: one, labels: {a: b}}
spec: {size: SIZE, replicas: 2}
"""
_CHANCE = (
    (re.compile(r"(uid|UID): .*"), r"\1: X"),
    (re.compile(r"(resourceVersion|Resource Version): .*"), r"\1: X"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"(?m)\b\d+s$"), "AGE"),
    (re.compile(r"\b\d+s( +)(?=red|green)"), r"AGE\1"),
)


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self.home = home

    async def __call__(self, *arguments: str, document: str | None = None) -> str:
        """Return the exit code and output without random values."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(self._program), *arguments],
            input=document,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "HOME": str(self.home), "KUBECONFIG": str(self.home / "kubeconfig")},
        )
        text = f"{done.returncode}\n{done.stdout}{done.stderr}"
        for pattern, replacement in _CHANCE:
            text = pattern.sub(replacement, text)
        return text


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: the kinds defined here would affect other tests."""
    with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture
async def pair(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Kubectl, Kubectl]]:
    real, ours = tmp_path / "real", tmp_path / "ours"
    real.mkdir()
    ours.mkdir()
    (real / "kubeconfig").write_bytes(plane.kubeconfig_path.read_bytes())
    async with ApiServer(ServerSettings(shutdown_seconds=1.0), builtin_registry()) as server:
        server.write_kubeconfig(ours / "kubeconfig")
        program = find_assets() / "kubectl"
        yield Kubectl(program, real), Kubectl(program, ours)


def _outlined(explained: str) -> str:
    """Return the explanation of the kind's fields only: the descriptions of standard fields are worded differently here."""
    common = re.compile(r"  (apiVersion|kind|metadata)\t.*\n(    .*\n)*")
    return common.sub("", explained)


@pytest.mark.timeout(180)
async def test_everyday_commands_on_custom_resources_print_the_same(pair: tuple[Kubectl, Kubectl]) -> None:
    small, large = GAUGE.replace("SIZE", "3"), GAUGE.replace("SIZE", "4")
    steps: list[tuple[tuple[str, ...], str | None]] = [
        (("apply", "-f", "-"), DEFINITION),
        (("wait", "--for=condition=Established", "crd/gauges.kubectl.example.com", "--timeout=20s"), None),
        (("create", "-f", "-"), small),
        (("create", "-f", "-"), small),
        (("create", "-f", "-"), GAUGE.replace("SIZE", "0").replace("one", "two")),
        (("create", "-f", "-"), GAUGE.replace("SIZE", "3, weight: 5").replace("one", "two")),
        (("get", "gauges"), None),
        (("get", "gg", "-o", "wide"), None),
        (("get", "gauge/one", "-o", "jsonpath={.spec}"), None),
        (("get", "gauges", "-o", "name", "-l", "a=b"), None),
        (("explain", "gauge"), None),
        (("explain", "gauges.spec"), None),
        (("explain", "gauges.spec.size"), None),
        (("patch", "gauge", "one", "--type=merge", "-p", '{"spec":{"size":5}}'), None),
        (("patch", "gauge", "one", "--type=json", "-p", '[{"op":"remove","path":"/spec/size"}]'), None),
        (("patch", "gauge", "one", "-p", '{"spec":{"size":6}}'), None),
        (("scale", "gauge", "one", "--replicas=4"), None),
        (("apply", "-f", "-"), large),
        (("apply", "-f", "-"), large),
        (("apply", "--server-side", "--force-conflicts", "-f", "-"), large),
        (("annotate", "gauge", "one", "note=x"), None),
        (("describe", "gauge", "one"), None),
        (("get", "gauge", "one", "-o", "yaml"), None),
        (("api-resources", "--api-group", GROUP, "-o", "wide"), None),
        (("delete", "gauge", "one"), None),
        (("get", "gauges"), None),
        (("delete", "crd", "gauges.kubectl.example.com"), None),
    ]
    differences = []
    for arguments, document in steps:
        theirs, own = [await one(*arguments, document=document) for one in pair]
        if arguments[:1] == ("explain",):
            theirs, own = _outlined(theirs), _outlined(own)
        if theirs != own:
            differences.append(f"kubectl {' '.join(arguments)}\n--- real\n{theirs}\n--- ours\n{own}")
    assert not differences, "\n\n".join(differences)
