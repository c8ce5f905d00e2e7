"""Unusual bodies: those of the table with a member removed, duplicated or replaced, on both servers."""

import copy
import json
import os
import random
import ssl
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.cluster.kinds_cases import AREAS
from tests.cluster.kinds_driver import Answer, Server, create, readable
from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane

TOKEN = "a" * 32
REQUESTS = int(os.environ.get("TINYKUBE_RANDOM_BODIES", "500"))
TEXTS = ["", "A b", "a.b", "x", "-", "None", "fd00::9", "a" * 70, "25%", "Always", "TCP", "a/b"]
NUMBERS = [0, -1, 1, 5, 80, 65_536, 100_000]
LONGEST = 6000
# Removed or defaulted values that the two servers print differently.
NOT_COMPARED = ('Unsupported value: {"Type":', "Invalid value: {}: `selector`")
# Explicit choices stay allocated on the real server, which other tests use, too.
CHOSEN = ("10.96.0.", "fd00:10:96:", "odePort")

Path = tuple[str | int, ...]


def bodies() -> list[tuple[str, dict[str, Any]]]:
    posts = [
        step
        for cases in AREAS.values()
        for one in cases
        for step in one.steps
        if step.method == "POST"
        and step.body
        and not step.subresource
        and not step.query
        and step.kind != "namespaces"
    ]
    texts = [(step.kind, json.dumps(step.body)) for step in posts]
    return [
        (kind, json.loads(text))
        for kind, text in texts
        if len(text) < LONGEST and not any(chosen in text for chosen in CHOSEN)
    ]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values outside the metadata."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if path or key != "metadata":
            yield (*path, key)
            yield from places(item, (*path, key))


def mutate(body: Any, rng: random.Random) -> None:
    """Replace one member of a body, in place, by another value of its type."""
    found = list(places(body))
    if not found:
        return
    *way, last = rng.choice(found)
    holder = body
    for key in way:
        holder = holder[key]
    value = holder[last]
    if rng.random() < 0.25:
        del holder[last]
    elif isinstance(value, bool):
        holder[last] = not value
    elif isinstance(value, int):
        holder[last] = rng.choice(NUMBERS)
    elif isinstance(value, str):
        holder[last] = rng.choice(TEXTS)
    elif isinstance(value, list):
        holder[last] = [*value, copy.deepcopy(rng.choice(value))] if value and rng.random() < 0.6 else []
    elif isinstance(value, dict):
        holder[last] = {} if rng.random() < 0.7 else None


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
async def test_both_servers_respond_alike_to_unusual_bodies(seed: int, control_plane: ControlPlane) -> None:
    rng = random.Random(seed)
    trusting = ssl.create_default_context(cadata=control_plane.certificate_authority.decode())
    differences: list[tuple[str, str, Answer, Answer]] = []
    namespace = f"kinds-random-{seed}"
    known = bodies()
    async with (
        ApiServer(ServerSettings(token=TOKEN), builtin_registry()) as embedded,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as real_session,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=embedded.authority.decode()))
        ) as our_session,
    ):
        real = Server(real_session, control_plane.url, control_plane.admin_token)
        ours = Server(our_session, embedded.url, TOKEN)
        for server in (real, ours):
            await server.make_namespace(namespace)
        for number in range(REQUESTS):
            kind, original = rng.choice(known)
            body = copy.deepcopy(original)
            for _ in range(rng.choice([1, 1, 2])):
                mutate(body, rng)
            body.setdefault("metadata", {})["name"] = f"r{seed}-{number}"
            step = create(kind, body)
            theirs, own = await real.send(step, namespace), await ours.send(step, namespace)
            if theirs != own and not any(text in str((theirs, own)) for text in NOT_COMPARED):
                differences.append((json.dumps(body), f"seed {seed}, {kind}", theirs, own))
    assert not differences, readable(differences)
