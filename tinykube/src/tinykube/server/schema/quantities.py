"""Quantities in canonical form: ``0.5`` becomes ``500m``, ``1024Mi`` becomes ``1Gi``.

Spellings that upstream considers canonical are kept, including ``5.`` and ``+1``.
"""

import re
from decimal import ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache

from aiokube.api.quantity import parse_quantity

NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_SUFFIX = "unable to parse quantity's suffix"

_PLAIN = re.compile(
    r"[1-9][0-9]{0,2}(?:m|Ki|Mi|Gi|k|M|G)?"
)  # the common case; canonical except for multiples of 8 with Ki
_FORM = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)")
_SI = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SI_BY_EXPONENT = {exponent: suffix for suffix, exponent in _SI.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_BY_POWER = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST = 2**63 - 1
_LARGEST_EXPONENT = 200  # beyond any real measurement; larger exponents are an attack
_MAX_CHARACTERS = 256
_EXACT = Context(prec=1000)


@lru_cache(4096)  # clusters use few distinct quantities
def canonical_quantity(text: str, *, to_milli: bool = False) -> str:
    """Return the canonical form; ``to_milli`` rounds up to thousandths, as for resource lists.

    Raises ``ValueError`` with upstream's message for invalid quantities.
    """
    if _PLAIN.fullmatch(text) and not text.endswith("i"):
        return text
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(NOT_A_QUANTITY)
    text = text.strip()
    match = _FORM.fullmatch(text)
    if match is None or not text or text == ".":
        raise ValueError(NOT_A_QUANTITY)
    sign, whole, fraction, suffix, power = match.groups()
    fraction = fraction or ""
    exponent = _exponent(suffix, power)
    finest = -3 if to_milli else -9
    if _is_canonical(whole or "0", fraction, suffix, exponent, finest):
        return text
    with localcontext(_EXACT):
        plain = f"{sign}{whole or '0'}.{fraction or '0'}"
        value = parse_quantity(plain + suffix + power)
        rounded = value.quantize(Decimal(1).scaleb(finest), rounding=ROUND_UP) if value else value
        if to_milli and rounded != value and value < 0:
            rounded += Decimal(1).scaleb(finest)  # rounding up is towards the larger number
        return _spell(rounded, suffix, has_exponent=power != "")


def _exponent(suffix: str, power: str) -> int:
    """Return the power of ten of a decimal suffix; 0 for a binary one. Raises ``ValueError``."""
    if suffix in ("e", "E") and power.lstrip("+-"):
        exponent = int(power)
        if abs(exponent) <= _LARGEST_EXPONENT:
            return exponent
    elif power == "":
        if suffix in _BINARY:
            return 0
        if suffix in _SI:
            return _SI[suffix]
    raise ValueError(BAD_SUFFIX)


def _is_canonical(whole: str, fraction: str, suffix: str, exponent: int, finest: int) -> bool:
    digits = whole + fraction
    if suffix in _BINARY:
        fits = len(whole) + _BINARY[suffix] * 3 // 10 + 1 <= 15
        return fits and fraction == "" and int(whole) & 7 != 0
    scale = exponent - len(fraction)
    return (
        len(digits) <= 18
        and scale >= finest
        and scale % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )


def _spell(value: Decimal, suffix: str, *, has_exponent: bool) -> str:
    if not value:
        return "0"
    if suffix in _BINARY:
        value = max(min(value, Decimal(_LARGEST)), Decimal(-_LARGEST))
        if abs(value) >= 1024 and value == value.to_integral_value():
            number, power = int(value), 0
            while number % 1024 == 0 and power < len(_BINARY_BY_POWER) - 1:
                number, power = number // 1024, power + 1
            return f"{number}{_BINARY_BY_POWER[power]}"
    sign, digits, place = value.normalize().as_tuple()
    exponent = int(place)  # a quantity is finite
    mantissa = "".join(map(str, digits)) + "0" * (exponent % 3)
    exponent -= exponent % 3
    number_text = ("-" if sign else "") + mantissa
    if has_exponent or exponent not in _SI_BY_EXPONENT:
        return f"{number_text}e{exponent}" if exponent else number_text
    return number_text + _SI_BY_EXPONENT[exponent]
