"""The comparison of the two servers: the client's parsing and requests, and the table's verdicts."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from benchmarks.embedded_client import Address, Answer, AnswerError, Connection, Watcher
from benchmarks.embedded_scenarios import configmap, padded, spread
from benchmarks.embedded_servers import OURS, THEIRS, read_address
from benchmarks.embedded_table import GOALS, METRICS, Finding, Goal, render
from benchmarks.objects import Workload
from benchmarks.sizes import Size
from benchmarks.summary import Spread

ADDRESS = Address("https://127.0.0.1:6443", b"", "a-secret-token")


class Wire(asyncio.Transport):
    """Collects sent bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)


def connected() -> tuple[Connection, Wire]:
    connection, wire = Connection(ADDRESS), Wire()
    connection.connection_made(wire)
    return connection, wire


async def answered(*pieces: bytes) -> Answer:
    """Return the client's result for an answer that arrives in these pieces."""
    connection, _ = connected()
    async with asyncio.TaskGroup() as group:
        request = group.create_task(connection.request("GET", "/version"))
        await asyncio.sleep(0)
        for piece in pieces:
            assert not request.done()
            connection.data_received(piece)
            await asyncio.sleep(0)
    return request.result()


async def test_a_response_is_complete_after_its_content_length() -> None:
    answer = await answered(b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 6\r\n\r\nabc", b"def")
    assert answer == Answer(200, b"abcdef")


async def test_a_chunked_response_is_complete_after_its_last_chunk_however_it_is_split() -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    for cut in range(1, len(whole)):
        assert (await answered(whole[:cut], whole[cut:])).body == b"3\r\nabc\r\n0\r\n\r\n"
    assert (await answered(*(whole[at : at + 1] for at in range(len(whole))))).code == 200


async def test_an_error_response_raises_an_error_that_names_the_request() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await answered(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}")
    (error,) = caught.value.exceptions
    assert isinstance(error, AnswerError)
    assert str(error) == "GET /version: 409 {}"


async def test_a_connection_closed_by_the_server_is_an_error() -> None:
    connection, _ = connected()
    async with asyncio.TaskGroup() as group:
        request = group.create_task(_caught(connection))
        await asyncio.sleep(0)
        connection.connection_lost(None)
    assert "hung up" in request.result()


async def _caught(connection: Connection) -> str:
    try:
        await connection.request("GET", "/version")
    except AnswerError as error:
        return str(error)
    return ""


async def test_a_watcher_counts_events_however_the_stream_is_split() -> None:
    event = b'{"type":"ADDED","object":{"kind":"ConfigMap"}}\n'
    stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"2f\r\n" + event * 3 + b"\r\n"
    for size in (1, 2, 7, 60, 1000):
        told: list[int] = []
        watcher = Watcher(ADDRESS, told.append)
        for at in range(0, len(stream), size):
            watcher.data_received(stream[at : at + size])
        assert watcher.opened.done()
        assert watcher.events == sum(told) == 3


def test_the_token_is_not_printed() -> None:
    assert "a-secret-token" not in repr(ADDRESS)


def test_a_kubeconfig_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: UEVN}}]\n"
        "users: [{name: a, user: {token: abc}}]\n"
    )
    assert read_address(path) == Address("https://127.0.0.1:1", b"PEM", "abc")


def test_a_padded_pod_grows_by_about_the_filler_and_is_otherwise_unchanged() -> None:
    workload = Workload(Size(1, 1))
    body = workload.pod_body(workload.pods[0])
    longer = padded(body, 4_000)
    assert 4_000 <= len(longer) - len(body) < 4_050
    document = msgspec.json.decode(longer)
    del document["metadata"]["annotations"]["example.com/filler"]
    assert document == msgspec.json.decode(body)
    assert padded(body, 0) is body


def test_a_config_map_has_about_one_kilobyte() -> None:
    assert 800 < len(configmap("a", "b")) < 1_300


async def test_work_is_spread_over_all_connections_one_at_a_time_on_each() -> None:
    opened = [connected()[0] for _ in range(3)]
    busy: set[Connection] = set()
    done: list[int] = []

    async def work(connection: Connection, item: int) -> None:
        assert connection not in busy
        busy.add(connection)
        await asyncio.sleep(0)
        busy.remove(connection)
        done.append(item)

    await spread(opened, range(20), work)
    assert sorted(done) == list(range(20))


def test_every_goal_is_about_a_measured_metric() -> None:
    for scenario, key in GOALS:
        assert key in {metric.key for metric in METRICS[scenario]}


@pytest.mark.parametrize(
    ("goal", "ours", "ratio", "met"),
    [
        (Goal(1.0), 5.0, 0.9, True),
        (Goal(1.0), 5.0, 1.1, False),
        (Goal(1.0, is_least=True), 5.0, 1.1, True),
        (Goal(1.0, is_least=True), 5.0, 0.9, False),
        (Goal(10.0, of="itself"), 9.0, 3.0, True),
        (Goal(10.0, of="itself"), 11.0, 0.1, False),
        (Goal(1.0), 5.0, None, None),
    ],
)
def test_a_goal_is_met_or_missed(goal: Goal, ours: float, ratio: float | None, met: bool | None) -> None:
    spread_of_ratio = None if ratio is None else Spread.of([ratio])
    assert goal.is_met(Spread.of([ours]), spread_of_ratio) is met


def test_the_table_shows_medians_spreads_and_verdicts() -> None:
    findings = tuple(
        Finding("idle", server, run, {"start_seconds": seconds, "resident_mib": 50.0, "cpu_percent": 1.0})
        for run, seconds in enumerate((0.4, 0.5, 1.2))
        for server in (THEIRS, OURS)
    )
    table = render(findings)
    line = next(line for line in table.splitlines() if "start to ready" in line)
    assert re.search(r"0\.50 \[0\.40\.\.1\.20\]  +0\.50 \[0\.40\.\.1\.20\] +1\.00x +<= 1 +met$", line)
    assert "3,000 pods" not in table
