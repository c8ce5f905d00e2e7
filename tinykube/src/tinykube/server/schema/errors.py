"""What is said where a document does not have the form of its type."""


class ConformError(ValueError):
    """A value has the wrong type or form; the text is that of the server's JSON decoder."""


class MismatchError(ConformError):
    """A JSON value of one type stands where another belongs. Gets its place on the way out of the document."""

    def __init__(self, found: str, go_type: str) -> None:
        super().__init__(found, go_type)
        self._found = found
        self._go_type = go_type
        self._place = ""

    def at(self, struct_name: str, path: str) -> None:
        """Say where it is: the innermost struct, and the names of the fields from the top. The first call counts."""
        if not self._place:
            self._place = f"Go struct field {struct_name}.{path}"

    def __str__(self) -> str:
        """Return the decoder's text."""
        place = self._place or "Go value"
        return f"json: cannot unmarshal {self._found} into {place} of type {self._go_type}"
