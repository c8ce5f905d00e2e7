"""What is found wrong in a cluster: one value for each thing, and the words they share. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from aiokube.api.discovery import MANAGED_BY_ENDPOINTSLICE_CONTROLLER, EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey
from endpointd.diagnose.changes import managed_by
from endpointd.diagnose.snapshot import ClusterIndex

Severity = Literal["error", "warning", "note"]
"""``error``: consumers are told something wrong, or a service receives no traffic. ``warning``: neither, or not for certain.
``note``: not a fault, and good to know."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is wrong. ``code`` is for programs and does not change."""

    code: str
    severity: Severity
    namespace: str
    service: str
    kind: str
    name: str
    cause: str
    fix: str


RUNS = "see that kube-controller-manager or endpointd runs and may write here; endpointd diff shows what it would do"


def make_finding(
    code: str,
    severity: Severity,
    service: ObjectKey,
    item: EndpointSlice | Endpoints | None,
    cause: str,
    fix: str = RUNS,
    *,
    kind: str = "",
    name: str = "",
) -> Finding:
    """Return a finding about an object, or about one that is not there (then of this kind and name)."""
    if item is not None:
        kind = "EndpointSlice" if isinstance(item, EndpointSlice) else "Endpoints"
        name = item.metadata.name
    return Finding(code, severity, service.namespace, service.name, kind, name, cause, fix)


def our_slices(world: ClusterIndex, key: ObjectKey) -> list[EndpointSlice]:
    """Return the slices of a service that the EndpointSlice controller looks after, and that are not going."""
    return [
        endpoint_slice
        for endpoint_slice in world.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        and endpoint_slice.metadata.deletion_timestamp is None
    ]


def pods_text(names: Sequence[str]) -> str:
    """Return pods as the subject of a sentence."""
    return f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods ({few(names)})"


def is_or_are(names: Sequence[str]) -> str:
    """Return the verb that goes with them."""
    return "is" if len(names) == 1 else "are"


def few(names: Iterable[str], most: int = 4) -> str:
    """Return some names in order, and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - most
    return ", ".join(ordered[:most]) + (f" and {more} more" if more > 0 else "")
