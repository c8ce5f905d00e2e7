"""kubectl explain of custom resources, by both versions of OpenAPI, matches the real server."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.cluster.kubectl_driver import Case, Kubectl, Outcome, Step, kubectl_on_both, run_case
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.explain.example.com}
spec:
  group: explain.example.com
  scope: Namespaced
  names: {plural: gauges, kind: Gauge}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A gauge on the wall.
        required: [spec]
        properties:
          spec:
            type: object
            description: The displayed quantity.
            required: [size, unit]
            properties:
              size: {type: integer, description: How large it is., nullable: true, minimum: 1}
              unit: {type: string, enum: [a, b], description: The unit of the quantity., default: a}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, description: Anything.}
              port: {x-kubernetes-int-or-string: true, description: Where.}
              marks:
                type: array
                description: The printed symbols.
                items:
                  type: object
                  description: One mark.
                  properties: {at: {type: number}}
                  oneOf: [{required: [at]}, {required: [text]}]
              notes: {type: object, additionalProperties: {type: string, description: A note.}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
ASKED = (
    "gauges",
    "gauge.spec",
    "gauge.spec.size",
    "gauge.spec.marks",
    "gauge.spec.port",
    "gauges --recursive",
)
V2 = "--output=plaintext-openapiv2"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A separate control plane: this test defines a kind."""
    with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture
async def both(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Kubectl, Kubectl]]:
    """kubectl for the real and the embedded server."""
    with kubectl_on_both(control_plane, tmp_path, {"gauges.yaml": DEFINITION}) as both:
        yield both


def outlined(explained: Outcome) -> Outcome:
    """Return the explanation of the kind's fields only: the descriptions of standard fields are worded differently here."""
    common = re.compile(r"^ +(apiVersion|kind|metadata)\t.*\n(?:     ? ?.*\n|\n)*", re.MULTILINE)
    return replace(explained, out=common.sub(r"\1\n", explained.out))


async def published(kubectl: Kubectl) -> None:
    """Wait until the real server's documents include the new kind: it aggregates them with a delay."""
    async with asyncio.timeout(60):
        while (await kubectl(Step(f"explain gauges {V2}"), "default")).exit_code:
            pass


async def test_custom_resources_are_explained_by_their_definition(both: tuple[Kubectl, Kubectl]) -> None:
    defined = (
        Step("create -f gauges.yaml"),
        Step("wait --for=condition=Established crd/gauges.explain.example.com --timeout=20s"),
    )
    pairs = await run_case(Case("define", defined, namespace=False), *both)
    for kubectl in both:
        await published(kubectl)
    steps = tuple(Step(f"explain {asked} {how}") for asked in ASKED for how in ("", V2))
    explained = await run_case(Case("explain", steps, namespace=False), *both)
    assert {pair.step.line: outlined(pair.ours) for pair in explained} == {
        pair.step.line: outlined(pair.real) for pair in explained
    }
    assert (
        "How large it is."
        in next(pair for pair in explained if V2 in pair.step.line and ".size" in pair.step.line).ours.out
    )
    assert all(pair.ours == pair.real for pair in pairs)
