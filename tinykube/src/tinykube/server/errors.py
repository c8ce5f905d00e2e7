"""API errors: one exception with the Status that clients parse.

Messages that clients read (client-go, kubectl, controllers) are kube-apiserver's.
"""

from collections.abc import Sequence

import msgspec

from tinykube.server.objects import GroupResource, JsonObject

_MAX_ERRORS = 1_000


class FieldError(msgspec.Struct, frozen=True, gc=False):
    """One error of one field. ``reason`` is machine-readable, ``message`` follows the path."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        """Return the error as a line of a Status message."""
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing required field."""
    return FieldError("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """Return the error of an invalid value."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {quoted(value)}: {detail}")


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    """Return the error of a value outside an enumeration."""
    known = _cut(", ".join(f'"{one}"' for one in supported))
    return FieldError(
        "FieldValueNotSupported", field, f"Unsupported value: {quoted(value)}: supported values: {known}"
    )


def duplicate(field: str, value: object) -> FieldError:
    """Return the error of a duplicate value."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {quoted(value)}")


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error of a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a string that is too long."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return the error of a list that is too long."""
    return FieldError("FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} items")


_MAX_QUOTED_CHARACTERS = 8 * 1024
"""A body of 3 MiB may be quoted a thousand times: unlimited, a response would have gigabytes."""


def quoted(value: object) -> str:
    """Return a value as errors print it: strings quoted, others as JSON, long ones truncated."""
    return _cut(msgspec.json.encode(value).decode() if not isinstance(value, bytes) else repr(value))


def _cut(text: str) -> str:
    left_out = len(text) - _MAX_QUOTED_CHARACTERS
    return text if left_out <= 0 else f"{text[:_MAX_QUOTED_CHARACTERS]}... ({left_out} more characters)"


class StatusError(Exception):
    """An error response with a Status. ``headers`` are sent with it (``Retry-After``, ``Allow``)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: JsonObject | None = None,
        metadata: JsonObject | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.headers = headers or {}

    def to_status(self) -> JsonObject:
        """Return the Status object of the response."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(resource: GroupResource, name: str) -> JsonObject:
    details: JsonObject = {}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    if resource.plural:
        details["kind"] = resource.plural
    return details


def bad_request(message: str) -> StatusError:
    """400: malformed request."""
    return StatusError(400, "BadRequest", message)


def not_found(resource: GroupResource, name: str) -> StatusError:
    """404: no such object."""
    return StatusError(404, "NotFound", f'{resource} "{name}" not found', details=_details(resource, name))


def already_exists(resource: GroupResource, name: str) -> StatusError:
    """409: the name is taken."""
    return StatusError(
        409, "AlreadyExists", f'{resource} "{name}" already exists', details=_details(resource, name)
    )


def conflict(resource: GroupResource, name: str, why: str) -> StatusError:
    """409: the object has changed, or was replaced."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource} "{name}": {why}',
        details=_details(resource, name),
    )


def stale(resource: GroupResource, name: str) -> StatusError:
    """409: the resource version of the request is not the current one."""
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def forbidden(
    resource: GroupResource, name: str, why: str, *, causes: Sequence[JsonObject] = ()
) -> StatusError:
    """403: the operation is not allowed."""
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
    message = f'{resource} "{name}" is forbidden: {why}' if name else f"{resource} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, details=details)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422: the object is invalid; the response lists the first thousand errors."""
    errors = errors[:_MAX_ERRORS]
    details: JsonObject = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    # Causes have the message without the field; the text has both.
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in errors
    ]
    lines = list(dict.fromkeys(str(error) for error in errors))
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    full_kind = f"{kind}.{group}" if group else kind
    return StatusError(422, "Invalid", f'{full_kind} "{name}" is invalid: {text}', details=details)


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """410: the requested history was compacted."""
    metadata: JsonObject = {"continue": continue_token} if continue_token else {}
    return StatusError(410, "Expired", message, metadata=metadata)


def method_not_allowed(resource: GroupResource) -> StatusError:
    """405: the resource does not support the verb."""
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def too_many_requests(message: str, *, retry_seconds: int) -> StatusError:
    """Return a 429 that clients wait for and try again."""
    return StatusError(
        429,
        "TooManyRequests",
        message,
        details={"retryAfterSeconds": retry_seconds},
        headers={"Retry-After": str(retry_seconds)},
    )


def internal(message: str) -> StatusError:
    """500: an unexpected error; the cause is in the server's log."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )
