"""What judging a value has found: errors, and how much of the schema it met (the best of several is told)."""

import json
from typing import Any, Final

import msgspec

from tinykube.server.errors import FieldError


class _New:
    """Marks what was not there before an update."""


NEW: Final = _New()


class ValidationResult(msgspec.Struct):
    """Errors so far. ``matches`` counts what was met."""

    errors: list[FieldError] = msgspec.field(default_factory=list)
    matches: int = 0

    @staticmethod
    def of(error: FieldError, *, reason: str = "") -> "ValidationResult":
        """Return a result with one error."""
        result = ValidationResult()
        result.add(error, reason=reason)
        return result

    def add(self, error: FieldError, *, reason: str = "") -> None:
        """Note an error, for another reason than the usual one where one is given."""
        self.errors.append(msgspec.structs.replace(error, reason=reason) if reason else error)

    def whole(self, text: str) -> None:
        """Note an error that has no field of its own."""
        self.errors.append(FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}'))

    def merge(self, other: "ValidationResult") -> None:
        """Take in what another has found."""
        self.errors += other.errors
        self.matches += other.matches


def told_error(error: FieldError, field: str) -> FieldError:
    """Return an error at its place below a field."""
    if not field:
        return error
    if error.field == "<nil>":
        return msgspec.structs.replace(error, field=field)
    return msgspec.structs.replace(error, field=f"{field}.{error.field}" if error.field else field)


def number_text(value: Any) -> str:
    """Return a number as Go prints a float64 (``10``, ``0.5``, ``1e+21``), anything else as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    number = float(value)
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return repr(number)
