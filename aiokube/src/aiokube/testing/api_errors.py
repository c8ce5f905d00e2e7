"""API errors as the client raises them, for tests."""

from aiokube.api.meta import ListMeta
from aiokube.api.status import RESOURCE_VERSION_TOO_LARGE, Status, StatusCause, StatusDetails
from aiokube.client.errors import ApiError, api_error


def status_error(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    cause: str = "",
    retry_after_seconds: int | None = None,
    continue_token: str = "",
) -> ApiError:
    """Return the error that the client raises for a response with this status."""
    return api_error(
        failure_status(
            code,
            reason,
            message,
            cause=cause,
            retry_after_seconds=retry_after_seconds,
            continue_token=continue_token,
        )
    )


def failure_status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    cause: str = "",
    retry_after_seconds: int | None = None,
    continue_token: str = "",
) -> Status:
    """Return the body of a failed response."""
    return Status(
        kind="Status",
        api_version="v1",
        metadata=ListMeta(continue_=continue_token or None),
        status="Failure",
        message=message or reason,
        reason=reason or None,
        details=StatusDetails(
            causes=(StatusCause(reason=cause),) if cause else None, retry_after_seconds=retry_after_seconds
        ),
        code=code,
    )


def too_large_error(asked: int, current: int) -> ApiError:
    """Return the error of a server that has not reached a resource version yet."""
    return status_error(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        cause=RESOURCE_VERSION_TOO_LARGE,
        retry_after_seconds=1,
    )


def expired_error(asked: object = "", current: object = "") -> ApiError:
    """Return the error of a server that no longer has a resource version."""
    return status_error(410, "Expired", f"too old resource version: {asked} ({current})")
