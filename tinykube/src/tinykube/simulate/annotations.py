"""The annotations with which a person steers one pod, or node; docs/guide/simulate.md has them all. Pure."""

import re
from collections.abc import Mapping

import msgspec

PREFIX = "simulate.endpointd.dev/"
READY = f"{PREFIX}ready"
"""``"false"``: the containers say no to their readiness probes (of a node: it is not ready)."""
LIVE = f"{PREFIX}live"
"""``"false"``: the containers say no to their liveness probes."""
READY_AFTER = f"{PREFIX}ready-after"
"""A duration: how long after its start a container begins to say yes."""
CRASH = f"{PREFIX}crash"
"""Any text: each new one makes all containers crash once; ``loop`` makes them crash soon after each start."""
COMPLETE_AFTER = f"{PREFIX}complete-after"
"""A duration: containers end by themselves so long after their start."""
EXIT_CODE = f"{PREFIX}exit-code"
"""With what number they end then; 0 where it is not said."""
STOP_AFTER = f"{PREFIX}stop-after"
"""A duration: how long the containers take to end when the pod is deleted; the grace period is the limit."""
RESTART_EVERY = f"{PREFIX}restart-every"
"""On a Deployment, a duration: it is rolled out anew so often."""
RESTART = f"{PREFIX}restart"
"""What is written into the template then: how many times."""

CRASH_LOOP = "loop"

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Steering(msgspec.Struct, frozen=True):
    """What a pod's annotations ask for; None where they say nothing, or nothing that can be read."""

    ready: bool = True
    live: bool = True
    ready_after_seconds: float | None = None
    crash: str = ""
    complete_after_seconds: float | None = None
    exit_code: int = 0
    stop_after_seconds: float | None = None


def steering(annotations: Mapping[str, str] | None) -> Steering:
    """Return what the annotations of a pod ask for."""
    given = annotations or {}
    code = given.get(EXIT_CODE, "")
    return Steering(
        ready=truth(given.get(READY)) is not False,
        live=truth(given.get(LIVE)) is not False,
        ready_after_seconds=seconds(given.get(READY_AFTER)),
        crash=given.get(CRASH, ""),
        complete_after_seconds=seconds(given.get(COMPLETE_AFTER)),
        exit_code=int(code) % 256 if code.isdecimal() else 0,
        stop_after_seconds=seconds(given.get(STOP_AFTER)),
    )


def truth(text: str | None) -> bool | None:
    """Return what ``true`` and ``false`` say, in any case; None for anything else."""
    return {"true": True, "false": False}.get((text or "").strip().lower())


def seconds(text: str | None) -> float | None:
    """Return a duration such as ``3s``, ``1.5m``, ``200ms`` or ``3`` in seconds; None where it is none."""
    found = _DURATION.fullmatch((text or "").strip())
    return None if found is None else float(found[1]) * _UNITS[found[2]]
