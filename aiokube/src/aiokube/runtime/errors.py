"""Expected failures of a reconcile, and the one-line description of any failure."""

from collections.abc import Iterator

from aiokube.client.errors import (
    ClientError,
    ConnectionFailedError,
    RequestTimedOutError,
    ResponseTruncatedError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooManyRequestsError,
)

_UNAVAILABLE = (
    ConnectionFailedError,
    RequestTimedOutError,
    ResponseTruncatedError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooManyRequestsError,
)


class ReconcileError(Exception):
    """An expected failure: logged in one line, and the key is retried.

    ``retry_after_seconds`` is the minimum delay; the backoff of the key may be longer. ``unavailable`` means
    that the failure is only due to an unreachable or overloaded server.
    """

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, unavailable: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.unavailable = unavailable


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, or the leaves of an exception group, in order."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def is_expected(error: BaseException) -> bool:
    """Return whether the error, or each one of a group, can be logged without a traceback."""
    return all(isinstance(leaf, ReconcileError | ClientError) for leaf in leaves(error))


def is_unavailable(error: BaseException) -> bool:
    """Return whether the error, or each one of a group, is only due to an unavailable server."""
    return all(
        leaf.unavailable if isinstance(leaf, ReconcileError) else isinstance(leaf, _UNAVAILABLE)
        for leaf in leaves(error)
    )


def retry_after_seconds(error: BaseException) -> float:
    """Return the longest delay that any part of the error asks for, 0 by default."""
    return max(getattr(leaf, "retry_after_seconds", None) or 0.0 for leaf in leaves(error))


def describe(error: BaseException) -> str:
    """Describe the error in one line: expected errors by their message, others with their type."""
    return "; ".join(map(_describe_leaf, leaves(error)))


def _describe_leaf(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if words and is_expected(error):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
