"""The options that inject faults: ``--fault NAME,KEY=VALUE,...``, ``--fault-rate`` and ``--fault-seed``."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tinykube.server.http.fault_names import FAULT_NAMES

if TYPE_CHECKING:
    from tinykube.server.http.faults import Fault, Faults

F = TypeVar("F", bound=Callable[..., Any])

_FAULT_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "code": ("code", int),
    "retry-after": ("retry_after_seconds", int),
    "seconds": ("seconds", float),
    "after": ("after_events", int),
    "changes": ("changes", int),
}
_SCOPE_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "verb": ("verb", str),
    "resource": ("resource", str),
    "namespace": ("namespace", str),
    "name": ("name", str),
    "user-agent": ("user_agent", str),
    "times": ("times", int),
    "skip": ("skip", int),
    "rate": ("rate", float),
    "seed": ("seed", int),
}
_KEYS = _FAULT_KEYS | _SCOPE_KEYS
_DEFAULTS: dict[str, dict[str, Any]] = {"delay": {"seconds": 1.0}, "stale-read": {"changes": 10}}


def fault_options(command: F) -> F:
    """Add the options to a command."""
    options = (
        click.option(
            "--fault",
            "faults",
            multiple=True,
            metavar="NAME[,KEY=VALUE]...",
            help=f"Inject a fault, for tests of clients: {', '.join(FAULT_NAMES)}. Keys: {', '.join(_KEYS)}.",
        ),
        click.option(
            "--fault-rate",
            type=click.FloatRange(0.0, 1.0),
            default=0.0,
            metavar="X",
            help="Share of the requests that meet a random fault.",
        ),
        click.option(
            "--fault-seed",
            type=int,
            default=0,
            show_default=True,
            metavar="N",
            help="Seed of --fault-rate; the same seed and the same requests meet the same faults.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def add_faults(faults: "Faults", texts: Sequence[str], rate: float, seed: int) -> None:
    """Add the rules for the options. Raises ``click.UsageError``."""
    for text in texts:
        fault, scope = parse_fault(text)
        try:
            faults.add(fault, **scope)
        except ValueError as error:
            raise click.UsageError(f"--fault {text}: {error}") from error
    if rate:
        faults.random(seed, rate)


def parse_fault(text: str) -> "tuple[Fault, dict[str, Any]]":
    """Parse ``NAME,KEY=VALUE,...``: the fault, and the scope of its rule. Raises ``click.UsageError``."""
    from tinykube.server.http.faults import REFUSAL_CODES, Fault

    name, *pairs = text.split(",")
    known = next((one for one in FAULT_NAMES if one == name), None)
    if known is None:
        raise click.UsageError(f"--fault {text}: unknown fault {name!r}: use {', '.join(FAULT_NAMES)}")
    settings: dict[str, Any] = dict(_DEFAULTS.get(name, {}))
    scope: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key not in _KEYS:
            raise click.UsageError(f"--fault {text}: unknown key {key!r}: use {', '.join(_KEYS)}")
        field, read = _KEYS[key]
        try:
            (settings if key in _FAULT_KEYS else scope)[field] = read(value)
        except ValueError:
            raise click.UsageError(f"--fault {text}: {key} must be a number, not {value!r}") from None
    if settings.get("code", REFUSAL_CODES[0]) not in REFUSAL_CODES:
        raise click.UsageError(f"--fault {text}: code must be one of {', '.join(map(str, REFUSAL_CODES))}")
    return Fault(name=known, **settings), scope
