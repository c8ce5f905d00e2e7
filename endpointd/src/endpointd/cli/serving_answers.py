"""Responses to requests for metrics and health checks: bytes in, bytes out."""

import math
from collections.abc import Callable
from urllib.parse import parse_qs, unquote

import msgspec

from aiokube.clock import Clock
from aiokube.runtime.exposition import CONTENT_TYPE
from aiokube.runtime.health import CheckResult, Checks

_METHODS = (b"GET", b"HEAD")
_RENDER_PAUSE_FACTOR = 10
_QUERY_FIELDS = 100
_TEXT = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}


class Request(msgspec.Struct, frozen=True):
    """The relevant part of a request's head."""

    method: bytes
    path: str
    query: dict[str, list[str]]
    authorization: bytes


class Answer(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    body: bytes
    content_type: str = _TEXT
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, *, with_body: bool = True) -> bytes:
        """Return it as an HTTP/1.1 response that closes the connection."""
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Cache-Control: no-cache, private",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in self.headers),
            "Connection: close",
        ]
        head = "".join(f"{line}\r\n" for line in lines) + "\r\n"
        return head.encode() + (self.body if with_body else b"")


def plain(status: int, text: str) -> Answer:
    """Return a one-line response."""
    return Answer(status, f"{text}\n".encode())


def parse_head(head: bytes) -> Request | None:
    """Parse the head of a request, including its empty line; None if it is invalid."""
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        return None
    authorization = b""
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            return None
        if name.strip().lower() == b"authorization":
            authorization = value.strip()
    try:
        # Not urlsplit, which parses the x of //x/metrics as a host.
        path, _, query_text = words[1].decode("ascii").partition("?")
        query = parse_qs(query_text, keep_blank_values=True, max_num_fields=_QUERY_FIELDS)
    except ValueError:
        return None
    return Request(words[0], unquote(path), query, authorization)


class RenderLimit:
    """Limits rendering metrics to a tenth of the event loop's time.

    A rendered text is reused until ten times its rendering time has passed. A scrape every few seconds always gets a
    new one; a flood of scrapes only costs sending bytes.
    """

    def __init__(self, render: Callable[[], bytes], clock: Clock) -> None:
        self._render = render
        self._clock = clock
        self._text = b""
        self._fresh_until = -math.inf

    def __call__(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        started = self._clock.monotonic()
        if started >= self._fresh_until:
            self._text = self._render()
            ended = self._clock.monotonic()
            self._fresh_until = ended + _RENDER_PAUSE_FACTOR * (ended - started)
        return self._text


class HealthAnswers:
    """Answers ``/livez``, ``/readyz`` and ``/healthz`` for any client, without the reasons of failed checks."""

    def __init__(self, *, live: Checks, ready: Checks) -> None:
        self._checks = {"livez": live, "readyz": ready, "healthz": live}

    def answer(self, request: Request) -> Answer:
        """Return the program's current health."""
        if request.method not in _METHODS:
            return Answer(405, b"use GET or HEAD\n", headers=(("Allow", "GET, HEAD"),))
        return self.health(request, with_causes=False) or plain(
            404, "not found; try /livez, /readyz or /healthz"
        )

    def health(self, request: Request, *, with_causes: bool) -> Answer | None:
        """Return the response to a health request, or None for any other path."""
        parts = request.path.removeprefix("/").removesuffix("/").split("/")
        checks = self._checks.get(parts[0])
        if checks is None or len(parts) > 2 or (len(parts) == 2 and not parts[1]):
            return None
        if len(parts) == 2:
            return _one(checks, parts[1], is_admitted=with_causes)
        return _all(parts[0], checks, request.query, is_admitted=with_causes)


class Answers:
    """Answers ``/metrics``, ``/livez``, ``/readyz`` and ``/healthz`` as kube-controller-manager does.

    Health is public: 200 or 500, with the names of the checks. Metrics and the reasons of failed checks are
    returned only to clients that ``admits`` accepts.
    """

    def __init__(
        self,
        *,
        live: Checks,
        ready: Checks,
        metrics: Callable[[], bytes],
        admits: Callable[[bytes], bool],
    ) -> None:
        self._health = HealthAnswers(live=live, ready=ready)
        self._metrics = metrics
        self._admits = admits

    def answer(self, request: Request) -> Answer:
        """Return the response from the program's current state."""
        if request.method not in _METHODS:
            return Answer(405, b"use GET or HEAD\n", headers=(("Allow", "GET, HEAD"),))
        is_admitted = self._admits(request.authorization)
        if request.path == "/metrics":
            if not is_admitted:
                return Answer(401, b"a bearer token is required\n", headers=(("WWW-Authenticate", "Bearer"),))
            return Answer(200, self._metrics(), CONTENT_TYPE)
        answer = self._health.health(request, with_causes=is_admitted)
        return answer or plain(404, "not found; try /livez, /readyz, /healthz or /metrics")


def _one(checks: Checks, name: str, *, is_admitted: bool) -> Answer:
    if name not in checks.names:
        return plain(404, f"unknown check {name!r}; known checks: {', '.join(checks.names)}")
    (result,) = checks.results([name])
    return plain(200, "ok") if result.ok else plain(500, f"failed: {_cause(result, is_admitted=is_admitted)}")


def _all(kind: str, checks: Checks, query: dict[str, list[str]], *, is_admitted: bool) -> Answer:
    excluded = set(query.get("exclude", ()))
    results = checks.results(name for name in checks.names if name not in excluded)
    passed = all(result.ok for result in results)
    if passed and "verbose" not in query:
        return plain(200, "ok")
    lines = [
        f"[+]{result.name} ok"
        if result.ok
        else f"[-]{result.name} failed: {_cause(result, is_admitted=is_admitted)}"
        for result in results
    ]
    lines += [f"[+]{name} excluded: ok" for name in checks.names if name in excluded]
    if unknown := sorted(excluded.difference(checks.names)):
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    lines.append(f"{kind} check {'passed' if passed else 'failed'}")
    return plain(200 if passed else 500, "\n".join(lines))


def _cause(result: CheckResult, *, is_admitted: bool) -> str:
    return " ".join(result.cause.split()) if is_admitted else "reason withheld (send the token to see it)"
