"""Classification of errors."""

import pytest

from aiokube.api.meta import ListMeta
from aiokube.api.status import Status, StatusCause, StatusDetails
from aiokube.client import errors
from aiokube.client.errors import ApiError, api_error, api_error_type

CASES = [
    (400, "BadRequest", errors.BadRequestError, False, False),
    (401, "Unauthorized", errors.UnauthorizedError, False, False),
    (403, "Forbidden", errors.ForbiddenError, False, False),
    (404, "NotFound", errors.NotFoundError, False, False),
    (404, None, errors.NotFoundError, False, False),
    (405, "MethodNotAllowed", errors.MethodNotAllowedError, False, False),
    (406, "NotAcceptable", ApiError, False, False),
    (409, "Conflict", errors.ConflictError, False, False),
    (409, "AlreadyExists", errors.AlreadyExistsError, False, False),
    (409, None, errors.ConflictError, False, False),
    (410, "Expired", errors.ExpiredError, False, False),
    (410, "Gone", errors.ExpiredError, False, False),
    (410, None, errors.ExpiredError, False, False),
    (413, "RequestEntityTooLarge", errors.RequestTooLargeError, False, False),
    (415, "UnsupportedMediaType", ApiError, False, False),
    (422, "Invalid", errors.InvalidError, False, False),
    (429, "TooManyRequests", errors.TooManyRequestsError, True, False),
    (429, "", errors.TooManyRequestsError, True, False),
    (500, "InternalError", errors.InternalServerError, True, True),
    (500, None, errors.InternalServerError, True, True),
    (500, "ServerTimeout", errors.ServerTimeoutError, True, True),
    (502, None, errors.ServiceUnavailableError, True, True),
    (503, "ServiceUnavailable", errors.ServiceUnavailableError, True, True),
    (504, "Timeout", errors.ServerTimeoutError, True, True),
    (507, None, errors.InternalServerError, True, True),
    (418, "Teapot", ApiError, False, False),
    (None, None, ApiError, False, False),
]


@pytest.mark.parametrize(("code", "reason", "kind", "retryable", "may_have_acted"), CASES)
def test_the_error_type_follows_from_the_reason_then_from_the_code(
    code: int | None, reason: str | None, kind: type[ApiError], retryable: bool, may_have_acted: bool
) -> None:
    assert api_error_type(code, reason) is kind
    error = api_error(Status(code=code, reason=reason, message="m"))
    assert type(error) is kind
    assert (error.retryable, error.may_have_acted) == (retryable, may_have_acted)


def test_a_known_reason_takes_precedence_over_the_code() -> None:
    assert api_error_type(500, "Conflict") is errors.ConflictError


def test_the_error_text_is_the_servers_message_in_one_line() -> None:
    error = api_error(Status(code=409, message='pods "a"\n not found'), method="GET", url="/api/v1/pods/a")
    assert str(error) == 'pods "a" not found'
    assert error.url == "/api/v1/pods/a"


def test_an_error_without_a_message_shows_the_request() -> None:
    error = api_error(Status(code=404, reason="NotFound"), method="GET", url="/api/v1/pods/a")
    assert str(error) == "GET /api/v1/pods/a: HTTP 404 (NotFound)"


def test_the_retry_delay_is_read_from_the_header_then_from_the_status() -> None:
    status = Status(code=429, details=StatusDetails(retry_after_seconds=3))
    assert api_error(status, retry_after_seconds=1.0).retry_after_seconds == 1.0
    assert api_error(status).retry_after_seconds == 3
    assert api_error(Status(code=429)).retry_after_seconds is None


@pytest.mark.parametrize(
    "status",
    [
        Status(code=504, details=StatusDetails(causes=(StatusCause(reason="ResourceVersionTooLarge"),))),
        Status(
            code=504,
            reason="Timeout",
            details=StatusDetails(causes=(StatusCause(message="Too large resource version"),)),
        ),
        Status(code=504, reason="Timeout", message="Timeout: Too large resource version: 9, current: 8"),
    ],
)
def test_a_too_large_resource_version_is_recognised_in_all_three_forms(status: Status) -> None:
    assert api_error(status).is_too_large_resource_version


def test_other_timeouts_are_not_taken_for_a_too_large_resource_version() -> None:
    assert not api_error(Status(code=504, reason="Timeout", message="slow")).is_too_large_resource_version
    assert not api_error(Status(code=400, message="Too large resource version")).is_too_large_resource_version


def test_an_expired_list_error_carries_the_continue_token() -> None:
    error = api_error(Status(code=410, reason="Expired", metadata=ListMeta(continue_="abc")))
    assert isinstance(error, errors.ExpiredError)
    assert error.continue_token == "abc"
    assert errors.ExpiredError(Status(code=410)).continue_token == ""


def test_only_errors_before_sending_rule_out_that_the_request_was_processed() -> None:
    assert not errors.ConnectionFailedError("refused").may_have_acted
    assert errors.ConnectionFailedError("reset", may_have_acted=True).may_have_acted
    assert errors.ResponseTruncatedError("broke").may_have_acted
    assert errors.RequestTimedOutError("slow").may_have_acted
    assert not errors.TlsError("no").may_have_acted


def test_credential_failures_are_retryable_and_configuration_errors_are_not() -> None:
    assert errors.CredentialError("plugin").retryable
    assert not errors.ConfigError("file").retryable
