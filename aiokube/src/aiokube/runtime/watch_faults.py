"""Classification of list and watch failures by the required reaction.

:mod:`aiokube.runtime.watch_machine` implements the reaction to each kind. Every row of the table has a test
in ``aiokube/tests/unit/runtime/watch/test_watch_faults.py``.
"""

from enum import Enum

import msgspec

from aiokube.api.status import Status
from aiokube.client.errors import (
    ApiError,
    ClientError,
    ConfigError,
    ExpiredError,
    ForbiddenError,
    InternalServerError,
    LineTooLongError,
    NotFoundError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
    UndecodableEventError,
    UnexpectedResponseError,
    api_error,
)

SURVIVABLE = (ClientError, OSError, TimeoutError)
"""Errors that a working source may raise; any other exception is a bug, and propagates."""


class FaultKind(Enum):
    """The required reaction."""

    EXPIRED = "expired"
    """The version is no longer available: relist."""
    TOO_LARGE = "too large resource version"
    """The server has not reached the version: wait; it may have lost history."""
    BUSY = "busy"
    """The server, or a proxy in front of it, is overloaded (429, 502, 503, 504): retry unchanged."""
    DENIED = "denied"
    """Forbidden, unauthenticated, or no such resource; people must act, so retry slowly."""
    REFUSED = "refused"
    """The server does not support the request: use an older form."""
    UNREACHABLE = "unreachable"
    """No response, or a broken one: retry."""
    BROKEN = "broken"
    """A failure within the server: retry with growing backoff."""
    UNREADABLE = "unreadable"
    """The response cannot be decoded; one bad object can cause that."""


class Fault(msgspec.Struct, frozen=True):
    """One failure: its kind for the machine, its text for people."""

    kind: FaultKind
    text: str
    retry_after_seconds: float = 0.0
    permanent: bool = False
    """Whether retrying cannot help until a permission or the configuration is fixed: 401, 403, ConfigError."""


def classify(error: Exception) -> Fault:
    """Classify an error, which must be one of :data:`SURVIVABLE`."""
    text = _words(error)
    if isinstance(error, ApiError):
        kind = _kind_of_answer(error)
        permanent = kind is FaultKind.DENIED and not isinstance(error, NotFoundError)
        return Fault(kind, text, error.retry_after_seconds or 0.0, permanent)
    if isinstance(error, UndecodableEventError | UnexpectedResponseError | LineTooLongError):
        return Fault(FaultKind.UNREADABLE, text)
    if isinstance(error, ConfigError):
        return Fault(FaultKind.DENIED, text, permanent=not error.retryable)
    if isinstance(error, TransportError | OSError | TimeoutError):
        return Fault(FaultKind.UNREACHABLE, text)
    return Fault(FaultKind.BROKEN, text)


def classify_status(status: Status) -> Fault:
    """Classify the status of an ERROR event."""
    return classify(api_error(status))


def _kind_of_answer(error: ApiError) -> FaultKind:
    # The code 410 decides, for any reason: aggregated servers invent their own reasons.
    if isinstance(error, ExpiredError) or error.status.code == 410:
        return FaultKind.EXPIRED
    if error.is_too_large_resource_version:
        return FaultKind.TOO_LARGE
    if isinstance(error, TooManyRequestsError | ServiceUnavailableError | ServerTimeoutError):
        return FaultKind.BUSY
    if "sendInitialEvents" in (error.status.message or ""):
        return FaultKind.REFUSED
    if isinstance(error, UnauthorizedError | ForbiddenError | NotFoundError):
        return FaultKind.DENIED
    if isinstance(error, InternalServerError):
        return FaultKind.BROKEN
    code = error.status.code
    return FaultKind.REFUSED if code is not None and 400 <= code < 500 else FaultKind.BROKEN


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
