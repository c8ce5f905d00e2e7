"""Quantities: exact values, and thousandths rounded up."""

from decimal import Decimal

import pytest

from aiokube.api.quantity import milli_value, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+2", "2"),
        ("-3", "-3"),
        ("100m", "0.1"),
        ("250u", "0.00025"),
        ("7n", "0.000000007"),
        ("1k", "1000"),
        ("2M", "2000000"),
        ("3G", "3000000000"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("2E", "2e18"),
        ("1Ki", "1024"),
        ("1.5Mi", "1572864"),
        ("2Gi", "2147483648"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12E-1", "1.2"),
        ("1e+2", "100"),
    ],
)
def test_quantities_are_parsed_to_exact_decimals(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "m", ".", "1 ", " 1", "1K", "1mi", "1e", "1e1.5", "1e3k", "0x10", "1_000", "--1", "\u0661"]
)
def test_an_invalid_quantity_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("2", 2000),
        ("100m", 100),
        ("1.0005", 1001),
        ("1u", 1),
        ("3920m", 3920),
        ("nonsense", 0),
        ("0", 0),
        ("9E", 2**63 - 1),
        ("1e999999999", 2**63 - 1),
        ("-1e999999999", 1 - 2**63),
        ("1e-999999999", 1),
    ],
)
def test_milli_values_are_rounded_up_bounded_and_zero_for_invalid_quantities(text: str, milli: int) -> None:
    assert milli_value(text) == milli
