"""Timestamps are parsed and formatted like in Kubernetes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokube.api.times import format_micro_time, format_time, parse_time

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05Z", MOMENT.replace(microsecond=0)),
        ("2026-01-02T03:04:05.678901Z", MOMENT),
        ("2026-01-02T03:04:05.6789019999Z", MOMENT),
        ("2026-01-02T05:04:05.678901+02:00", MOMENT),
    ],
)
def test_rfc_3339_times_are_parsed_to_the_microsecond(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "yesterday",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+02:00",
    ],
)
def test_other_time_formats_are_rejected(text: str | None) -> None:
    assert parse_time(text) is None


def test_times_are_formatted_in_utc_with_zero_or_six_fractional_digits() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-5)))

    assert format_time(elsewhere) == "2026-01-02T03:04:05Z"
    assert format_micro_time(elsewhere) == "2026-01-02T03:04:05.678901Z"
    assert format_micro_time(MOMENT.replace(microsecond=0)) == "2026-01-02T03:04:05.000000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_formatted_time_parses_to_the_same_instant(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)
