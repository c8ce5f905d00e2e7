"""Which failures are a part of the day, and how any failure is told in one line."""

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
    """A failure that was to be expected: one line in the log tells it all, and the key is tried again.

    ``retry_after_seconds``, where given, is the least to wait; the backoff of the key may be longer. ``unavailable`` says
    that the server could not be reached or could not serve us, and nothing else went wrong.
    """

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, unavailable: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.unavailable = unavailable


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, or those that an exception group is made of, in order."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def is_expected(error: BaseException) -> bool:
    """Return whether the error, or each one of a group, needs no traceback to be understood."""
    return all(isinstance(leaf, ReconcileError | ClientError) for leaf in leaves(error))


def is_unavailable(error: BaseException) -> bool:
    """Return whether the error, or each one of a group, says only that the server cannot be reached or serve us now."""
    return all(
        leaf.unavailable if isinstance(leaf, ReconcileError) else isinstance(leaf, _UNAVAILABLE)
        for leaf in leaves(error)
    )


def retry_after_seconds(error: BaseException) -> float:
    """Return the longest that any part of the error asks to wait; 0 where none asks."""
    return max(getattr(leaf, "retry_after_seconds", None) or 0.0 for leaf in leaves(error))


def describe(error: BaseException) -> str:
    """Return the error in one line: an expected one in its own words, any other with its type before them."""
    return "; ".join(map(_describe_leaf, leaves(error)))


def _describe_leaf(error: BaseException) -> str:
    words = " ".join(str(error).split())
    if words and is_expected(error):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
