"""Checks of scalar values: each returns the canonical value or raises a ConformError.

Values that mean unset (the zero time) become ``None``.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any

from tinykube.server.schema.errors import ConformError, MismatchError
from tinykube.server.schema.model import Scalar, ScalarRef
from tinykube.server.schema.quantities import NOT_A_QUANTITY, canonical_quantity
from tinykube.server.schema.times import canonical_micro_time, canonical_time

ScalarCheck = Callable[[Any], Any]

_NAMES: Mapping[type, str] = {str: "string", bool: "bool", list: "array", dict: "object", type(None): "null"}


def mismatch(value: object, go_type: str) -> MismatchError:
    """Return the error of a value of the wrong JSON type; where a number is expected, numbers are quoted."""
    found = _NAMES.get(type(value), "number")
    if found == "number" and go_type in ("int32", "int64", "float64"):
        found = f"number {value}"
    return MismatchError(found, go_type)


def scalar_check(ref: ScalarRef, *, to_milli: bool = False) -> ScalarCheck:
    """Return the check of a scalar. ``to_milli`` is for the quantities of resource lists, which are rounded up."""
    match ref.scalar:
        case Scalar.STRING:
            return _exact(str, ref.go_name)
        case Scalar.BOOL:
            return _exact(bool, ref.go_name)
        case Scalar.INT32:
            return _integer(31, ref.go_name)
        case Scalar.INT64:
            return _integer(63, ref.go_name)
        case Scalar.FLOAT64:
            return _number
        case Scalar.BYTES:
            return _base64
        case Scalar.QUANTITY:
            return _quantity_to_milli if to_milli else _quantity
        case Scalar.INT_OR_STRING:
            return _int_or_string
        case Scalar.TIME:
            return _time(canonical_time)
        case Scalar.MICRO_TIME:
            return _time(canonical_micro_time)
        case Scalar.RAW | Scalar.FIELDS_V1 | Scalar.ANY:
            return _anything


def _exact(python_type: type, go_type: str) -> ScalarCheck:
    def check(value: Any) -> Any:
        if type(value) is python_type:
            return value
        raise mismatch(value, go_type)

    return check


def _integer(bits: int, go_type: str) -> ScalarCheck:
    least, most = -(2**bits), 2**bits - 1

    def check(value: Any) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        raise mismatch(value, go_type)

    return check


_int32 = _integer(31, "int32")


def _number(value: Any) -> Any:
    if type(value) is int or type(value) is float:
        return value
    raise mismatch(value, "float64")


def _int_or_string(value: Any) -> Any:
    return value if type(value) is str else _int32(value)


def _quantity(value: Any) -> str:
    return _canonical(value, to_milli=False)


def _quantity_to_milli(value: Any) -> str:
    return _canonical(value, to_milli=True)


def _canonical(value: Any, *, to_milli: bool) -> str:
    # Numbers are parsed from their digits, other values from their text, which is never a quantity.
    if type(value) is not str:
        if type(value) is not int and type(value) is not float:
            raise ConformError(NOT_A_QUANTITY)
        value = str(value)
    try:
        return canonical_quantity(value, to_milli=to_milli)
    except ValueError as error:
        raise ConformError(str(error)) from None


def _time(canonical: Callable[[str], str | None]) -> ScalarCheck:
    def check(value: Any) -> Any:
        if type(value) is not str:
            raise mismatch(value, "string")
        try:
            return canonical(value)
        except ValueError as error:
            raise ConformError(str(error)) from None

    return check


def _base64(value: Any) -> Any:
    if type(value) is list and all(type(one) is int and 0 <= one <= 255 for one in value):
        return binascii.b2a_base64(bytes(value), newline=False).decode()  # Go accepts a list of numbers, too
    if type(value) is not str:
        raise mismatch(value, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        decoded = binascii.a2b_base64(text.encode("ascii", "replace"), strict_mode=True)
    except binascii.Error:
        raise ConformError(f"illegal base64 data at input byte {_first_illegal(text)}") from None
    return binascii.b2a_base64(decoded, newline=False).decode()


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _first_illegal(text: str) -> int:
    for position, character in enumerate(text):
        if character not in _ALPHABET and not (character == "=" and position % 4 >= 2):
            return position
        if character == "=":  # padding, followed by an illegal character
            return min(len(text), position - position % 4 + 4)
    return len(text) - len(text) % 4


def _anything(value: Any) -> Any:
    return value
