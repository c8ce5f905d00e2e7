"""Why a patch cannot be applied."""


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
