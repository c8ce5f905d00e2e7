"""Times as annotations carry them."""

import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})")


def parse_time(text: str) -> datetime | None:
    """Read RFC 3339, to the microsecond; None where it is anything else."""
    found = _RFC_3339.fullmatch(text)
    if found is None:
        return None
    seconds, fraction, zone = found.groups()
    try:
        time = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone))
    except ValueError:  # the 30th of February
        return None
    return time.replace(microsecond=int((fraction or "0")[:6].ljust(6, "0"))).astimezone(UTC)
