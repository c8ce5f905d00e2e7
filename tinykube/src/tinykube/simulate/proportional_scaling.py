"""How a new total is shared out among several, each by its part of the old one."""

from collections.abc import Sequence


def share_out(total: int, weights: Sequence[tuple[int, int]]) -> list[int]:
    """Return each one's share of ``total``; ``weights`` are (what it has, the total when it got that).

    Rounded, and what rounding leaves over goes to the largest (the last of equal ones); no share is below 0, and the
    sum is ``total``.
    """
    had = sum(has for has, _ in weights)
    change = total - had
    shares = [has for has, _ in weights]
    largest_first = sorted(range(len(weights)), key=lambda index: (-weights[index][0], -index))
    left = change
    for index in largest_first:
        has, of = weights[index]
        part = round(has * total / of) - has if of else 0
        part = max(min(part, left), 0) if change > 0 else min(max(part, left, -has), 0)
        shares[index] += part
        left -= part
    for index in largest_first:
        if not left:
            break
        part = left if left > 0 else max(left, -shares[index])
        shares[index] += part
        left -= part
    return shares
