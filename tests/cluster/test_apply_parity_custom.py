"""Managed fields of custom resources and of scaled objects match a real kube-apiserver, write by write."""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.cluster.apply_driver import Side, Write, both_sides, document, random_write, same
from tests.cluster.custom_apply_driver import (
    CRDS,
    GROUP,
    Kind,
    changed_kind,
    first_write,
    random_kind,
    scale_write,
)
from tests.cluster.custom_apply_driver import random_write as random_custom_write
from tinykube.testing.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

SEED = int(os.environ.get("APPLY_SEED", "20261121"))
KINDS = int(os.environ.get("APPLY_KINDS", "6"))
OBJECTS = int(os.environ.get("APPLY_OBJECTS", "4"))
WRITES = 14
_PATIENCE = 200
_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
_SCALED = ("Deployment", "ReplicaSet", "StatefulSet")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: the kinds defined here would affect other tests."""
    with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture
async def sides(plane: ControlPlane) -> AsyncIterator[tuple[Side, Side]]:
    async with both_sides(plane) as sides:
        yield sides


async def in_force(side: Side, kind: Kind) -> None:
    """Wait until a definition is served in its current form, identified by its printer column."""
    for _ in range(_PATIENCE):
        tables = [await side.read(kind.path(version).format(ns="default"), _TABLE) for version in kind.specs]
        if all(f"G{kind.generation}" in json.dumps(table.get("columnDefinitions")) for table in tables):
            return
        await asyncio.sleep(0.03)
    raise AssertionError(f"{kind.plural} is not served")


async def defined(sides: tuple[Side, Side], kind: Kind) -> bool:
    """Write a definition to both; return False if both rejected it, True once it is in effect."""
    body, name = kind.definition(), f"{kind.plural}.{GROUP}"
    write = Write("post", CRDS, "", body, "t")
    if kind.generation > 1:
        write = Write("merge", CRDS, name, {"spec": body["spec"]}, "t")
    codes = [(await side.write(write, ""))[0] for side in sides]
    assert codes[0] == codes[1], f"{codes}: {body}"
    if codes[0] >= 300:
        return False
    for side in sides:
        await in_force(side, kind)
    return True


def told(codes: Counter[int]) -> str:
    taken = sum(count for code, count in codes.items() if code < 300)
    return f"{taken} writes compared, {codes.total() - taken} refusals alike {dict(codes)}"


@pytest.mark.timeout(180)
async def test_random_writes_to_custom_resources_leave_the_same_object_and_managed_fields(
    sides: tuple[Side, Side],
) -> None:
    codes: Counter[int] = Counter()
    print(f"APPLY_SEED={SEED} APPLY_KINDS={KINDS} APPLY_OBJECTS={OBJECTS}")
    for number in range(KINDS):
        kind = random_kind(random.Random(f"{SEED} {number}"), f"k{number}s", f"K{number}")
        if not await defined(sides, kind):
            continue
        lives: list[str] = []
        for each in range(OBJECTS):
            rng = random.Random(f"{SEED} {number} {each}")
            if each == OBJECTS // 2:  # from here on, lists and maps have other types
                other = changed_kind(rng, kind)
                kind = other if await defined(sides, other) else kind
                for name in lives:
                    for _ in range(WRITES // 2):
                        codes[
                            (
                                await same(
                                    sides, random_custom_write(rng, kind, name), "default", any_problem=True
                                )
                            )[0]
                        ] += 1
            name = f"o{each}"
            code, _ = await same(sides, first_write(rng, kind, name), "default", any_problem=True)
            codes[code] += 1
            for _ in range(WRITES if code < 300 else 0):
                codes[
                    (await same(sides, random_custom_write(rng, kind, name), "default", any_problem=True))[0]
                ] += 1
            lives += [name] if code < 300 else []
    print(told(codes))
    assert codes[200] >= KINDS * OBJECTS * 4, "most writes were rejected: nothing was compared"


@pytest.mark.parametrize("kind", _SCALED)
async def test_writes_through_scale_leave_the_same_managed_fields(
    sides: tuple[Side, Side], kind: str
) -> None:
    codes: Counter[int] = Counter()
    print(f"APPLY_SEED={SEED} APPLY_OBJECTS={OBJECTS}")
    for number in range(OBJECTS):
        rng, name = random.Random(f"{SEED} {kind} scale {number}"), f"s{number}"
        first = Write(rng.choice(["post", "apply"]), kind, name, workload(rng, kind, name), "m1", words=False)
        code, _ = await same(sides, first, "default")
        for _ in range(WRITES if code == 201 else 0):
            write = scale_write(rng, kind, name, rng.choice(["m1", "m2", "m3"]), force=rng.random() < 0.4)
            if rng.random() < 0.4:
                write = _other_write(rng, kind, name)
            codes[(await same(sides, write, "default"))[0]] += 1
            codes[(await same(sides, Write("get", kind, name), "default"))[0]] += 1
    print(told(codes))
    assert codes[200] > OBJECTS * 4, "most writes were rejected: nothing was compared"


def workload(rng: random.Random, kind: str, name: str) -> dict[str, Any]:
    body = document(rng, "Deployment", name, whole=True)
    body["kind"] = kind
    for member in () if kind == "Deployment" else ("paused", "strategy"):
        body["spec"].pop(member, None)
    return body


def _other_write(rng: random.Random, kind: str, name: str) -> Write:
    """Return a random write to the object itself, often to its replicas."""
    if kind == "Deployment" and rng.random() < 0.3:
        return random_write(rng, kind, name)
    manager, replicas = rng.choice(["m1", "m2", "m3"]), rng.choice([0, 1, 2])
    if rng.random() < 0.1:
        return Write("merge", kind, name, {"metadata": {"managedFields": [{}]}}, manager)
    body: dict[str, Any] = {"spec": {"replicas": replicas}}
    if rng.random() < 0.5:
        return Write("merge", kind, name, body, manager)
    body |= {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}}
    return Write("apply", kind, name, body, manager, rng.random() < 0.5)


_WRONG_SCALES: dict[str, Any] = {
    "another kind": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}},
    "an unknown field": {"spec": {"replicas": 1, "more": 2}},
    "a text": {"spec": {"replicas": "1"}},
    "a negative number": {"spec": {"replicas": -1}},
    "another name": {"metadata": {"name": "v"}, "spec": {"replicas": 1}},
    "another namespace": {"metadata": {"name": "w", "namespace": "elsewhere"}, "spec": {"replicas": 1}},
    "managed fields": {"metadata": {"name": "w", "managedFields": []}, "spec": {"replicas": 1}},
    "an old version": {"metadata": {"name": "w", "resourceVersion": "1"}, "spec": {"replicas": 1}},
    "no object": [1],
    "a status": {"spec": {"replicas": 2}, "status": {"replicas": 9}},
    "labels": {"metadata": {"name": "w", "labels": {"a": "b"}}, "spec": {"replicas": 2}},
}


async def test_invalid_applies_to_scale_are_rejected_alike(sides: tuple[Side, Side]) -> None:
    body = workload(random.Random(SEED), "Deployment", "w")
    body["spec"]["replicas"] = 2
    await same(sides, Write("post", "Deployment", "w", body, "m1", words=False), "default")
    different = []
    for title, wrong in _WRONG_SCALES.items():
        given = wrong
        if isinstance(wrong, dict):
            given = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, **wrong}
        for force in (False, True):
            write = Write("apply", "Deployment", "w", given, "m2", force, "scale")
            try:
                await same(sides, write, "default")
                await same(sides, Write("get", "Deployment", "w"), "default")
            except AssertionError as error:
                different.append(f"{title}: {error}")
    missing = msgspec.structs.replace(write, name="nobody", body={**given, "metadata": {"name": "nobody"}})
    await same(sides, missing, "default")
    assert not different, "\n\n".join(different)
