"""Parse and format times: RFC 3339, in UTC, with whole seconds or exactly six digits.

Error messages are those of Go's parser, which clients see.
"""

import re
from datetime import UTC, datetime, timedelta

from aiokube.api.times import format_micro_time, format_time

_SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_PLAIN_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_PARTS = tuple(
    (re.compile(form, re.ASCII), layout)
    for form, layout in (
        (r"(\d{4})", "2006"),
        (r"-", "-"),
        (r"(\d\d)", "01"),
        (r"-", "-"),
        (r"(\d\d)", "02"),
        (r"T", "T"),
        (r"(\d\d?)", "15"),
        (r":", ":"),
        (r"(\d\d)", "04"),
        (r":", ":"),
        (r"(\d\d)", "05"),
    )
)
_ANY_FRACTION = re.compile(r"(?:[.,](\d+))?", re.ASCII)
_MICROS = re.compile(r"[.,](\d{6})", re.ASCII)
_ZONE = re.compile(r"Z|([+-])(\d\d):(\d\d)", re.ASCII)
_ZERO = datetime(1, 1, 1, tzinfo=UTC)


def canonical_time(text: str) -> str | None:
    """Return a time with whole seconds, in UTC; ``None`` for the zero time. Raises ``ValueError`` with Go's message."""
    if _PLAIN.fullmatch(text) and not text.startswith("000"):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass  # parse again for the error message
        else:
            return text
    moment = _parse(text, _SECONDS_LAYOUT, _ANY_FRACTION, "")
    return None if moment is None else format_time(moment)


def canonical_micro_time(text: str) -> str | None:
    """Return a time with microseconds, in UTC; ``None`` for the zero time. Raises ``ValueError`` with Go's message."""
    if _PLAIN_MICRO.fullmatch(text) and not text.startswith("000"):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    moment = _parse(text, _MICRO_LAYOUT, _MICROS, ".000000")
    return None if moment is None else format_micro_time(moment)


def _parse(text: str, layout: str, fraction: re.Pattern[str], fraction_layout: str) -> datetime | None:
    rest = text
    numbers: list[int] = []

    def take(form: re.Pattern[str], element: str) -> re.Match[str]:
        nonlocal rest
        match = form.match(rest)
        if match is None:
            raise ValueError(
                f'parsing time {_quote(text)} as "{layout}": cannot parse {_quote(rest)} as "{element}"'
            )
        rest = rest[match.end() :]
        return match

    limits = (9999, 12, 31, 23, 59, 59)
    names = ("year", "month", "day", "hour", "minute", "second")
    for form, element in _PARTS:
        match = take(form, element)
        if form.groups:
            number = int(match[1])
            position = len(numbers)
            least = 1 if position == 1 else 0
            if position != 2 and not least <= number <= limits[position]:
                raise ValueError(f"parsing time {_quote(text)}: {names[position]} out of range")
            numbers.append(number)
    digits = take(fraction, fraction_layout)[1] or "0"
    zone = take(_ZONE, "Z07:00")
    if rest:
        raise ValueError(f"parsing time {_quote(text)}: extra text: {_quote(rest)}")
    year, month, day, hour, minute, second = numbers
    if year == 0:
        raise ValueError(f"parsing time {_quote(text)}: year out of range")  # datetime has no year 0
    try:
        moment = datetime(year, month, day, hour, minute, second, int(digits[:6].ljust(6, "0")), tzinfo=UTC)
    except ValueError:
        raise ValueError(f"parsing time {_quote(text)}: day out of range") from None
    if zone[1]:
        offset = timedelta(hours=int(zone[2]), minutes=int(zone[3]))
        try:
            moment = moment - offset if zone[1] == "+" else moment + offset
        except OverflowError:
            raise ValueError(f"parsing time {_quote(text)}: year out of range") from None
    return None if moment == _ZERO else moment


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
