"""Parse command lines and values like pflag, the flag library of kube-controller-manager.

A command line copied from kube-controller-manager must mean the same here. Where pflag and click disagree
(``-v=2``, ``--leader-elect false``, ``--leader_elect``, ``--concurrent-endpoint-syncs=0x10``), pflag wins.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

_INTEGER = re.compile(
    r"[-+]?(?:0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|0(?:_?[0-7])*|[1-9](?:_?[0-9])*)"
)
_DIGITS = r"[0-9](?:_?[0-9])*"
_HEX_DIGITS = r"[0-9a-f](?:_?[0-9a-f])*"
_FLOAT = re.compile(
    rf"[-+]?(?:(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[-+]?{_DIGITS})?|inf|infinity|nan)",
    re.IGNORECASE,
)
_HEX_FLOAT = re.compile(
    rf"[-+]?0x(?:_?{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})p[-+]?{_DIGITS}", re.IGNORECASE
)
_FLOAT32_LIMIT = 3.4028235677973366e38  # larger values round to infinity in 32 bits
_INT32_MAX = 2**31 - 1


class FlagForm(msgspec.Struct, frozen=True):
    """The long name of a flag, and its value when written without one."""

    name: str
    bare_value: str | None = None
    """The value of a bare ``--flag``; None if the flag needs a value."""


class FlagForms(msgspec.Struct, frozen=True):
    """The flags of a command, by long name (with dashes) and by short letter."""

    by_name: Mapping[str, FlagForm]
    by_letter: Mapping[str, FlagForm]


def normalise_arguments(arguments: Sequence[str], forms: FlagForms) -> list[str]:
    """Return the same command line with each known flag as ``--name=value``.

    Follows pflag's rules: underscores in names count as dashes; a boolean takes a value only after ``=``; any
    other flag takes the next argument, even one that starts with a dash; ``-v2``, ``-v 2`` and ``-v=2`` are
    the same. Empty arguments between flags are dropped, as in kube-controller-manager. Unknown flags and
    flags without a value are returned unchanged for click to report.
    """
    found: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*found, argument, *(word for word in rest if word)]
        if argument.startswith("--"):
            found.append(_long(argument, rest, forms.by_name))
        elif argument.startswith("-") and len(argument) > 1:
            found += _short(argument, rest, forms.by_letter)
        elif argument:
            found.append(argument)
    return found


def _long(argument: str, rest: list[str], by_name: Mapping[str, FlagForm]) -> str:
    name, equals, value = argument[2:].partition("=")
    form = by_name.get(name.replace("_", "-"))
    if form is None:
        return argument
    if equals:
        return f"--{form.name}={value}"
    return _with_value(argument, form, rest)


def _short(argument: str, rest: list[str], by_letter: Mapping[str, FlagForm]) -> list[str]:
    found: list[str] = []
    letters = argument[1:]
    while letters:
        form = by_letter.get(letters[0])
        if form is None:
            return [*found, f"-{letters}"]
        if len(letters) > 2 and letters[1] == "=":
            return [*found, f"--{form.name}={letters[2:]}"]
        if form.bare_value is None and len(letters) > 1:
            return [*found, f"--{form.name}={letters[1:]}"]
        found.append(_with_value(f"-{letters[0]}", form, rest))
        letters = letters[1:]
    return found


def _with_value(argument: str, form: FlagForm, rest: list[str]) -> str:
    if form.bare_value is not None:
        return f"--{form.name}={form.bare_value}"
    return f"--{form.name}={rest.pop(0)}" if rest else argument


class PflagCommand(click.Command):
    """A command that accepts every flag syntax that pflag accepts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Normalise the flags, then let click parse them."""
        return super().parse_args(ctx, normalise_arguments(args, _forms(self.get_params(ctx))))


def _forms(parameters: Iterable[click.Parameter]) -> FlagForms:
    by_name: dict[str, FlagForm] = {}
    by_letter: dict[str, FlagForm] = {}
    for option in parameters:
        if not isinstance(option, click.Option) or option.is_flag:  # --help is click's own
            continue
        names = [text[2:] for text in option.opts if text.startswith("--")]
        bare_value = option.flag_value if isinstance(option.flag_value, str) else None
        form = FlagForm(names[0], bare_value)
        by_name |= dict.fromkeys(names, form)
        by_letter |= {text[1]: form for text in option.opts if not text.startswith("--")}
    return FlagForms(by_name, by_letter)


def parse_integer(text: str) -> int:
    """Return the result of Go's ``strconv.ParseInt(text, 0, 32)``: ``7``, ``-7``, ``0x1f``, ``0b101``, ``017``, ``1_000``.

    Raises ``ValueError`` where Go returns an error.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    digits = text.lstrip("+-").lower().replace("_", "")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 8 if digits.startswith("0") else 10)
    prefix = 2 if digits[:2] in ("0b", "0o", "0x") else 0
    if len(digits) > 40:  # far out of range, and int() reports its digit limit with another message
        raise ValueError(f"{text[:40]!r}… is out of range")
    value = int(digits[prefix:], base) * (-1 if text.startswith("-") else 1)
    if not -_INT32_MAX - 1 <= value <= _INT32_MAX:
        raise ValueError(f"{text!r} is out of range: it must fit in 32 bits")
    return value


def parse_verbosity(text: str) -> int:
    """Return a klog verbosity: only decimal digits. Raises ``ValueError`` otherwise."""
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError(f"{text!r} is not a log verbosity: write a whole number, such as 2")
    if len(text.lstrip("0")) > 10 or int(text) > _INT32_MAX:
        raise ValueError(f"{text[:40]!r} is out of range: it must fit in 32 bits")
    return int(text)


def parse_float(text: str) -> float:
    """Return the result of Go's ``strconv.ParseFloat(text, 32)``.

    Raises ``ValueError`` where Go returns an error.
    """
    digits = text.replace("_", "")
    if _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(digits)
        except OverflowError:
            value = math.inf
    elif _FLOAT.fullmatch(text):
        value = float(digits)
    else:
        raise ValueError(f"{text!r} is not a number")
    if abs(value) >= _FLOAT32_LIMIT and "inf" not in text.lower():
        raise ValueError(f"{text!r} is out of range: it must fit in a 32-bit float")
    return value


def split_list(text: str) -> list[str]:
    """Return the items of one string slice value: comma-separated, quoted as in CSV.

    Raises ``ValueError`` for unbalanced quotes.
    """
    if not text:
        return []
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{text!r} is not a comma-separated list: {error}") from error


class GoInteger(click.ParamType[int]):
    """A bounded integer in Go's flag syntax."""

    name = "integer"

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        self._low, self._high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the text; configuration files pass numbers."""
        try:
            number = value if isinstance(value, int) else self.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._low is not None and number < self._low:
            self.fail(f"{number} is less than {self._low}", param, ctx)
        if self._high is not None and number > self._high:
            self.fail(f"{number} is more than {self._high}", param, ctx)
        return number

    def parse(self, text: str) -> int:
        """Parse a number. Raises ``ValueError``."""
        return parse_integer(text)


class Verbosity(GoInteger):
    """A log verbosity in klog's syntax."""

    name = "verbosity"

    def parse(self, text: str) -> int:
        """Parse a number. Raises ``ValueError``."""
        return parse_verbosity(text)


class GoFloat(click.ParamType[float]):
    """A number in Go's flag syntax, with exponents and ``inf``."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text; configuration files pass numbers."""
        try:
            return float(value) if isinstance(value, int | float) else parse_float(str(value))
        except (ValueError, OverflowError) as error:
            return self.fail(str(error), param, ctx)
