"""The ways in which a server says no, as the client raises them."""

from aiokube.api.meta import ListMeta
from aiokube.api.status import RESOURCE_VERSION_TOO_LARGE, Status, StatusCause, StatusDetails
from aiokube.client.errors import ApiError, api_error


def refusal(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    cause: str = "",
    retry_after_seconds: int | None = None,
    continue_token: str = "",
) -> ApiError:
    """Return the error that the client raises for such an answer of the server."""
    return api_error(
        refusal_status(
            code,
            reason,
            message,
            cause=cause,
            retry_after_seconds=retry_after_seconds,
            continue_token=continue_token,
        )
    )


def refusal_status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    cause: str = "",
    retry_after_seconds: int | None = None,
    continue_token: str = "",
) -> Status:
    """Return a Status as the server words its failures."""
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


def too_large(asked: int, current: int) -> ApiError:
    """Return what a server says that has not come to a version yet."""
    return refusal(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        cause=RESOURCE_VERSION_TOO_LARGE,
        retry_after_seconds=1,
    )


def expired(asked: object = "", current: object = "") -> ApiError:
    """Return what a server says that no longer keeps a version."""
    return refusal(410, "Expired", f"too old resource version: {asked} ({current})")
