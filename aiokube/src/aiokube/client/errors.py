"""Everything that can go wrong between us and an API server, sorted by who has to act.

Three families under :class:`ClientError`: the server answered and said no (:class:`ApiError`), no proper answer
came (:class:`TransportError`), or we were set up wrongly (:class:`ConfigError`). Each error tells two facts that a
caller needs in order to go on: ``retryable`` - the same request, sent again later, may well succeed - and
``may_have_acted`` - the server may have carried the request out although we were told nothing good.

No error's text holds a header, a credential, a query string, or any part of a request or of an object.
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

# Servers before 1.19 know no cause for it and say it in words: in the message, or in a nameless cause.
_TOO_LARGE_WORDS = "Too large resource version"


class ClientError(Exception):
    """The root of everything this package raises."""

    retryable: bool = False
    may_have_acted: bool = False


# ------------------------------------------------------------------------------------- the server said no


class ApiError(ClientError):
    """The server answered, and refused; ``str()`` is its own message, in one line.

    ``status`` is the whole answer, ``method`` and ``url`` (without the query) the question, and
    ``retry_after_seconds`` what the server asked to wait, in a header or in the status; None where it did not ask.
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
        """Tell whether the version asked for is one the server has not reached yet (in any of its dialects)."""
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
    """400: the request makes no sense to the server."""

    reasons = ("BadRequest",)
    code = 400


class UnauthorizedError(ApiError):
    """401: the server does not know who we are, even after the credentials were renewed.

    ``identity`` says whose credentials these were and where they came from, ``""`` where that is not known.
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
    """403: we may not; RBAC, a quota, or a namespace that is going away (see the status' causes)."""

    reasons = ("Forbidden",)
    code = 403


class NotFoundError(ApiError):
    """404: no such object, namespace or resource; the text ends with the path that was requested."""

    reasons = ("NotFound",)
    code = 404

    def __str__(self) -> str:
        message = super().__str__()
        return message if not self.url or self.url in message else f"{message} ({self.method} {self.url})"


class MethodNotAllowedError(ApiError):
    """405: the resource does not know this verb."""

    reasons = ("MethodNotAllowed",)
    code = 405


class ConflictError(ApiError):
    """409: the object has changed since we read it, or a precondition does not hold."""

    reasons = ("Conflict",)
    code = 409


class FieldConflict(msgspec.Struct, frozen=True):
    """A field that another manager has set to another value."""

    field: str
    """``.spec.replicas``, ``.data.text``."""
    message: str
    """Who manages it, as the server says it: ``conflict with "kubectl-edit" using v1``."""


class ApplyConflictError(ConflictError):
    """409: another manager has set fields that were applied, to other values; nothing was changed."""

    @property
    def conflicts(self) -> tuple[FieldConflict, ...]:
        """The fields in conflict."""
        causes = (self.status.details.causes if self.status.details is not None else None) or ()
        return tuple(
            FieldConflict(cause.field or "", cause.message or "")
            for cause in causes
            if cause.reason == FIELD_MANAGER_CONFLICT
        )

    def __str__(self) -> str:
        return f"{super().__str__()}; leave these fields out, or apply with force=True to take them over"


class AlreadyExistsError(ApiError):
    """409: an object of that name is there already."""

    reasons = ("AlreadyExists",)


class ExpiredError(ApiError):
    """410: the resource version, or the page asked for, is no longer kept (``Expired``; ``Gone`` from old servers).

    ``continue_token`` is what the server offers for going on with an inconsistent list, ``""`` mostly.
    """

    reasons = ("Expired", "Gone")
    code = 410

    @property
    def continue_token(self) -> str:
        """The token under which the rest of a list can still be had, at the newest version."""
        return (self.status.metadata.continue_ if self.status.metadata is not None else None) or ""


class RequestTooLargeError(ApiError):
    """413: the object is larger than the server takes."""

    reasons = ("RequestEntityTooLarge",)
    code = 413


class InvalidError(ApiError):
    """422: the object breaks a rule; the causes of the status name the fields."""

    reasons = ("Invalid",)
    code = 422


class TooManyRequestsError(ApiError):
    """429: the server is too busy and has not looked at the request."""

    reasons = ("TooManyRequests",)
    code = 429
    retryable = True


class InternalServerError(ApiError):
    """500: something broke inside the server (a webhook, its store)."""

    reasons = ("InternalError",)
    code = 500
    retryable = True
    may_have_acted = True


class ServiceUnavailableError(ApiError):
    """503: the server, or what lies behind it, is not up; also for 502 from a proxy before it."""

    reasons = ("ServiceUnavailable",)
    code = 503
    retryable = True
    may_have_acted = True


class ServerTimeoutError(ApiError):
    """The server gave up in time: 504 ``Timeout``, or 500 ``ServerTimeout``."""

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
    """Return the type for an answer: by its reason where that is known, else by its code."""
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
    """Return (not raise) the error that a failure status stands for: of a response, or of a watch event."""
    kind = api_error_type(status.code, status.reason)
    if kind is ConflictError and status.has_cause(FIELD_MANAGER_CONFLICT):
        kind = ApplyConflictError
    return kind(status, method, url, retry_after_seconds)


# --------------------------------------------------------------------------------- no proper answer came


class TransportError(ClientError):
    """No proper answer came: the network, TLS, or something that does not speak the API."""

    retryable = True


class ConnectionFailedError(TransportError):
    """The server was not reached, or hung up: refused, reset, no such host. The text names host and port."""

    def __init__(self, message: str, *, may_have_acted: bool = False) -> None:
        super().__init__(message)
        self.may_have_acted = may_have_acted


class RequestTimedOutError(TransportError):
    """The server took the request and did not answer in the time we give it."""

    may_have_acted = True


class TlsError(TransportError):
    """The handshake failed: a certificate that is not trusted, for another name, expired, or not accepted."""


class ResponseTruncatedError(TransportError):
    """The connection broke inside the answer, or inside a watch."""

    may_have_acted = True


class UnexpectedResponseError(TransportError):
    """The answer is not one of an API server: a redirect, or bytes that are not what was asked for."""

    may_have_acted = True


class AnswerTooLargeError(UnexpectedResponseError):
    """An answer is larger than any answer of an API server to this request."""


class LineTooLongError(TransportError):
    """A watch sent a line longer than any object can be."""


class UndecodableEventError(TransportError):
    """An event of a watch is not what its resource promises; the text never holds its content.

    ``key`` and ``resource_version`` say which object it was, where at least its metadata could be read.
    """

    def __init__(
        self, resource: str, problem: str, *, key: ObjectKey | None = None, resource_version: str = ""
    ) -> None:
        of_what = f" of {key}" if key is not None else ""
        super().__init__(f"a watch event{of_what} in {resource} cannot be decoded: {problem}")
        self.resource = resource
        self.key = key
        self.resource_version = resource_version


# ----------------------------------------------------------------------------------- we were set up wrongly


class ConfigError(ClientError):
    """What we were given to reach a server by does not work: the text says file, entry, and what to do."""


class CredentialError(ConfigError):
    """The credentials could not be had just now: a plugin or an identity provider failed. It may pass."""

    retryable = True


def is_namespace_terminating(error: Exception) -> bool:
    """Tell whether a create was refused because its namespace is going: nothing is owed to it any more (S-72, E-22)."""
    return isinstance(error, ForbiddenError) and error.status.has_cause(NAMESPACE_TERMINATING)


def is_gone(error: Exception, resource: Resource[Any], key: ObjectKey) -> bool:
    """Return whether the server says that this object does not exist.

    Only a Status with reason NotFound that names the object and its resource says so. Any other 404 proves
    nothing: a proxy, or an API server that is starting, answers 404 to requests for objects that exist.
    """
    if not isinstance(error, NotFoundError) or error.status.reason != "NotFound":
        return False
    details = error.status.details
    return details is not None and details.name == key.name and details.kind in (None, resource.plural)
