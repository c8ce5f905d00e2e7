"""Quantities: ``100m``, ``1.5``, ``2Gi``, ``1e3``."""

import re
from decimal import ROUND_CEILING, Decimal

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?")
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
    """Return the exact value of a quantity. Raises ``ValueError`` where it is not one."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: a number with a suffix such as m, k, Mi or e3 is")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or ""))
    return value * _SCALE[suffix] if suffix else value


def milli_value(text: str) -> int:
    """Return a quantity in thousandths, rounded up as Kubernetes does; 0 where it cannot be read."""
    try:
        return int((parse_quantity(text) * 1000).to_integral_value(ROUND_CEILING))
    except ValueError:
        return 0
