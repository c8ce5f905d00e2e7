"""Values that are a number or a percentage."""

from aiokube.api.apps import IntOrPercent


def scaled_value(value: IntOrPercent | None, default: IntOrPercent, total: int, *, round_up: bool) -> int:
    """Return a number, or the given percentage of ``total``; invalid text counts as 0."""
    given = default if value is None else value
    if isinstance(given, int):
        return max(given, 0)
    digits = given.removesuffix("%")
    if not digits.isdecimal():
        return 0
    hundredths = int(digits) * total
    return -(-hundredths // 100) if round_up else hundredths // 100


def surge_and_unavailable(
    max_surge: IntOrPercent | None, max_unavailable: IntOrPercent | None, replicas: int
) -> tuple[int, int]:
    """Return by how many pods a rolling update may exceed, and fall short of, ``replicas``: 25 % each by default.

    Surge is rounded up, unavailability down. If both are 0, one pod may be unavailable; otherwise the update
    could not proceed.
    """
    surge = scaled_value(max_surge, "25%", replicas, round_up=True)
    unavailable = scaled_value(max_unavailable, "25%", replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas) if replicas else unavailable
