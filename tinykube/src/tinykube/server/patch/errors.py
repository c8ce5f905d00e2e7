"""The errors of patches."""

from tinykube.server.errors import StatusError

_CUSTOM_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


class PatchError(ValueError):
    """A patch that cannot be applied. ``code``: 400 malformed, 413 too large, 422 not applicable."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def go_type_of(value: object) -> str:
    """Return the name of a value's type in errors of Go's JSON decoder."""
    names = {str: "string", bool: "bool", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")


def no_strategic_merge() -> StatusError:
    """415: a strategic merge patch of a custom resource or its subresource, which has no merge keys."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(_CUSTOM_PATCHES),
        details={},
    )
