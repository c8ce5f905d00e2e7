"""Intended differences in which upstream keeps an oddity.

Each explanation is a rule of upstream's behaviour. The covered part is removed from both states before they are
compared; :mod:`tests.differential.invariants` holds the candidate to the better behaviour.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tests.differential.normalise import NormalState, different_keys

Lines = tuple[str, ...]

_HEADLESS = 'service.kubernetes.io/headless=""'
_PLACEHOLDER = "sizes [0]"


class Explanation(msgspec.Struct, frozen=True):
    """One rule, and the function that removes its effect from the lines of one object or group."""

    rule: str
    words: str
    without: Callable[[str, Lines], Lines]


def _without_headless_label(_key: str, lines: Lines) -> Lines:
    return tuple(line.replace(f", {_HEADLESS}", "").replace(f"{_HEADLESS}, ", "") for line in lines)


def _without_owner_of_placeholder(key: str, lines: Lines) -> Lines:
    if not key.startswith("slices ") or _PLACEHOLDER not in lines:
        return lines
    kept = (
        "\n".join(part for part in line.split("\n") if not part.lstrip().startswith("owner "))
        for line in lines
    )
    return tuple(line for line in kept if line)


EXPLANATIONS: Sequence[Explanation] = (
    Explanation(
        "S-60, E-19b",
        "a wrong headless label stays until the next write",
        _without_headless_label,
    ),
    Explanation(
        "S-50, S-51",
        "an empty slice that looks like the placeholder is kept, with any owner or none",
        _without_owner_of_placeholder,
    ),
)


def explain(
    reference: NormalState, candidate: NormalState, *, earlier: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the keys that differ only by known rules, with those rules.

    ``earlier`` are the results of earlier comparisons of the same run: once upstream has lost a slice to another owner, it
    does not recreate it for a terminating service (S-73).
    """
    found: dict[str, str] = {}
    for key in different_keys(reference, candidate):
        if key in reference and key in candidate:
            rules = _rules(key, reference[key], candidate[key])
        elif key in candidate and key in (earlier or {}) and _PLACEHOLDER in candidate[key]:
            rules = "S-73 after S-51"
        else:
            rules = ""
        if rules:
            found[key] = rules
    return found


def _rules(key: str, one: Lines, other: Lines) -> str:
    """Return the rules that explain the whole difference; "" if a part remains unexplained."""
    rules: list[str] = []
    for explanation in EXPLANATIONS:
        plainer = explanation.without(key, one), explanation.without(key, other)
        if plainer != (one, other):
            rules.append(explanation.rule)
        one, other = plainer
        if one == other:
            return "; ".join(rules)
    return ""
