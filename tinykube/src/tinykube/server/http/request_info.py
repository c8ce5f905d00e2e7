"""A request before its verb runs: path, query, caller and the form of the response."""

import asyncio

import msgspec
from aiohttp import web

from tinykube.server.errors import StatusError
from tinykube.server.http.negotiation import JSON, NO_TRANSFORM, Form, Transform, is_pretty, negotiate
from tinykube.server.http.query import Query, parse_query, pretty
from tinykube.server.verbs.context import Caller

_BODY_SECONDS = 60.0


class RequestInfo(msgspec.Struct, kw_only=True):
    """The parsed request. ``warnings`` are sent with the response, also with an error."""

    request: web.BaseRequest
    method: str
    path: str
    query: Query
    caller: Caller
    audit_id: str
    warnings: list[str]

    def form(self, transforms: frozenset[Transform]) -> Form:
        """Negotiate the form of the response. Raises 406."""
        form = negotiate(self.request.headers.get("Accept", ""), transforms)
        if is_pretty(pretty(self.query), self.caller.user_agent):
            return msgspec.structs.replace(form, is_pretty=True)
        return form

    @property
    def content_type(self) -> str:
        """The Content-Type of the body."""
        return self.request.headers.get("Content-Type", "")

    async def body(self) -> bytes:
        """Read the body. Raises 413 beyond 3 MiB, and 408 if it has not arrived within a minute."""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                return await self.request.read()
        except TimeoutError:
            raise StatusError(
                408, "Timeout", f"the request body did not arrive within {_BODY_SECONDS:g} s"
            ) from None
        except web.HTTPRequestEntityTooLarge:
            raise StatusError(
                413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"
            ) from None


def error_form(request: web.BaseRequest) -> Form:
    """Return the form of an error response; never fails, even for malformed requests."""
    try:
        form = negotiate(request.headers.get("Accept", ""), NO_TRANSFORM)
        wished = pretty(parse_query(request.raw_path.partition("?")[2]))
    except StatusError:
        form, wished = JSON, None
    return msgspec.structs.replace(form, is_pretty=is_pretty(wished, request.headers.get("User-Agent", "")))
