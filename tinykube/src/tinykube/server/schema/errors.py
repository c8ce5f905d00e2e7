"""Errors of documents that do not conform to their type."""


class ConformError(ValueError):
    """A value has the wrong type or form; the text is that of Go's JSON decoder."""


class MismatchError(ConformError):
    """A JSON value has the wrong type. Its place is set while the error propagates out of the document."""

    def __init__(self, found: str, go_type: str) -> None:
        super().__init__(found, go_type)
        self._found = found
        self._go_type = go_type
        self._place = ""

    def at(self, struct_name: str, path: str) -> None:
        """Set the place: the innermost struct, and the field names from the top. Only the first call counts."""
        if not self._place:
            self._place = f"Go struct field {struct_name}.{path}"

    def __str__(self) -> str:
        """Return the decoder's message."""
        place = self._place or "Go value"
        return f"json: cannot unmarshal {self._found} into {place} of type {self._go_type}"
