"""Error responses: from status code, headers and body to an exception."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
import msgspec

from aiokube.api.status import Status
from aiokube.client.bounded import MAX_ERROR_BYTES, read_at_most
from aiokube.client.errors import ApiError, UnexpectedResponseError, api_error
from aiokube.clock import Clock

_LONGEST_QUOTE = 200

_status_decoder = msgspec.json.Decoder(Status)


async def error_from_response(
    response: aiohttp.ClientResponse, method: str, path: str, clock: Clock
) -> ApiError:
    """Read the body of an error response and return the matching error.

    Raises UnexpectedResponseError for a redirect, which no API server sends; the message contains only the
    host of its target.
    """
    if response.status < 400:
        response.close()
        target = urlsplit(response.headers.get("Location", ""))
        to = f", a redirect to {target.scheme}://{target.hostname}," if target.hostname else ""
        raise UnexpectedResponseError(
            f"{method} {path}: HTTP {response.status}{to} is not followed: "
            "use the address of the API server itself"
        )
    body, _ = await read_at_most(response, MAX_ERROR_BYTES)
    status = _status_of(response, body, method, path)
    seconds = retry_after_seconds(response.headers, clock)
    return api_error(status, method=method, url=path, retry_after_seconds=seconds)


def _status_of(response: aiohttp.ClientResponse, body: bytes, method: str, path: str) -> Status:
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = Status()
    if status.kind == "Status":
        return status if status.code else msgspec.structs.replace(status, code=response.status)
    message = f"{method} {path}: HTTP {response.status} {_phrase(response.status)}".rstrip()
    if response.content_type.startswith("text/plain"):
        words = " ".join(body[: _LONGEST_QUOTE * 4].decode(errors="replace").split())[:_LONGEST_QUOTE]
        message = f"{message}: {words}" if words else message
    return Status(status="Failure", message=message, code=response.status)


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def retry_after_seconds(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Return the delay of the Retry-After header (seconds or a date), None without a valid one."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - clock.wall()).total_seconds())
    except (ValueError, TypeError):
        return None
