"""Responses: code, headers, body. All have an Audit-Id and forbid caching, as on kube-apiserver."""

from collections.abc import Mapping, Sequence

from aiohttp import web

from tinykube.server.errors import StatusError
from tinykube.server.http.codec import encode_json, encode_yaml
from tinykube.server.http.negotiation import JSON, Form

NOT_CACHED = "no-cache, private"

_LARGE_BYTES = 1024 * 1024
_SLICE_BYTES = 256 * 1024


class LargeAnswer(web.Response):
    """A large body, written in slices as its client reads.

    A single write would copy it three times on its way through TLS, and block all other requests.
    """

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the body."""
        body = self._body
        if isinstance(body, bytes) and not self._must_be_empty_body and not self._eof_sent:
            view = memoryview(body)
            for start in range(0, len(body), _SLICE_BYTES):
                await self.write(view[start : start + _SLICE_BYTES])
            self._body = None
        await super().write_eof(data)


def respond(
    code: int,
    body: bytes,
    content_type: str,
    *,
    audit_id: str,
    warnings: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    cache_control: str = NOT_CACHED,
) -> web.Response:
    """Return a complete response."""
    response = (LargeAnswer if len(body) > _LARGE_BYTES else web.Response)(status=code, body=body)
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
) -> web.Response:
    """Return the Status response of an error."""
    document = error.to_status()
    body = encode_yaml(document) if form.is_yaml else encode_json(document, pretty=form.is_pretty)
    return respond(
        error.code, body, form.content_type, audit_id=audit_id, warnings=warnings, headers=error.headers
    )


def text(code: int, body: str, *, audit_id: str) -> web.Response:
    """Return a plain text response."""
    return respond(code, body.encode(), "text/plain; charset=utf-8", audit_id=audit_id)
