"""Errors between us and an API server, grouped by who can fix them.

There are three groups below :class:`ClientError`: the server refused the request (:class:`ApiError`), no
valid response arrived (:class:`TransportError`), or our configuration is wrong (:class:`ConfigError`). Each
error has two attributes for the caller: ``retryable`` means that the same request may succeed later, and
``may_have_acted`` that the server may have carried out the request despite the error.

No message contains a header, a credential, a query string, or any part of a request or an object.
"""

from typing import Any, ClassVar

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Resource
from aiokube.api.status import (
    FIELD_MANAGER_CONFLICT,
    NAMESPACE_TERMINATING,
    RESOURCE_VERSION_TOO_LARGE,
    Status,
)

# Servers before 1.19 have no cause for this; they report it in the message or in a cause without a reason.
_TOO_LARGE_WORDS = "Too large resource version"


class ClientError(Exception):
    """Base class of all errors that this package raises."""

    retryable: bool = False
    may_have_acted: bool = False


# ----------------------------------------------------------------------------------------------- API errors


class ApiError(ClientError):
    """The server refused the request; ``str()`` is the server's message, in one line.

    ``status`` is the response, ``method`` and ``url`` (without the query) are the request's.
    ``retry_after_seconds`` is the delay that the server asked for, in a header or in the status, or None.
    """

    reasons: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[int | None] = None

    def __init__(
        self, status: Status, method: str = "", url: str = "", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(status, method, url, retry_after_seconds)
        self.status = status
        self.method = method
        self.url = url
        if retry_after_seconds is None and status.details is not None:
            retry_after_seconds = status.details.retry_after_seconds
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        message = " ".join((self.status.message or "").split())
        if message:
            return message
        reason = self.status.reason or "no reason given"
        return f"{self.method} {self.url}: HTTP {self.status.code or 'error'} ({reason})".strip()

    @property
    def is_too_large_resource_version(self) -> bool:
        """Whether the server has not reached the requested resource version yet."""
        status = self.status
        if status.has_cause(RESOURCE_VERSION_TOO_LARGE):
            return True
        if status.reason != "Timeout" and status.code != 504:
            return False
        causes = (status.details.causes if status.details is not None else None) or ()
        return _TOO_LARGE_WORDS in (status.message or "") or any(
            cause.message == _TOO_LARGE_WORDS for cause in causes
        )


class BadRequestError(ApiError):
    """400: the request is malformed."""

    reasons = ("BadRequest",)
    code = 400


class UnauthorizedError(ApiError):
    """401: the server rejects our credentials, even after a renewal.

    ``identity`` describes whose credentials these are and where they come from, ``""`` if unknown.
    """

    reasons = ("Unauthorized",)
    code = 401
    identity = ""

    def __str__(self) -> str:
        message = super().__str__()
        if not self.identity:
            return message
        return (
            f"{message}: the server does not accept the credentials of {self.identity}; fix them, or choose others "
            "with --kubeconfig or --context"
        )


class ForbiddenError(ApiError):
    """403: forbidden by RBAC, a quota, or a terminating namespace (see the causes of the status)."""

    reasons = ("Forbidden",)
    code = 403


class NotFoundError(ApiError):
    """404: no such object, namespace or resource; the message ends with the requested path."""

    reasons = ("NotFound",)
    code = 404

    def __str__(self) -> str:
        message = super().__str__()
        return message if not self.url or self.url in message else f"{message} ({self.method} {self.url})"


class MethodNotAllowedError(ApiError):
    """405: the resource does not support this verb."""

    reasons = ("MethodNotAllowed",)
    code = 405


class ConflictError(ApiError):
    """409: the object has changed since we read it, or a precondition failed."""

    reasons = ("Conflict",)
    code = 409


class FieldConflict(msgspec.Struct, frozen=True):
    """A field that another manager has set to a different value."""

    field: str
    """``.spec.replicas``, ``.data.text``."""
    message: str
    """The field's manager, as the server words it: ``conflict with "kubectl-edit" using v1``."""


class ApplyConflictError(ConflictError):
    """409: another manager has set applied fields to different values; nothing was changed."""

    @property
    def conflicts(self) -> tuple[FieldConflict, ...]:
        """The conflicting fields."""
        causes = (self.status.details.causes if self.status.details is not None else None) or ()
        return tuple(
            FieldConflict(cause.field or "", cause.message or "")
            for cause in causes
            if cause.reason == FIELD_MANAGER_CONFLICT
        )

    def __str__(self) -> str:
        return f"{super().__str__()}; leave these fields out, or apply with force=True to take them over"


class AlreadyExistsError(ApiError):
    """409: an object of that name already exists."""

    reasons = ("AlreadyExists",)


class ExpiredError(ApiError):
    """410: the resource version or page is no longer available (``Expired``; ``Gone`` from old servers).

    ``continue_token`` is the server's token for an inconsistent continuation of the list, usually ``""``.
    """

    reasons = ("Expired", "Gone")
    code = 410

    @property
    def continue_token(self) -> str:
        """The token that returns the rest of the list at the newest version."""
        return (self.status.metadata.continue_ if self.status.metadata is not None else None) or ""


class RequestTooLargeError(ApiError):
    """413: the object exceeds the server's size limit."""

    reasons = ("RequestEntityTooLarge",)
    code = 413


class InvalidError(ApiError):
    """422: the object is invalid; the causes of the status name the fields."""

    reasons = ("Invalid",)
    code = 422


class TooManyRequestsError(ApiError):
    """429: the server is overloaded and has not processed the request."""

    reasons = ("TooManyRequests",)
    code = 429
    retryable = True


class InternalServerError(ApiError):
    """500: an internal failure of the server, its webhooks or its storage."""

    reasons = ("InternalError",)
    code = 500
    retryable = True
    may_have_acted = True


class ServiceUnavailableError(ApiError):
    """503: the server or its backend is unavailable; also 502 from a proxy in front of it."""

    reasons = ("ServiceUnavailable",)
    code = 503
    retryable = True
    may_have_acted = True


class ServerTimeoutError(ApiError):
    """The server timed out: 504 ``Timeout``, or 500 ``ServerTimeout``."""

    reasons = ("Timeout", "ServerTimeout")
    code = 504
    retryable = True
    may_have_acted = True


_KINDS: tuple[type[ApiError], ...] = (
    BadRequestError,
    UnauthorizedError,
    ForbiddenError,
    NotFoundError,
    MethodNotAllowedError,
    ConflictError,
    AlreadyExistsError,
    ExpiredError,
    RequestTooLargeError,
    InvalidError,
    TooManyRequestsError,
    InternalServerError,
    ServiceUnavailableError,
    ServerTimeoutError,
)
_BY_REASON = {reason: kind for kind in _KINDS for reason in kind.reasons}
_BY_CODE = {kind.code: kind for kind in _KINDS if kind.code is not None} | {502: ServiceUnavailableError}


def api_error_type(code: int | None, reason: str | None) -> type[ApiError]:
    """Return the error type for a response: by its reason if known, else by its code."""
    if reason and reason in _BY_REASON:
        return _BY_REASON[reason]
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code is not None and code >= 500:
        return InternalServerError
    return ApiError


def api_error(
    status: Status, *, method: str = "", url: str = "", retry_after_seconds: float | None = None
) -> ApiError:
    """Return (not raise) the error for a failure status of a response or a watch event."""
    kind = api_error_type(status.code, status.reason)
    if kind is ConflictError and status.has_cause(FIELD_MANAGER_CONFLICT):
        kind = ApplyConflictError
    return kind(status, method, url, retry_after_seconds)


# ----------------------------------------------------------------------------------------- transport errors


class TransportError(ClientError):
    """No valid response arrived: a network or TLS failure, or a peer that is not an API server."""

    retryable = True


class ConnectionFailedError(TransportError):
    """The connection failed or was closed: refused, reset, no such host. The message names host and port."""

    def __init__(self, message: str, *, may_have_acted: bool = False) -> None:
        super().__init__(message)
        self.may_have_acted = may_have_acted


class RequestTimedOutError(TransportError):
    """The server accepted the request and did not respond in time."""

    may_have_acted = True


class TlsError(TransportError):
    """The TLS handshake failed: an untrusted, expired or refused certificate, or one for another name."""


class ResponseTruncatedError(TransportError):
    """The connection broke within a response or a watch."""

    may_have_acted = True


class UnexpectedResponseError(TransportError):
    """The response is not an API server's: a redirect, or a body that is not the expected type."""

    may_have_acted = True


class AnswerTooLargeError(UnexpectedResponseError):
    """A response is larger than any API server's response to this request."""


class LineTooLongError(TransportError):
    """A watch sent a line that is longer than any object can be."""


class UndecodableEventError(TransportError):
    """A watch event cannot be decoded; the message never contains its content.

    ``key`` and ``resource_version`` identify the object if its metadata could be read.
    """

    def __init__(
        self, resource: str, problem: str, *, key: ObjectKey | None = None, resource_version: str = ""
    ) -> None:
        of_what = f" of {key}" if key is not None else ""
        super().__init__(f"a watch event{of_what} in {resource} cannot be decoded: {problem}")
        self.resource = resource
        self.key = key
        self.resource_version = resource_version


# ------------------------------------------------------------------------------------- configuration errors


class ConfigError(ClientError):
    """The configuration of a connection is unusable; the message names the file, the entry and the remedy."""


class CredentialError(ConfigError):
    """Credentials are temporarily unavailable: a plugin or an identity provider failed. Retryable."""

    retryable = True


def is_namespace_terminating(error: Exception) -> bool:
    """Return whether a create was refused because its namespace is terminating (S-72, E-22)."""
    return isinstance(error, ForbiddenError) and error.status.has_cause(NAMESPACE_TERMINATING)


def is_gone(error: Exception, resource: Resource[Any], key: ObjectKey) -> bool:
    """Return whether the response proves that this object does not exist.

    Only a Status with reason NotFound that names the object and its resource is proof. Any other 404 is not:
    a proxy, or an API server that is starting, responds with 404 to requests for existing objects.
    """
    if not isinstance(error, NotFoundError) or error.status.reason != "NotFound":
        return False
    details = error.status.details
    return details is not None and details.name == key.name and details.kind in (None, resource.plural)
