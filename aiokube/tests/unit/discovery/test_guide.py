"""The examples of the guide run."""

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.discovery.slices import endpoint, endpoint_slice
from tests.unit.discovery.world import World, service, virtually, web

import aiokube.discovery
from aiokube.discovery import EndpointSliceCache, EndpointView, Location, ServiceEndpoints, ServicePortName
from docs.guide.examples.consumer_balancer import Balancer
from docs.guide.examples.consumer_changes import lines
from docs.guide.examples.consumer_core import replay, usable

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/guide/consuming-endpoints.md").read_text()
PROGRAMS = [path.read_text() for path in (ROOT / "docs/guide/examples").glob("consumer_*.py")]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
NAME = ServicePortName("shop", "web", "http")


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0].strip() for block in BLOCKS])
def test_every_code_block_of_the_guide_is_part_of_a_tested_program(block: str) -> None:
    assert any(block.rstrip() in program for program in PROGRAMS)


def test_names_mentioned_in_the_guide_exist() -> None:
    for module, name in re.findall(r"`discovery\.(\w+)\.([A-Z]\w+)`", PAGE):
        assert f"class {name}" in (ROOT / "aiokube/src/aiokube/discovery" / f"{module}.py").read_text()
    for name in re.findall(r"`([A-Z]\w+)`", PAGE):
        assert hasattr(aiokube.discovery, name) or name in {"NotSyncedError", "Client", "None"}, name
    for name in re.findall(r"^\| `endpoints\.(\w+)", PAGE, flags=re.MULTILINE):
        assert hasattr(ServiceEndpoints, name)
    (listed,) = re.findall(r"An endpoint has (.*?), and its hints", PAGE, flags=re.DOTALL)
    for name in re.findall(r"`(\w+)`", listed):
        assert hasattr(EndpointView, name)


def test_every_export_exists_and_is_documented() -> None:
    for name in aiokube.discovery.__all__:
        assert getattr(aiokube.discovery, name).__doc__


def test_importing_the_selection_rules_does_not_import_a_client() -> None:
    """Users of only the rules do not import a client."""
    program = "import sys, aiokube.discovery; sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@asynccontextmanager
async def echo(word: bytes) -> AsyncIterator[int]:
    """Respond to each line with a fixed word; yields the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(word)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"who is it?\n")
    try:
        return await reader.read()
    except ConnectionResetError:
        return b"nobody"
    finally:
        writer.close()


async def test_the_balancer_connects_to_usable_and_responsive_endpoints() -> None:
    balancer = Balancer(random.Random(7))

    def use(*ports: int, ready: bool = True) -> None:
        views = tuple(EndpointView(ip="127.0.0.1", port=port, ready=ready) for port in ports)
        balancer.use(ServiceEndpoints(NAME, "IPv4", views))

    async with (
        asyncio.timeout(20.0),
        echo(b"one") as one,
        echo(b"two") as two,
        await asyncio.start_server(balancer.serve, "127.0.0.1", 0) as server,
    ):
        port = server.sockets[0].getsockname()[1]
        assert await ask(port) == b"nobody"
        use(one, two)
        assert {await ask(port) for _ in range(20)} == {b"one", b"two"}
        use(one, 1)  # port 1 is closed
        assert {await ask(port) for _ in range(5)} == {b"one"}
        use(two, ready=False)
        assert await ask(port) == b"nobody"


@virtually
async def test_the_printed_lines_show_changes_and_traffic_targets() -> None:
    world = World(service(), web("a", "10.0.0.1"))
    async with world.map() as services:
        changes = services.changes()
        assert list(lines(services, await anext(changes))) == [
            "+ ns1/svc1:http/TCP 10.0.0.1:80",
            "= ns1/svc1:http/TCP forward to 1, topology none",
        ]
        world.put(endpoint_slice("a", [endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2")]))
        assert list(lines(services, await anext(changes))) == [
            "+ ns1/svc1:http/TCP 10.0.0.2:80",
            "~ ns1/svc1:http/TCP 10.0.0.1:80 ready=False",
            "= ns1/svc1:http/TCP forward to 1, topology none",
        ]
        world.delete(web("a"))
        assert list(lines(services, await anext(changes)))[-1] == (
            "= ns1/svc1:http/TCP reject to 0, topology none"
        )


def test_the_core_works_without_a_cluster() -> None:
    first = endpoint_slice(
        "a",
        [endpoint("10.0.0.1", node="n1"), endpoint("10.0.0.2", node="n2")],
        service="web",
        namespace="shop",
    )
    second = endpoint_slice(
        "a", [endpoint("10.0.0.2", node="n2")], service="web", namespace="shop", version=2
    )
    assert usable([first], Location("n1")) == ["10.0.0.1:80"]
    told = [changes.ports[NAME] for changes in replay(EndpointSliceCache(), [first, second])]
    assert [(len(each.added), len(each.removed)) for each in told] == [(2, 0), (0, 1)]
