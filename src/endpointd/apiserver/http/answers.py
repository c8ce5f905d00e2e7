"""One answer: code, headers, body. Every answer names an Audit-Id and forbids caches, as the real server's do."""

from collections.abc import Mapping, Sequence

from aiohttp import web

from endpointd.apiserver.errors import StatusError
from endpointd.apiserver.http.codec import encode_json, encode_yaml
from endpointd.apiserver.http.negotiation import JSON, Form

NOT_CACHED = "no-cache, private"


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
    """Return a whole answer."""
    response = web.Response(status=code, body=body)
    response.headers["Content-Type"] = content_type
    response.headers["Audit-Id"] = audit_id
    response.headers["Cache-Control"] = cache_control
    for name, value in (headers or {}).items():
        response.headers[name] = value
    add_warnings(response, warnings)
    return response


def add_warnings(response: web.StreamResponse, warnings: Sequence[str]) -> None:
    """Put ``Warning`` headers on an answer."""
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        printable = "".join(character if character.isprintable() else " " for character in quoted)
        response.headers.add("Warning", f'299 - "{printable}"')


def refuse(
    error: StatusError, *, audit_id: str, form: Form = JSON, warnings: Sequence[str] = ()
) -> web.Response:
    """Return the Status of a refusal."""
    document = error.to_status()
    body = encode_yaml(document) if form.is_yaml else encode_json(document, pretty=form.is_pretty)
    return respond(
        error.code, body, form.content_type, audit_id=audit_id, warnings=warnings, headers=error.headers
    )


def text(code: int, body: str, *, audit_id: str) -> web.Response:
    """Return a plain text."""
    return respond(code, body.encode(), "text/plain; charset=utf-8", audit_id=audit_id)
