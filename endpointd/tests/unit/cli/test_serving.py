"""Metrics and health over real sockets: access control, and misbehaving clients."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from aiokube.clock import SystemClock
from aiokube.runtime.health import Checks
from aiokube.testing.virtual_time import ManualClock
from endpointd.cli.serving import Server
from endpointd.cli.serving_address import BindAddress, open_listener, parse_bind_address
from endpointd.cli.serving_answers import (
    Answer,
    Answers,
    HealthAnswers,
    RenderLimit,
    Request,
    parse_head,
    plain,
)
from endpointd.cli.serving_secrets import ServingFileError, ServingFiles, ServingSecrets
from tinykube.server.certificates.authority import CertificateAuthority

AUTHORITY = CertificateAuthority(clock=SystemClock())
TOKEN = "an-open-secret"


class Program:
    """A program with checks that a test can fail."""

    def __init__(self, files: ServingFiles | None = None) -> None:
        self.pods = ""
        self.secrets = ServingSecrets(files or ServingFiles())
        live, ready = Checks(), Checks()
        live.add("loop", lambda: "")
        ready.add("watch-pods", lambda: self.pods)
        ready.add("watch-nodes", lambda: "")
        self.answers = Answers(live=live, ready=ready, metrics=lambda: b"up 1\n", admits=self.secrets.admits)

    @asynccontextmanager
    async def served(self, *, connections: int = 32, seconds: float = 10.0) -> AsyncIterator[int]:
        listener = open_listener(BindAddress("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        server = Server(
            listener,
            self.answers.answer,
            secrets=self.secrets,
            clock=SystemClock(),
            connections=connections,
            connection_seconds=seconds,
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(server.run(), name="server")
            yield port
            task.cancel()
        assert listener.fileno() == -1


async def ask(
    port: int, target: str, *, method: str = "GET", token: str = "", tls: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Return status and body."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
    )
    header = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


async def test_health_and_metrics_respond_like_kube_controller_manager() -> None:
    program = Program()
    async with program.served() as port:
        assert await ask(port, "/livez") == (200, "ok\n")
        assert await ask(port, "/healthz") == (200, "ok\n")
        assert await ask(port, "/readyz") == (200, "ok\n")
        assert await ask(port, "/metrics") == (200, "up 1\n")
        assert await ask(port, "/readyz?verbose") == (
            200,
            "[+]watch-pods ok\n[+]watch-nodes ok\nreadyz check passed\n",
        )
        program.pods = "not complete: forbidden"
        assert await ask(port, "/livez") == (200, "ok\n")
        assert await ask(port, "/readyz") == (
            500,
            "[-]watch-pods failed: not complete: forbidden\n[+]watch-nodes ok\nreadyz check failed\n",
        )
        assert await ask(port, "/readyz/watch-nodes") == (200, "ok\n")
        assert await ask(port, "/readyz/watch-pods") == (500, "failed: not complete: forbidden\n")
        assert (await ask(port, "/readyz?exclude=watch-pods"))[0] == 200
        assert "no matches for xyzzy" in (await ask(port, "/readyz?verbose&exclude=xyzzy"))[1]


async def test_any_other_request_is_rejected() -> None:
    async with Program().served() as port:
        assert (await ask(port, "/"))[0] == 404
        assert (await ask(port, "/debug"))[0] == 404
        assert (await ask(port, "/readyz/xyzzy"))[0] == 404
        assert (await ask(port, "/metrics", method="POST"))[0] == 405
        assert await ask(port, "/metrics", method="HEAD") == (200, "")
        assert (await ask(port, "metrics"))[0] == 400
        assert (await ask(port, f"/{'x' * 9000}"))[0] == 431


async def test_without_the_token_health_is_served_without_reasons_and_metrics(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    program = Program(ServingFiles(token=str(tmp_path / "token")))
    program.pods = "not complete: forbidden"
    async with program.served() as port:
        for wrong in ("", "x", f"{TOKEN}x"):
            assert (await ask(port, "/metrics", token=wrong))[0] == 401
            status, text = await ask(port, "/readyz", token=wrong)
            assert (status, "forbidden" in text, "[-]watch-pods failed" in text) == (500, False, True)
            assert "forbidden" not in (await ask(port, "/readyz/watch-pods", token=wrong))[1]
        assert await ask(port, "/livez") == (200, "ok\n")
        assert await ask(port, "/metrics", token=TOKEN) == (200, "up 1\n")
        assert "forbidden" in (await ask(port, "/readyz", token=TOKEN))[1]


def write_pair(folder: Path, name: str) -> ServingFiles:
    pair = AUTHORITY.server([name])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.private_key)
    return ServingFiles(certificate=str(folder / "tls.crt"), private_key=str(folder / "tls.key"))


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.pem.decode())


async def test_a_replaced_certificate_is_used_and_a_broken_one_is_not(tmp_path: Path) -> None:
    program = Program(write_pair(tmp_path, "localhost"))
    async with program.served() as port:
        assert await ask(port, "/livez", tls=trusting()) == (200, "ok\n")
        (tmp_path / "tls.crt").write_bytes(AUTHORITY.server(["localhost"]).certificate)  # of another key
        with pytest.raises(ServingFileError, match="key values mismatch"):
            program.secrets.refresh()
        assert await ask(port, "/livez", tls=trusting()) == (200, "ok\n")
        write_pair(tmp_path, "elsewhere")
        assert program.secrets.refresh()
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'localhost'"):
            await ask(port, "/livez", tls=trusting())
        assert not program.secrets.refresh()


async def test_plain_http_gets_nothing_from_a_tls_port(tmp_path: Path) -> None:
    async with Program(write_pair(tmp_path, "localhost")).served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"up 1" not in await reader.read()
        writer.close()
        assert await ask(port, "/livez", tls=trusting()) == (200, "ok\n")


async def test_a_silent_client_is_disconnected_in_time() -> None:
    async with Program().served(seconds=0.05) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\n")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


class Heard(logging.Handler):
    """Sets an event when a line with these words is logged."""

    def __init__(self, words: str) -> None:
        super().__init__(logging.DEBUG)
        self.words = words
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.event.set()


async def test_a_client_that_does_not_read_is_disconnected_in_time() -> None:
    program = Program()
    body = b"x" * 20_000_000  # more than any socket takes in
    program.answers = Answers(live=Checks(), ready=Checks(), metrics=lambda: body, admits=lambda _: True)
    heard = Heard("connection ended early: error=TimeoutError")
    log = logging.getLogger("endpointd.cli.serving")
    log.addHandler(heard)
    log.setLevel(logging.DEBUG)
    try:
        async with program.served(seconds=0.1) as port:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                async with asyncio.timeout(10):
                    await heard.event.wait()
    finally:
        log.removeHandler(heard)
        log.setLevel(logging.NOTSET)


async def test_idle_clients_cannot_block_a_probe() -> None:
    async with Program().served(connections=4) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        async with asyncio.timeout(10):
            assert await ask(port, "/livez") == (200, "ok\n")
            for reader, _ in idle[:8]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        for _, writer in idle:
            writer.close()


async def test_bursts_of_connections_do_not_starve_a_concurrent_probe() -> None:
    """A full backlog was accepted without yielding, and the probe in it was dropped before it was served."""
    async with Program().served(connections=8) as port:
        bare = []
        async with asyncio.timeout(20):
            for _ in range(5):
                async with asyncio.TaskGroup() as group:
                    probe = group.create_task(ask(port, "/livez"), name="probe")
                    for _ in range(12):
                        connection = socket.create_connection(("127.0.0.1", port))
                        bare.append(connection)
                assert probe.result() == (200, "ok\n")
        for connection in bare:
            connection.close()


class Backlog:
    """A loop's sock_accept over sockets that connected long ago: it never suspends, as with a full backlog."""

    def __init__(self, waiting: list[socket.socket]) -> None:
        self.waiting = waiting

    async def accept(self, _listener: socket.socket) -> tuple[socket.socket, object]:
        if not self.waiting:
            await asyncio.get_running_loop().create_future()
        return self.waiting.pop(0), None


async def test_every_accepted_connection_gets_a_turn_before_the_next_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [socket.socketpair() for _ in range(200)]
    backlog = Backlog([server for _, server in pairs])
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", backlog.accept)
    backlog_at_answer: list[int] = []
    all_answered = asyncio.Event()

    def answer(_: Request) -> Answer:
        backlog_at_answer.append(len(backlog.waiting))
        if len(backlog_at_answer) == len(pairs[::20]):
            all_answered.set()
        return plain(200, "ok")

    listener = open_listener(BindAddress("127.0.0.1", 0))
    server = Server(listener, answer, clock=SystemClock(), connections=256)
    for client, _ in pairs[::20]:
        client.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(), name="server")
        await all_answered.wait()
        task.cancel()
    for client, server_side in pairs:
        client.close()
        server_side.close()
    # Each was answered while later ones were still waiting, a few loop turns after its own turn.
    for number, waiting in enumerate(backlog_at_answer):
        assert waiting >= len(pairs) - 20 * number - 20


async def test_health_on_its_own_listener_has_no_metrics_and_no_causes() -> None:
    ready = Checks()
    ready.add("watch-pods", lambda: "forbidden for user x")
    listener = open_listener(BindAddress("127.0.0.1", 0), "healthz")
    answers = HealthAnswers(live=Checks(), ready=ready)
    server = Server(listener, answers.answer, clock=SystemClock(), name="serving-healthz")
    port: int = listener.getsockname()[1]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(), name="server")
        assert await ask(port, "/livez") == (200, "ok\n")
        status, text = await ask(port, "/readyz?verbose")
        assert (status, "[-]watch-pods failed" in text, "forbidden" in text) == (500, True, False)
        assert (await ask(port, "/metrics"))[0] == 404
        task.cancel()


def test_a_flood_of_scrapes_renders_in_at_most_a_tenth_of_the_time() -> None:
    clock = ManualClock()
    rendered = []

    def render() -> bytes:
        rendered.append(clock.monotonic())
        clock.advance(0.05)
        return b"up %d\n" % len(rendered)

    limit = RenderLimit(render, clock)
    began = clock.monotonic()
    for _ in range(10_000):
        limit()
        clock.advance(0.001)
    assert len(rendered) * 0.05 <= 0.1 * (clock.monotonic() - began)
    clock.advance(1.0)
    count = len(rendered)
    assert limit() == b"up %d\n" % (count + 1)


@pytest.mark.parametrize(
    "path", ["//x/metrics", "//metrics", "/metrics/", "/metrics//", "/livez//", "//livez", "/livez/x/y"]
)
async def test_only_the_exact_path_is_answered(path: str) -> None:
    async with Program().served() as port:
        assert (await ask(port, path))[0] == 404


async def test_tls_1_2_without_authenticated_encryption_is_rejected(tmp_path: Path) -> None:
    async with Program(write_pair(tmp_path, "localhost")).served() as port:
        modern = trusting()
        modern.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await ask(port, "/livez", tls=modern) == (200, "ok\n")
        cbc = trusting()
        cbc.maximum_version = ssl.TLSVersion.TLSv1_2
        cbc.set_ciphers(
            "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:AES128-SHA:ECDHE-RSA-AES256-SHA384@SECLEVEL=0"
        )
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await ask(port, "/livez", tls=cbc)


@pytest.mark.parametrize(
    "head",
    [b"", b"GET\r\n\r\n", b"GET /x SPDY/3\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nx"],
)
def test_an_invalid_request_head_is_rejected(head: bytes) -> None:
    assert parse_head(head) is None


def test_a_check_that_raises_counts_as_failed() -> None:
    checks = Checks()

    def broken() -> str:
        raise ValueError("oh")

    checks.add("odd", broken)
    (result,) = checks.results()
    assert result.cause == "the check raised: ValueError: oh"


@pytest.mark.parametrize("text", ["0.0.0.0:8080", "192.0.2.7:8080", "[2001:db8::1]:8080", ":8080"])
def test_a_remote_address_needs_certificate_and_token_or_an_explicit_flag(text: str) -> None:
    with pytest.raises(ValueError, match=r"--tls-cert-file.*--metrics-token-file.*--metrics-allow-remote"):
        parse_bind_address(text, allow_remote=False)
    assert parse_bind_address(text, allow_remote=False, is_protected=True).port == 8080


def test_unusable_files_are_named_without_their_content(tmp_path: Path) -> None:
    files = write_pair(tmp_path, "localhost")
    with pytest.raises(ServingFileError, match=r"--tls-cert-file requires --tls-private-key-file"):
        ServingSecrets(ServingFiles(certificate=files.certificate))
    with pytest.raises(ServingFileError, match=r"cannot read .*nowhere: No such file"):
        ServingSecrets(ServingFiles(token=str(tmp_path / "nowhere")))
    (tmp_path / "tls.key").write_text("hush")
    with pytest.raises(ServingFileError) as told:
        ServingSecrets(files)
    assert "hush" not in str(told.value)
    (tmp_path / "token").write_text("two words")
    with pytest.raises(ServingFileError, match="must contain one token"):
        ServingSecrets(ServingFiles(token=str(tmp_path / "token")))
