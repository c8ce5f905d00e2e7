"""The table of failures, row by row."""

import pytest

from aiokube.api.meta import ObjectKey
from aiokube.api.status import Status, StatusCause, StatusDetails
from aiokube.client.errors import (
    ClientError,
    ConfigError,
    ConnectionFailedError,
    CredentialError,
    LineTooLongError,
    RequestTimedOutError,
    ResponseTruncatedError,
    TlsError,
    UndecodableEventError,
    UnexpectedResponseError,
)
from aiokube.runtime.watch_faults import FaultKind, classify, classify_status
from aiokube.testing.api_errors import expired_error, failure_status, status_error, too_large_error

NAMELESS_CAUSE = status_error(504, "Timeout", "too late")
NAMELESS_CAUSE.status = Status(
    reason="Timeout",
    code=504,
    details=StatusDetails(causes=(StatusCause(message="Too large resource version"),)),
)

TABLE = [
    # 410, in all its forms
    (expired_error(), FaultKind.EXPIRED),
    (status_error(410, "Gone", "gone"), FaultKind.EXPIRED),
    (status_error(410, "", "no reason given"), FaultKind.EXPIRED),
    (status_error(410, "SomethingOdd", "of an aggregated server"), FaultKind.EXPIRED),
    (status_error(410, "BadRequest", "a known reason, and the wrong one"), FaultKind.EXPIRED),
    (status_error(500, "Expired", "wrapped by a proxy"), FaultKind.EXPIRED),
    # too large resource version, in its three forms
    (too_large_error(2000, 1000), FaultKind.TOO_LARGE),
    (status_error(504, "Timeout", "Too large resource version: 2000, current: 1000"), FaultKind.TOO_LARGE),
    (NAMELESS_CAUSE, FaultKind.TOO_LARGE),
    # the server
    (status_error(429, "TooManyRequests", "later", retry_after_seconds=7), FaultKind.BUSY),
    (status_error(500, "InternalError", "etcdserver: request timed out"), FaultKind.BROKEN),
    (status_error(500, "", "strconv: parsing resourceVersion"), FaultKind.BROKEN),
    (status_error(500, "ServerTimeout", "try again"), FaultKind.BUSY),
    (status_error(502, "", "bad gateway"), FaultKind.BUSY),
    (status_error(503, "ServiceUnavailable", "apiserver not ready"), FaultKind.BUSY),
    (status_error(504, "Timeout", "request did not complete"), FaultKind.BUSY),
    # our configuration and permissions
    (status_error(401, "Unauthorized", "who are you"), FaultKind.DENIED),
    (status_error(403, "Forbidden", "pods is forbidden"), FaultKind.DENIED),
    (status_error(404, "NotFound", "the server could not find the requested resource"), FaultKind.DENIED),
    (ConfigError("kubeconfig: no such context"), FaultKind.DENIED),
    (CredentialError("exec plugin failed"), FaultKind.DENIED),
    # an unsupported request
    (status_error(400, "BadRequest", "bad"), FaultKind.REFUSED),
    (status_error(405, "MethodNotAllowed", "no watch here"), FaultKind.REFUSED),
    (status_error(406, "NotAcceptable", "no JSON here"), FaultKind.REFUSED),
    (status_error(422, "Invalid", "sendInitialEvents: Forbidden"), FaultKind.REFUSED),
    (status_error(403, "Forbidden", "sendInitialEvents is forbidden for watch"), FaultKind.REFUSED),
    # the connection
    (ConnectionFailedError("10.0.0.1:6443: connection refused"), FaultKind.UNREACHABLE),
    (TlsError("certificate has expired"), FaultKind.UNREACHABLE),
    (ResponseTruncatedError("reset"), FaultKind.UNREACHABLE),
    (RequestTimedOutError("no answer"), FaultKind.UNREACHABLE),
    (ConnectionResetError("reset by peer"), FaultKind.UNREACHABLE),
    (TimeoutError(), FaultKind.UNREACHABLE),
    # invalid responses
    (UnexpectedResponseError("not JSON"), FaultKind.UNREADABLE),
    (LineTooLongError("a line of a gigabyte"), FaultKind.UNREADABLE),
    (UndecodableEventError("pods", "expected int", key=ObjectKey("ns", "a")), FaultKind.UNREADABLE),
    (ClientError("something new"), FaultKind.BROKEN),
]


@pytest.mark.parametrize(
    ("error", "kind"), TABLE, ids=[f"{type(error).__name__}: {error}"[:60] for error, _ in TABLE]
)
def test_each_error_is_classified_as_one_fault_kind(error: Exception, kind: FaultKind) -> None:
    assert classify(error).kind is kind


@pytest.mark.parametrize("kind", list(FaultKind))
def test_every_fault_kind_is_covered_by_the_table(kind: FaultKind) -> None:
    assert kind in {row for _, row in TABLE}


def test_an_error_event_is_classified_like_an_error_response() -> None:
    fault = classify_status(failure_status(410, "Expired", "too old resource version: 60 (257)"))
    assert fault.kind is FaultKind.EXPIRED
    assert fault.text == "too old resource version: 60 (257)"


def test_the_retry_after_delay_is_preserved() -> None:
    assert (
        classify(status_error(429, "TooManyRequests", "later", retry_after_seconds=7)).retry_after_seconds
        == 7
    )
    assert (
        classify(status_error(503, "ServiceUnavailable", "later", retry_after_seconds=3)).retry_after_seconds
        == 3
    )
    assert classify(ConnectionFailedError("refused")).retry_after_seconds == 0


def test_the_fault_text_is_one_line_and_never_empty() -> None:
    assert classify(ConnectionFailedError("two\n  lines")).text == "two lines"
    assert classify(TimeoutError()).text == "TimeoutError"
