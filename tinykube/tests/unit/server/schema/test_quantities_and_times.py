"""Canonical forms of quantities and times, each observed on a real kube-apiserver 1.36."""

import pytest

from tinykube.server.schema.quantities import canonical_quantity
from tinykube.server.schema.times import canonical_micro_time, canonical_time


@pytest.mark.parametrize(
    ("given", "plain", "milli"),
    [
        ("1024Mi", "1Gi", "1Gi"),
        ("0.5", "500m", "500m"),
        ("5e3", "5e3", "5e3"),
        ("1000m", "1", "1"),
        ("1e3", "1e3", "1e3"),
        ("100000000000000000000Ki", "9223372036854775807", "9223372036854775807"),
        ("0.00001n", "1n", "1m"),
        ("1.5Gi", "1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi", "512Mi"),
        ("1.0", "1", "1"),
        ("+1", "+1", "+1"),
        ("1E3", "1E3", "1E3"),
        ("1500e-3", "1500e-3", "1500e-3"),
        (" 1 ", "1", "1"),
        (".5", "500m", "500m"),
        ("5.", "5.", "5."),
        ("0", "0", "0"),
        ("00012", "00012", "00012"),
        ("1Ki", "1Ki", "1Ki"),
        ("8Ki", "8Ki", "8Ki"),
        ("0.5Ki", "512", "512"),
        ("-0", "0", "0"),
        ("0.1m", "100u", "1m"),
        ("2000e3", "2e6", "2e6"),
        ("1e-9", "1e-9", "1e-3"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("0Ki", "0", "0"),
        ("-1.5", "-1500m", "-1500m"),
        ("1.5E", "1500P", "1500P"),
        ("999999999999999999999n", "999999999999999999999n", "1T"),
    ],
)
def test_quantities_have_a_canonical_form(given: str, plain: str, milli: str) -> None:
    assert canonical_quantity(given) == plain
    assert canonical_quantity(given, to_milli=True) == milli
    assert canonical_quantity(plain) == plain


@pytest.mark.parametrize("text", ["", "x", "1_0", "1 Gi", "\u0661"])
def test_an_invalid_quantity_is_rejected_with_the_expected_format(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        canonical_quantity(text)


@pytest.mark.parametrize("text", ["12e", "1mi", "1kk", "1e999999999", "1m3", "--1"])
def test_an_invalid_suffix_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        canonical_quantity(text)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.9+02:00", "2019-12-31T22:00:00Z"),
        ("2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T1:00:00Z", "2020-01-01T01:00:00Z"),
        ("2020-01-01T00:00:00-23:59", "2020-01-01T23:59:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_are_normalised_to_utc_and_whole_seconds(given: str, seconds: str | None) -> None:
    assert canonical_time(given) == seconds


_MICRO = 'as "2006-01-02T15:04:05.000000Z07:00": cannot parse'


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("2020-01-01T00:00:00.1Z", f'{_MICRO} ".1Z" as ".000000"'),
        ("2020-01-01T00:00:00Z", f'{_MICRO} "Z" as ".000000"'),
        ("", f'{_MICRO} "" as "2006"'),
        ("2020-01-01T00:00:00.123456", f'{_MICRO} "" as "Z07:00"'),
        ("2020-01-01 00:00:00.123456Z", f'{_MICRO} " 00:00:00.123456Z" as "T"'),
        ("2020-01-01T00:00:00.1234567Z", f'{_MICRO} "7Z" as "Z07:00"'),
        ("2020-1-01T00:00:00.000000Z", f'{_MICRO} "1-01T00:00:00.000000Z" as "01"'),
        ("2020-01-01T00:00:00.123456+0100", f'{_MICRO} "+0100" as "Z07:00"'),
    ],
)
def test_a_micro_time_requires_exactly_six_fractional_digits(given: str, why: str) -> None:
    with pytest.raises(ValueError, match="parsing time") as caught:
        canonical_micro_time(given)
    assert str(caught.value) == f'parsing time "{given}" {why}'


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("2020-02-30T00:00:00.000000Z", "day out of range"),
        ("2020-13-01T00:00:00.000000Z", "month out of range"),
        ("2020-01-01T25:00:00.000000Z", "hour out of range"),
        ("2020-01-01T00:00:60.000000Z", "second out of range"),
        ("2020-01-01T00:00:00.123456Zx", 'extra text: "x"'),
    ],
)
def test_an_invalid_time_is_rejected(given: str, why: str) -> None:
    with pytest.raises(ValueError, match="parsing time") as caught:
        canonical_micro_time(given)
    assert str(caught.value) == f'parsing time "{given}": {why}'


def test_a_micro_time_keeps_its_microseconds() -> None:
    assert canonical_micro_time("2020-01-01T00:00:00.123456+01:00") == "2019-12-31T23:00:00.123456Z"
    assert canonical_micro_time("2020-01-01T00:00:00.100000Z") == "2020-01-01T00:00:00.100000Z"
