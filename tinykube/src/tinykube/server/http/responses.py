"""Responses: code, headers, body. All have an Audit-Id and forbid caching, as on kube-apiserver."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from aiohttp import web

from tinykube.server.errors import StatusError, too_many_requests
from tinykube.server.http.codec import encode_json, encode_yaml
from tinykube.server.http.negotiation import JSON, Form

NOT_CACHED = "no-cache, private"

_LARGE_BYTES = 256 * 1024
_SLICE_BYTES = 256 * 1024


class AnswerBudget:
    """The bytes of answers that were made for one client each and are not yet sent, over all connections.

    Stored objects are not counted: all answers share them.
    """

    def __init__(self, limit_bytes: int = 128 * 1024 * 1024) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0

    def reserve(self, size: int) -> "Reservation":
        """Take so many bytes until the reservation is dropped; raise 429 while others hold too many.

        An answer that alone exceeds the limit is made when no other is held.
        """
        if self.used_bytes and self.used_bytes + size > self._limit_bytes:
            raise too_many_requests(
                "too many large answers wait for their clients to read them", retry_seconds=1
            )
        return Reservation(self, size)


class Reservation:
    """A part of a budget, released when the last reference to it is dropped."""

    def __init__(self, budget: AnswerBudget, size: int) -> None:
        self._budget = budget
        self._size = size
        budget.used_bytes += size

    def __del__(self) -> None:
        self._budget.used_bytes -= self._size


class LargeAnswer(web.StreamResponse):
    """A large body, written piece by piece as its client reads.

    In one write, the whole body would be copied three times on its way through TLS while no other client is served.
    Pieces are encoded when they are written, so a client that does not read holds only one of them.
    """

    def __init__(
        self,
        code: int,
        pieces: Iterable[bytes | memoryview],
        size: int,
        reservation: Reservation | None = None,
    ) -> None:
        super().__init__(status=code)
        self.content_length = size
        self.pieces = pieces
        self._reservation = reservation

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the body."""
        if not self._must_be_empty_body and not self._eof_sent:
            for piece in self.pieces:
                await self.write(piece)
        self.pieces = ()
        self._reservation = None
        await super().write_eof(data)


def _slices(body: bytes) -> Iterator[bytes | memoryview]:
    view = memoryview(body)
    return (view[start : start + _SLICE_BYTES] for start in range(0, len(body), _SLICE_BYTES))


def in_slices(texts: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Join texts into pieces of one write's size."""
    waiting: list[bytes] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _SLICE_BYTES:
            yield from _slices(b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def respond(
    code: int,
    body: bytes,
    content_type: str,
    *,
    audit_id: str,
    warnings: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    cache_control: str = NOT_CACHED,
    reservation: Reservation | None = None,
) -> web.StreamResponse:
    """Return a whole answer."""
    response: web.StreamResponse
    if len(body) > _LARGE_BYTES:
        response = LargeAnswer(code, list(_slices(body)), len(body), reservation)
    else:
        response = web.Response(status=code, body=body)
    return _with_headers(
        response,
        content_type,
        audit_id=audit_id,
        warnings=warnings,
        headers=headers,
        cache_control=cache_control,
    )


def respond_in_pieces(
    texts: Iterable[bytes], size: int, content_type: str, *, audit_id: str, warnings: Sequence[str] = ()
) -> web.StreamResponse:
    """Return an answer of ``size`` bytes that is made while it is sent."""
    return _with_headers(
        LargeAnswer(200, in_slices(texts), size), content_type, audit_id=audit_id, warnings=warnings
    )


def _with_headers(
    response: web.StreamResponse,
    content_type: str,
    *,
    audit_id: str,
    warnings: Sequence[str],
    headers: Mapping[str, str] | None = None,
    cache_control: str = NOT_CACHED,
) -> web.StreamResponse:
    response.headers["Content-Type"] = content_type
    response.headers["Audit-Id"] = audit_id
    response.headers["Cache-Control"] = cache_control
    for name, value in (headers or {}).items():
        response.headers[name] = value
    add_warnings(response, warnings)
    return response


def add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    """Add ``Warning`` headers to a response."""
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        printable = "".join(character if character.isprintable() else " " for character in quoted)
        response.headers.add("Warning", f'299 - "{printable}"')


def refuse(
    error: StatusError, *, audit_id: str, form: Form = JSON, warnings: Sequence[str] = ()
) -> web.StreamResponse:
    """Return the Status response of an error."""
    document = error.to_status()
    body = encode_yaml(document) if form.is_yaml else encode_json(document, pretty=form.is_pretty)
    return respond(
        error.code, body, form.content_type, audit_id=audit_id, warnings=warnings, headers=error.headers
    )


def text(code: int, body: str, *, audit_id: str) -> web.StreamResponse:
    """Return a plain text response."""
    return respond(code, body.encode(), "text/plain; charset=utf-8", audit_id=audit_id)
