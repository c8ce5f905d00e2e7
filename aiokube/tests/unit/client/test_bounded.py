"""No peer can make the client hold more memory than an API server's responses need."""

import gzip
import sys
from pathlib import Path

import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of, json_response

from aiokube.api.core import PODS
from aiokube.api.meta import ObjectKey
from aiokube.client import bounded, liststream
from aiokube.client.errors import AnswerTooLargeError, ApiError, ClientError, CredentialError
from aiokube.client.exec_credentials import ExecCredentials, ExecPlugin
from aiokube.testing.virtual_time import ManualClock

KEY = ObjectKey("ns", "a")
MIB = 1024 * 1024


class Endless:
    """An endless response; ``sent_bytes`` counts the bytes that the peer read before it disconnected."""

    def __init__(self, status: int = 200, first: bytes = b"", more: bytes = b" " * 65_536) -> None:
        self.status = status
        self.first = first
        self.more = more
        self.sent_bytes = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=self.status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(self.first)
        while True:
            try:
                await response.write(self.more)
            except ConnectionResetError:
                return response
            self.sent_bytes += len(self.more)


async def test_an_endless_object_is_rejected_at_16_mib(server: Server, clock: ManualClock) -> None:
    endless = Endless(first=b'{"metadata":')
    server.script(endless)
    async with client_of(server, clock) as client:
        with pytest.raises(AnswerTooLargeError, match=r"GET .*/pods/a: the response is larger than 16 MiB"):
            await client.get(PODS, KEY)
    assert endless.sent_bytes < 40 * MIB


async def test_an_endless_error_response_is_reported_by_its_status_code(
    server: Server, clock: ManualClock
) -> None:
    endless = Endless(status=500, first=b'{"kind":"Status","message":"')
    server.script(endless)
    async with client_of(server, clock) as client:
        with pytest.raises(ApiError, match="HTTP 500") as caught:
            await client.get(PODS, KEY)
    assert caught.value.status.code == 500
    assert endless.sent_bytes < 20 * MIB


@pytest.mark.parametrize("head", [b'{"metadata":{},"items":[{"metadata":{"name":"', b'{"unknown":"'])
async def test_an_endless_list_item_is_rejected(
    server: Server, clock: ManualClock, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liststream, "MAX_OBJECT_BYTES", MIB)
    monkeypatch.setattr(liststream, "MAX_ANSWER_BYTES", 2 * MIB)
    endless = Endless(first=head)
    server.script(endless)
    async with client_of(server, clock) as client, client.list_stream(PODS) as items:
        with pytest.raises(AnswerTooLargeError, match="an item is larger than"):
            async for _ in items:
                pass
    assert endless.sent_bytes < 20 * MIB


async def test_a_gzip_bomb_is_rejected(server: Server, clock: ManualClock) -> None:
    body = gzip.compress(b'{"metadata":{},"items":[' + b" " * (100 * MIB), compresslevel=1)
    server.script(
        web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
    )
    async with client_of(server, clock) as client:
        with pytest.raises(ClientError):
            await client.get(PODS, KEY)


async def test_a_body_at_the_limit_is_read_and_one_byte_more_is_rejected(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokube.client.rest.MAX_OBJECT_BYTES", 100)
    text = '{"metadata":{"name":"a","namespace":"ns"}}'
    async with client_of(server, clock) as client:
        server.script(json_response(text.ljust(100)))
        assert (await client.get(PODS, KEY)).metadata.key == KEY
        server.script(json_response(text.ljust(101)))
        with pytest.raises(AnswerTooLargeError):
            await client.get(PODS, KEY)


async def credentials(script: str, clock: ManualClock) -> None:
    plugin = ExecPlugin("exec of user 'u'", sys.executable, ("-S", "-E", "-c", script))
    await ExecCredentials(plugin, clock=clock).current()


async def test_a_plugin_with_endless_output_is_killed(clock: ManualClock) -> None:
    script = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(CredentialError, match="it printed more than 1 MiB and was killed"):
        await credentials(script, clock)


async def test_endless_stderr_of_a_plugin_is_drained_and_its_tail_is_shown_without_secrets(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MAX_PLUGIN_BYTES", 1000)
    script = (
        "import sys\nfor _ in range(1000): sys.stderr.write('noise ' * 100 + '\\n')\n"
        "sys.stderr.write('no login: token=hush-hush-hush\\n'); sys.exit(3)"
    )
    with pytest.raises(CredentialError, match="failed with exit code 3") as caught:
        await credentials(script, clock)
    assert "no login: token=<redacted>" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_the_limits_match_the_documentation() -> None:
    page = (Path(__file__).parents[4] / "docs" / "security.md").read_text()
    for limit, text in (
        (bounded.MAX_ERROR_BYTES, "1 MiB"),
        (bounded.MAX_OBJECT_BYTES, "16 MiB"),
        (bounded.MAX_ANSWER_BYTES, "512 MiB"),
    ):
        assert f"{limit // MIB} MiB" == text
        assert text in page
