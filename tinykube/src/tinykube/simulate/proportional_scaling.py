"""Divide a new number of replicas among ReplicaSets in proportion to their size."""

from collections.abc import Sequence


def proportional_shares(total: int, weights: Sequence[tuple[int, int]]) -> list[int]:
    """Return the shares of ``total``; ``weights`` are pairs of (current size, total at the time of that size).

    Shares are rounded, and the remainder goes to the largest (the last of equal ones). No share is negative,
    and their sum is ``total``.
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
