"""Custom resources match the real server: the same definitions and objects get the same responses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.cluster.custom_cases import DEFINITIONS, LIVES, OBJECTS, WIDGETS
from tests.cluster.kinds_driver import Answer, Case, Server, Step, create, read, readable
from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane

TOKEN = "a" * 32
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE = 200


class Pair:
    """Both servers, receiving the same requests."""

    def __init__(self, real: Server, ours: Server) -> None:
        self.real = real
        self.ours = ours

    async def run(self, area: str, cases: Sequence[Case]) -> list[tuple[str, str, Answer, Answer]]:
        differences = []
        for number, one in enumerate(cases):
            namespace = f"custom-{area}-{number}"
            for server in (self.real, self.ours):
                await server.make_namespace(namespace)
            for step in one.steps:
                theirs = await self._send(self.real, step, namespace)
                own = await self._send(self.ours, step, namespace)
                if theirs != own:
                    where = f"{step.method} {step.kind} {step.name} {step.subresource} {step.query}".strip()
                    differences.append((one.title, where, theirs, own))
        return differences

    async def _send(self, server: Server, step: Step, namespace: str) -> Answer:
        answer = await server.send(step, namespace)
        if step.kind == CRDS and step.method != "GET" and answer.code < 300 and "dryRun" not in step.query:
            name = step.name or step.body["metadata"]["name"]
            return await self._settled(server, name, namespace, gone=step.method == "DELETE")
        return answer

    async def _settled(self, server: Server, name: str, namespace: str, *, gone: bool) -> Answer:
        """Wait until a definition is in effect: the real server accepts names and serves them with a delay."""
        for _ in range(_PATIENCE):
            answer = await server.send(read(CRDS, name), namespace)
            if gone:
                if answer.code == 404:
                    return answer
            elif await self._serves(server, answer.body, namespace):
                # On the real server several controllers write the conditions in any order.
                answer.body["status"]["conditions"].sort(key=lambda one: one["type"])
                return answer
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} has not settled")

    async def _serves(self, server: Server, crd: Any, namespace: str) -> bool:
        spec, status = crd["spec"], crd["status"]
        conditions = {one["type"]: one["status"] for one in status["conditions"] or ()}
        if status["acceptedNames"] != spec["names"]:
            return conditions.get("NamesAccepted") == "False"
        if conditions.get("Established") != "True":
            return False
        if spec["group"].endswith(".k8s.io") and len(conditions) < 3:
            return False
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            answer = await server.send(read(path, "", ""), namespace)
            if (answer.code == 200) is not bool(version["served"]):
                return False
        return True


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: the kinds defined here would affect other tests."""
    with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture
async def pair(plane: ControlPlane) -> AsyncIterator[Pair]:
    trusting = ssl.create_default_context(cadata=plane.certificate_authority.decode())
    async with (
        ApiServer(ServerSettings(token=TOKEN), builtin_registry()) as embedded,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as real_session,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=embedded.authority.decode()))
        ) as our_session,
    ):
        yield Pair(
            Server(real_session, plane.url, plane.admin_token),
            Server(our_session, embedded.url, TOKEN),
        )


def test_there_are_at_least_sixty_steps() -> None:
    assert sum(len(one.steps) for cases in (DEFINITIONS, OBJECTS, LIVES) for one in cases) >= 60


@pytest.mark.timeout(120)
async def test_definitions_are_accepted_or_rejected_alike(pair: Pair) -> None:
    differences = await pair.run("definitions", DEFINITIONS)
    assert not differences, readable(differences)


@pytest.mark.timeout(120)
async def test_objects_are_accepted_or_rejected_alike(pair: Pair) -> None:
    await pair.run("widgets", [Case("widgets", (create(CRDS, WIDGETS),))])
    differences = await pair.run("objects", OBJECTS)
    assert not differences, readable(differences)


@pytest.mark.timeout(120)
async def test_definitions_have_the_same_lifecycle(pair: Pair) -> None:
    differences = await pair.run("lives", LIVES)
    assert not differences, readable(differences)
