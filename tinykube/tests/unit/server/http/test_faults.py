"""Fault injection over real sockets: client-side behaviour, and execution on the server."""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tinykube import ThreadApiServer
from tinykube.cli.fault_options import parse_fault
from tinykube.server.http.fault_names import FAULT_NAMES

Json = dict[str, Any]
LOST = (ConnectionError, ssl.SSLError, http.client.HTTPException)
"""Exceptions for a dropped connection, depending on when it is noticed."""
MAPS = "/api/v1/namespaces/default/configmaps"


class Wire:
    """One request on its own connection."""

    def __init__(self, server: ThreadApiServer) -> None:
        self._server = server
        self._context = ssl.create_default_context(cadata=server.certificate_authority.decode())

    def open(self, timeout_seconds: float = 10.0) -> http.client.HTTPSConnection:
        host, port = urlsplit(self._server.url).hostname, urlsplit(self._server.url).port
        assert host is not None
        return http.client.HTTPSConnection(host, port, context=self._context, timeout=timeout_seconds)

    def send(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json, dict[str, str]]:
        with contextlib.closing(self.open()) as connection:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {self._server.token}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), dict(answer.getheaders())

    @contextlib.contextmanager
    def watch(self, query: str = "", *, timeout_seconds: float = 10.0) -> Iterator[http.client.HTTPResponse]:
        with contextlib.closing(self.open(timeout_seconds)) as connection:
            connection.request(
                "GET", f"{MAPS}?watch=1{query}", headers={"Authorization": f"Bearer {self._server.token}"}
            )
            yield connection.getresponse()


@pytest.fixture
def wire(api_server: ThreadApiServer) -> Wire:
    return Wire(api_server)


def config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def event(answer: http.client.HTTPResponse) -> tuple[str, str]:
    line = json.loads(answer.readline())
    return line["type"], line["object"].get("metadata", {}).get("name", "")


def test_an_injected_rejection_has_status_and_retry_time_and_changes_nothing(
    api_server: ThreadApiServer, wire: Wire
) -> None:
    rule = api_server.faults.refuse(429, retry_after_seconds=7, verb="create", times=1)
    code, status, headers = wire.send("POST", MAPS, config_map("a"))
    assert (code, status["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "7")
    assert status["details"]["retryAfterSeconds"] == 7
    assert api_server.list_all("v1", "ConfigMap") == []
    assert wire.send("POST", MAPS, config_map("a"))[0] == 201
    assert rule.hits == 1


@pytest.mark.parametrize(("code", "reason"), [(409, "Conflict"), (410, "Expired"), (504, "Timeout")])
def test_an_injected_rejection_has_the_reason_of_its_code(
    api_server: ThreadApiServer, wire: Wire, code: int, reason: str
) -> None:
    with api_server.faults.refuse(code):
        got, status, _ = wire.send("GET", MAPS)
    assert (got, status["kind"], status["reason"]) == (code, "Status", reason)


def test_a_lost_request_is_not_executed(api_server: ThreadApiServer, wire: Wire) -> None:
    with api_server.faults.lose_request(verb="create"), pytest.raises(LOST):
        wire.send("POST", MAPS, config_map("a"))
    assert api_server.list_all("v1", "ConfigMap") == []


def test_a_request_whose_response_is_lost_is_executed(api_server: ThreadApiServer, wire: Wire) -> None:
    with api_server.faults.lose_answer(verb="create"), pytest.raises(LOST):
        wire.send("POST", MAPS, config_map("a"))
    assert [one["metadata"]["name"] for one in api_server.list_all("v1", "ConfigMap")] == ["a"]


def test_a_delayed_response_arrives_after_its_delay(api_server: ThreadApiServer, wire: Wire) -> None:
    began = time.perf_counter()
    with api_server.faults.delay(0.3, verb="list"):
        assert wire.send("GET", MAPS)[0] == 200
    assert time.perf_counter() - began >= 0.3


def test_a_hanging_request_gets_no_response(api_server: ThreadApiServer, wire: Wire) -> None:
    with api_server.faults.hang(), contextlib.closing(wire.open(0.3)) as connection:
        connection.request("GET", MAPS, headers={"Authorization": f"Bearer {api_server.token}"})
        with pytest.raises(TimeoutError):
            connection.getresponse()


def test_stale_reads_return_the_state_at_the_start_of_the_fault(
    api_server: ThreadApiServer, wire: Wire
) -> None:
    api_server.apply(config_map("old"))
    with api_server.faults.stale_reads(user_agent=""):
        api_server.apply({**config_map("old"), "data": {"a": "b"}})
        wire.send("POST", MAPS, config_map("new"))
        _, listed, _ = wire.send("GET", MAPS)
        assert [one["metadata"]["name"] for one in listed["items"]] == ["old"]
        assert "data" not in listed["items"][0]
        assert wire.send("GET", f"{MAPS}/new")[0] == 404
    assert [one["metadata"]["name"] for one in wire.send("GET", MAPS)[1]["items"]] == ["new", "old"]


def test_a_dropped_watch_is_cut_after_its_events(api_server: ThreadApiServer, wire: Wire) -> None:
    api_server.apply(config_map("a"), config_map("b"), config_map("c"))
    with api_server.faults.drop_watch(after_events=2, times=1), wire.watch() as answer:
        assert [event(answer), event(answer)] == [("ADDED", "a"), ("ADDED", "b")]
        with pytest.raises(LOST):
            answer.read()


def test_a_watch_that_ends_early_ends_cleanly(api_server: ThreadApiServer, wire: Wire) -> None:
    api_server.apply(config_map("a"), config_map("b"))
    with api_server.faults.end_watch(after_events=1), wire.watch() as answer:
        assert event(answer) == ("ADDED", "a")
        assert answer.read() == b""


def test_an_expired_watch_ends_with_an_error_event(api_server: ThreadApiServer, wire: Wire) -> None:
    api_server.apply(config_map("a"), config_map("b"))
    with api_server.faults.expire_watch(after_events=1), wire.watch() as answer:
        assert event(answer) == ("ADDED", "a")
        error = json.loads(answer.readline())
        assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
        assert answer.read() == b""


def test_a_stalled_watch_stays_open_without_further_events(api_server: ThreadApiServer, wire: Wire) -> None:
    api_server.apply(config_map("a"))
    with api_server.faults.stall_watch(after_events=1), wire.watch(timeout_seconds=0.5) as answer:
        assert event(answer) == ("ADDED", "a")
        api_server.apply(config_map("b"))
        with pytest.raises(TimeoutError):
            answer.readline()


def test_a_stalled_watch_is_dropped_after_its_timeout(api_server: ThreadApiServer, wire: Wire) -> None:
    with api_server.faults.stall_watch(seconds=0.2), wire.watch() as answer, pytest.raises(LOST):
        answer.read()


def test_a_server_with_a_stalled_watch_stops_immediately(api_server: ThreadApiServer, wire: Wire) -> None:
    def close() -> None:
        api_server._loop.call_soon_threadsafe(api_server._server._streams.close)

    api_server.faults.stall_watch()
    with wire.watch() as answer:
        ends = threading.Timer(0.1, close)
        ends.start()
        assert answer.read() == b""


def test_duplicated_events_are_sent_twice(api_server: ThreadApiServer, wire: Wire) -> None:
    with api_server.faults.duplicate_events(), wire.watch("&resourceVersion=1") as answer:
        api_server.apply(config_map("a"))
        assert [event(answer), event(answer)] == [("ADDED", "a"), ("ADDED", "a")]


def test_a_rule_affects_only_requests_in_its_scope(api_server: ThreadApiServer, wire: Wire) -> None:
    api_server.apply(config_map("a"), config_map("b"))
    api_server.faults.refuse(500, verb="get", resource="configmaps", name="b", skip=1, times=1)
    codes = [wire.send("GET", f"{MAPS}/{name}")[0] for name in ("a", "b", "b", "b")]
    assert codes == [200, 200, 500, 200]
    assert [(one.verb, one.name) for one in api_server.faults.log] == [("get", "b")]


def test_the_same_seed_gives_the_same_faults(api_server: ThreadApiServer, wire: Wire) -> None:
    def outcomes() -> list[str]:
        api_server.faults.clear()
        api_server.faults.random(7, 0.5, verb="list")
        for _ in range(20):
            with contextlib.suppress(*LOST):
                wire.send("GET", MAPS)
        return [one.fault for one in api_server.faults.log]

    first = outcomes()
    assert len(set(first)) > 1
    assert outcomes() == first


def test_an_invalid_rule_is_rejected() -> None:
    from tinykube import Faults

    with pytest.raises(ValueError, match="unknown verb 'peek'"):
        Faults().refuse(500, verb="peek")
    with pytest.raises(ValueError, match="unsupported code 200"):
        Faults().refuse(200)
    with pytest.raises(ValueError, match="probability"):
        Faults().lose_answer(rate=2.0)


def test_the_command_line_option_knows_every_fault() -> None:
    for name in FAULT_NAMES:
        assert parse_fault(name)[0].name == name
