"""Why a patch cannot be applied."""

from tinykube.server.errors import StatusError

_CUSTOM_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


class PatchError(ValueError):
    """A patch that cannot be applied. ``code``: 400 it is no patch, 413 it is too long, 422 it does not fit."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def go_type_of(value: object) -> str:
    """Return how Go's JSON decoder names a value of the wrong type."""
    names = {str: "string", bool: "bool", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "number")


def no_strategic_merge() -> StatusError:
    """415: a strategic merge into a custom resource, or into a subresource of it: it has no merge keys."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(_CUSTOM_PATCHES),
        details={},
    )
