"""Annotations that control one simulated pod, node or Deployment; docs/guide/simulate.md documents them. Pure."""

import re
from collections.abc import Mapping

import msgspec

PREFIX = "simulate.tinykube.dev/"
_FORMER_PREFIX = "simulate.endpointd.dev/"

READY = f"{PREFIX}ready"
"""``"false"``: the containers fail their readiness probes; on a node: the node is not ready."""
LIVE = f"{PREFIX}live"
"""``"false"``: the containers fail their liveness probes."""
READY_AFTER = f"{PREFIX}ready-after"
"""A duration: how long after its start a container begins to pass its readiness probe."""
CRASH = f"{PREFIX}crash"
"""Any text: each new value crashes all containers once; ``loop`` crashes them soon after each start."""
COMPLETE_AFTER = f"{PREFIX}complete-after"
"""A duration: containers exit this long after their start."""
EXIT_CODE = f"{PREFIX}exit-code"
"""The exit code of ``complete-after``; 0 by default."""
STOP_AFTER = f"{PREFIX}stop-after"
"""A duration: how long containers take to stop when the pod is deleted, within the grace period."""
RESTART_EVERY = f"{PREFIX}restart-every"
"""On a Deployment, a duration: it is restarted at this interval."""
RESTART = f"{PREFIX}restart"
"""Set in the pod template by a restart: the number of restarts."""

CRASH_LOOP = "loop"

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class AnnotationOverrides(msgspec.Struct, frozen=True):
    """The values of a pod's annotations; None for those that are absent or invalid."""

    ready: bool = True
    live: bool = True
    ready_after_seconds: float | None = None
    crash: str = ""
    complete_after_seconds: float | None = None
    exit_code: int = 0
    stop_after_seconds: float | None = None


def annotation_overrides(annotations: Mapping[str, str] | None) -> AnnotationOverrides:
    """Parse the annotations of a pod. Invalid values are ignored."""

    def value(name: str) -> str | None:
        return annotation(annotations, name)

    code = value(EXIT_CODE) or ""
    return AnnotationOverrides(
        ready=truth(value(READY)) is not False,
        live=truth(value(LIVE)) is not False,
        ready_after_seconds=seconds(value(READY_AFTER)),
        crash=value(CRASH) or "",
        complete_after_seconds=seconds(value(COMPLETE_AFTER)),
        exit_code=int(code) % 256 if code.isdecimal() else 0,
        stop_after_seconds=seconds(value(STOP_AFTER)),
    )


def annotation(annotations: Mapping[str, str] | None, name: str) -> str | None:
    """Return the value of an annotation, also under the former prefix ``simulate.endpointd.dev/``."""
    if not annotations:
        return None
    value = annotations.get(name)
    return annotations.get(_FORMER_PREFIX + name.removeprefix(PREFIX)) if value is None else value


def truth(text: str | None) -> bool | None:
    """Parse ``true`` or ``false`` in any case; return None for anything else."""
    return {"true": True, "false": False}.get((text or "").strip().lower())


def seconds(text: str | None) -> float | None:
    """Parse a duration such as ``3s``, ``1.5m``, ``200ms`` or ``3``; return None for anything else."""
    found = _DURATION.fullmatch((text or "").strip())
    return None if found is None else float(found[1]) * _UNITS[found[2]]
