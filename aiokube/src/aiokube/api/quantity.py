"""Quantities: ``100m``, ``1.5``, ``2Gi``, ``1e3``."""

import re
from decimal import ROUND_CEILING, Decimal

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,9})|([numkMGTPE]|[KMGTPE]i))?")
_LARGEST = 2**63 - 1  # quantities saturate, as in Kubernetes
_THOUSANDTH = Decimal("0.001")
_SCALE: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def parse_quantity(text: str) -> Decimal:
    """Return the exact value of a quantity. Raises ``ValueError`` if the text is not a quantity."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: a number with a suffix such as m, k, Mi or e3 is")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or ""))
    return value * _SCALE[suffix] if suffix else value


def milli_value(text: str) -> int:
    """Return a quantity in thousandths, rounded up as Kubernetes does; 0 if the text is not a quantity.

    Values that do not fit into 64 bits saturate.
    """
    try:
        value = parse_quantity(text)
    except ValueError:
        return 0
    # Compare before computing: Decimal arithmetic fails on exponents this large.
    if value.copy_abs() > _LARGEST // 1000:
        return _LARGEST if value > 0 else -_LARGEST
    if value.copy_abs() < _THOUSANDTH:
        return 1 if value > 0 else 0
    return int((value * 1000).to_integral_value(ROUND_CEILING))
