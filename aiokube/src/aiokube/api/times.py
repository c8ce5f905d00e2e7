"""Timestamps of the API: RFC 3339, parsed leniently, formatted like Go's metav1.Time and MicroTime."""

import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})", re.ASCII)


def parse_time(text: str | None) -> datetime | None:
    """Parse RFC 3339 into UTC, truncated to the microsecond. Return None for None and for invalid text."""
    found = _RFC_3339.fullmatch(text or "")
    if found is None:
        return None
    seconds, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone)).astimezone(UTC)
    except (ValueError, OverflowError):  # 30 February; year 1 or 9999 shifted out of range by its offset
        return None
    return moment.replace(microsecond=int((fraction or "0")[:6].ljust(6, "0")))


def format_time(moment: datetime) -> str:
    """Format as metav1.Time: UTC, whole seconds. ``moment`` has a time zone."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"  # a tenth of the cost of strftime


def format_micro_time(moment: datetime) -> str:
    """Format as metav1.MicroTime: UTC, exactly six fractional digits. ``moment`` has a time zone."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"
