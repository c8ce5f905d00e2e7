"""The embedded server's kinds match the real server's: the same bodies give the same objects and errors."""

import ssl
from collections.abc import Sequence

import aiohttp
import pytest

from tests.cluster.kinds_cases import AREAS
from tests.cluster.kinds_driver import Answer, Case, Server, readable
from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane

TOKEN = "a" * 32


def test_there_are_enough_cases_for_common_usage() -> None:
    assert sum(len(one.steps) for cases in AREAS.values() for one in cases) >= 300


@pytest.mark.timeout(120)
@pytest.mark.parametrize("area", sorted(AREAS))
async def test_both_servers_respond_alike(area: str, control_plane: ControlPlane) -> None:
    trusting = ssl.create_default_context(cadata=control_plane.certificate_authority.decode())
    connector = aiohttp.TCPConnector(ssl=trusting)
    async with (
        ApiServer(ServerSettings(token=TOKEN), builtin_registry()) as embedded,
        aiohttp.ClientSession(connector=connector) as real_session,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=embedded.authority.decode()))
        ) as our_session,
    ):
        real = Server(real_session, control_plane.url, control_plane.admin_token)
        ours = Server(our_session, embedded.url, TOKEN)
        differences = await _compare(real, ours, area, AREAS[area])
    assert not differences, readable(differences)


async def _compare(
    real: Server, ours: Server, area: str, cases: Sequence[Case]
) -> list[tuple[str, str, Answer, Answer]]:
    differences = []
    for number, one in enumerate(cases):
        namespace = f"kinds-{area}-{number}"
        for server in (real, ours):
            await server.make_namespace(namespace)
        for step in one.steps:
            theirs, own = await real.send(step, namespace), await ours.send(step, namespace)
            if theirs != own:
                where = f"{step.method} {step.kind} {step.name} {step.subresource}".strip()
                differences.append((one.title, where, theirs, own))
    return differences
