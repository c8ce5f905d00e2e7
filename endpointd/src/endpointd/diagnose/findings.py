"""The findings of a check, and the phrases that they share. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from aiokube.api.discovery import MANAGED_BY_ENDPOINTSLICE_CONTROLLER, EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey
from endpointd.diagnose.changes import managed_by
from endpointd.diagnose.snapshot import ClusterIndex

Severity = Literal["error", "warning", "note"]
"""``error``: consumers get wrong data, or a service receives no traffic. ``warning``: a lesser or uncertain
problem. ``note``: useful information, not a problem."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One problem. ``code`` is for programs and stable."""

    code: str
    severity: Severity
    namespace: str
    service: str
    kind: str
    name: str
    cause: str
    fix: str


CHECK_CONTROLLER = "check that kube-controller-manager or endpointd is running and may write here; endpointd diff shows its writes"


def make_finding(
    code: str,
    severity: Severity,
    service: ObjectKey,
    item: EndpointSlice | Endpoints | None,
    cause: str,
    fix: str = CHECK_CONTROLLER,
    *,
    kind: str = "",
    name: str = "",
) -> Finding:
    """Return a finding about an object, or about a missing one with this kind and name."""
    if item is not None:
        kind = "EndpointSlice" if isinstance(item, EndpointSlice) else "Endpoints"
        name = item.metadata.name
    return Finding(code, severity, service.namespace, service.name, kind, name, cause, fix)


def our_slices(index: ClusterIndex, key: ObjectKey) -> list[EndpointSlice]:
    """Return the slices of a service that the EndpointSlice controller manages and that are not being deleted."""
    return [
        endpoint_slice
        for endpoint_slice in index.slices_by_service.get(key, ())
        if managed_by(endpoint_slice) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        and endpoint_slice.metadata.deletion_timestamp is None
    ]


def pods_text(names: Sequence[str]) -> str:
    """Return pods as the subject of a sentence."""
    return f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods ({few(names)})"


def is_or_are(names: Sequence[str]) -> str:
    """Return the matching verb."""
    return "is" if len(names) == 1 else "are"


def few(names: Iterable[str], limit: int = 4) -> str:
    """Return some names in order, and the number of omitted ones."""
    ordered = sorted(names)
    more = len(ordered) - limit
    return ", ".join(ordered[:limit]) + (f" and {more} more" if more > 0 else "")
