"""The result of validating a value: errors, and the number of matching constraints, to choose the best alternative."""

import json
from typing import Any, Final

import msgspec

from tinykube.server.errors import FieldError


class _New:
    """Marks a value without a previous one."""


NEW: Final = _New()


class ValidationResult(msgspec.Struct):
    """The errors so far. ``matches`` counts matching constraints."""

    errors: list[FieldError] = msgspec.field(default_factory=list)
    matches: int = 0

    @staticmethod
    def of(error: FieldError, *, reason: str = "") -> "ValidationResult":
        """Return a result with one error."""
        result = ValidationResult()
        result.add(error, reason=reason)
        return result

    def add(self, error: FieldError, *, reason: str = "") -> None:
        """Add an error, optionally with another reason."""
        self.errors.append(msgspec.structs.replace(error, reason=reason) if reason else error)

    def whole(self, text: str) -> None:
        """Add an error without a field."""
        self.errors.append(FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}'))

    def merge(self, other: "ValidationResult") -> None:
        """Add the errors and matches of another result."""
        self.errors += other.errors
        self.matches += other.matches


def error_below(error: FieldError, field: str) -> FieldError:
    """Return an error with its path below a field."""
    if not field:
        return error
    if error.field == "<nil>":
        return msgspec.structs.replace(error, field=field)
    return msgspec.structs.replace(error, field=f"{field}.{error.field}" if error.field else field)


def number_text(value: Any) -> str:
    """Format a number as Go prints a float64 (``10``, ``0.5``, ``1e+21``), other values as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    number = float(value)
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return repr(number)
