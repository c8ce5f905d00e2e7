"""Numbers that may be given as percentages."""

from aiokube.api.apps import IntOrPercent


def amount(value: IntOrPercent | None, default: IntOrPercent, total: int, *, round_up: bool) -> int:
    """Return a number, or a percentage of ``total``; what cannot be read counts as 0."""
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
    """Return how many pods a rolling update may be above and below ``replicas``: 25 % each where not said.

    Surge is rounded up, unavailability down; where both come to nothing, one pod may be missing, or nothing would move.
    """
    surge = amount(max_surge, "25%", replicas, round_up=True)
    unavailable = amount(max_unavailable, "25%", replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas) if replicas else unavailable
