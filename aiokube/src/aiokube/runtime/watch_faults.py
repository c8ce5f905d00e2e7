"""What can go wrong with a list or a watch, sorted by what has to be done about it.

Nothing here acts; :mod:`aiokube.runtime.watch_machine` knows what follows from each kind. The table is tested row
by row in ``aiokube/tests/unit/runtime/watch/test_watch_faults.py``.
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
"""What a source may raise without being broken itself; all else is a bug, and is not caught."""


class FaultKind(Enum):
    """What has to be done."""

    EXPIRED = "expired"
    """The version is no longer kept: list again."""
    TOO_LARGE = "too large resource version"
    """The server has not come to the version: wait for it; perhaps it lost history."""
    BUSY = "busy"
    """The server, or a proxy before it, cannot serve us now (429, 502, 503, 504): try again, and change nothing else."""
    DENIED = "denied"
    """We may not, are not known, or the resource is not there: somebody has to act, so ask seldom."""
    REFUSED = "refused"
    """The server does not understand the question: ask in an older way."""
    UNREACHABLE = "unreachable"
    """No answer, or a broken one: try again."""
    BROKEN = "broken"
    """The server failed: try again, less and less often."""
    UNREADABLE = "unreadable"
    """The answer came, and is not what the resource promises: one bad object may do that."""


class Fault(msgspec.Struct, frozen=True):
    """What went wrong, once: for the machine the kind, for people the text."""

    kind: FaultKind
    text: str
    retry_after_seconds: float = 0.0
    permanent: bool = False
    """Whether retrying cannot help until somebody grants a right or fixes the configuration: 401, 403, ConfigError."""


def classify(error: Exception) -> Fault:
    """Return what kind of fault an error is. It is one of :data:`SURVIVABLE`."""
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
    """Return what kind of fault a watch reported by an ERROR event."""
    return classify(api_error(status))


def _kind_of_answer(error: ApiError) -> FaultKind:
    # 410 is what counts, whatever reason stands beside it: aggregated servers invent their own.
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
