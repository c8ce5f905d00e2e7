"""Server-side apply and managedFields match a real kube-apiserver: objects, field managers and errors."""

import os
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.apply_cases import CASES, in_its_namespace
from tests.cluster.apply_driver import Side, Write, both_sides, document, random_write, same
from tinykube.testing.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

SEED = int(os.environ.get("APPLY_SEED", "20261121"))
OBJECTS = int(os.environ.get("APPLY_OBJECTS", "6"))
WRITES = 12
KINDS = ("ConfigMap", "Service", "Deployment", "EndpointSlice", "Pod")


@pytest_asyncio.fixture
async def sides(control_plane: ControlPlane) -> AsyncIterator[tuple[Side, Side]]:
    async with both_sides(control_plane) as sides:
        yield sides


async def in_namespace(sides: tuple[Side, Side], name: str) -> str:
    await same(sides, Write("post", "Namespace", "", {"metadata": {"name": name}}, "t"), "")
    return name


@pytest.mark.parametrize("kind", KINDS)
async def test_random_writes_leave_the_same_object_and_managed_fields(
    sides: tuple[Side, Side], kind: str
) -> None:
    namespace = await in_namespace(sides, f"apply-{kind.lower()}-{SEED}")
    print(f"APPLY_SEED={SEED} APPLY_OBJECTS={OBJECTS}")
    done = 0
    for number in range(OBJECTS):
        rng = random.Random(f"{SEED} {kind} {number}")
        name = f"o{number}"
        how = rng.choice(["post", "apply", "apply", "put" if kind == "Service" else "post"])
        first = Write(
            how, kind, name, document(rng, kind, name, whole=True), rng.choice(["m1", "m2"]), words=False
        )
        code, _ = await same(sides, first, namespace)
        for _ in range(WRITES if code < 300 else 0):
            code, _ = await same(sides, random_write(rng, kind, name), namespace)
            done += code < 300
    assert done >= OBJECTS * 2, "most writes were rejected: nothing was compared"


async def test_selected_writes_get_the_same_responses(sides: tuple[Side, Side]) -> None:
    different = []
    for number, (title, writes) in enumerate(CASES.items()):
        namespace = await in_namespace(sides, f"apply-case-{number}")
        for write in writes:
            try:
                await same(sides, in_its_namespace(write, namespace), namespace)
            except AssertionError as error:
                different.append(f"{title}: {error}")
                break
    assert not different, "\n\n".join(different)
