"""Flag types with kube-controller-manager's syntax: durations, booleans, ranges, controller names."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from endpointd.cli.pflag import split_list

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,  # the micro sign
    "\u03bcs": 1e-6,  # the Greek letter mu
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_LONGEST_SECONDS = 2**63 / 1e9


def parse_duration(text: str) -> float:
    """Return the seconds of a duration in Go's ``time.ParseDuration`` syntax: ``0s``, ``500ms``, ``1m30s``, ``-5s``.

    Raises ``ValueError`` where Go returns an error.
    """
    amount = text[1:] if text[:1] in ("+", "-") else text
    if amount == "0":
        return 0.0
    seconds, position = 0.0, 0
    for match in _DURATION.finditer(amount):
        if match.start() != position:
            break
        seconds += float(match[1]) * _UNIT_SECONDS[match[2]]
        position = match.end()
    if not amount or position != len(amount):
        raise ValueError(
            f"{text!r} is not a duration: write a number with a unit, such as 0s, 500ms or 1m30s"
        )
    if seconds >= _LONGEST_SECONDS:
        raise ValueError(f"{text!r} is too long: the maximum is 292 years")
    return -seconds if text.startswith("-") else seconds


class Duration(click.ParamType[float]):
    """A duration in Go's syntax; its value is in seconds."""

    name = "duration"

    def __init__(self, *, may_be_negative: bool = False) -> None:
        self._may_be_negative = may_be_negative

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < 0 and not self._may_be_negative:
            self.fail(f"{value!r} must not be negative", param, ctx)
        return seconds


class GoBool(click.ParamType[bool]):
    """``true`` or ``false``, as Go's flags accept them: ``--flag``, ``--flag=true``, ``--flag=0``."""

    name = "true|false"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Parse the text."""
        if isinstance(value, bool):
            return value
        if value in ("1", "t", "T", "true", "TRUE", "True"):
            return True
        if value not in ("0", "f", "F", "false", "FALSE", "False"):
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return False


def in_range(low: int, high: int) -> Callable[[click.Context, click.Parameter, int], int]:
    """Return a check with kube-controller-manager's limits and messages."""

    def check(ctx: click.Context, param: click.Parameter, value: int) -> int:
        name = (param.name or "").replace("_", "-")
        if value < low:
            raise click.BadParameter(f"{name} must not be less than {low}, but got {value}", ctx, param)
        if value > high:
            raise click.BadParameter(f"{name} must not be more than {high}, but got {value}", ctx, param)
        return value

    return check


def select_controllers(
    texts: Sequence[str], known: Sequence[str], aliases: dict[str, str]
) -> tuple[str, ...]:
    """Return the controllers to run, in the order of ``known``.

    ``name`` enables one, ``-name`` disables one, ``*`` enables all others; the first mention of a controller
    wins. Raises ``ValueError`` for an unknown name.
    """
    words = [word.strip() for text in texts for word in split_list(text) if word.strip()]
    canonical = {**{name: name for name in known}, **aliases}
    verdicts: dict[str, bool] = {}
    for word in words:
        if word == "*":
            continue
        wanted = not word.startswith("-")
        name = canonical.get(word.removeprefix("-"))
        if name is None:
            raise ValueError(f"{word!r} is not in the list of known controllers: {', '.join(known)}")
        verdicts.setdefault(name, wanted)
    return tuple(name for name in known if verdicts.get(name, "*" in words))
