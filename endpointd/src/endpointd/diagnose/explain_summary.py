"""Summarise a service: its verdict in a word and a line, and notes about the service as a whole. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from aiokube.api.core import Pod, Service
from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
)
from aiokube.api.endpoints import OVER_CAPACITY_ANNOTATION
from aiokube.api.meta import key_of
from endpointd.diagnose.changes import Settings, changes_of, managed_by, zone_ratios
from endpointd.diagnose.explanation import AddressExplanation, PodExplanation, ServiceVerdict
from endpointd.diagnose.reasons import (
    Reason,
    service_reasons,
)
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import (
    TrafficProblem,
    as_reason,
    expected_state,
    is_api_server_service,
    is_meant_to_serve,
)

_SEVERITIES = ("error", "warning", "note")


def summarise(
    index: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    problems: Sequence[TrafficProblem],
    pods: Sequence[PodExplanation],
    addresses: Sequence[AddressExplanation],
) -> tuple[ServiceVerdict, str]:
    """Return the verdict and a one-line summary."""
    if service.is_external_name:
        return "alias", "is a DNS alias (ExternalName): it has no endpoints"
    worst = next(iter(sorted(problems, key=lambda one: (not one.stops_all, one.severity != "error"))), None)
    if worst is not None and worst.stops_all:
        return "no traffic", f"receives no traffic: {worst.cause}"
    if not service.selector:
        if not index.could_read("endpoints", "endpointslices") and not addresses:
            return "unknown", "has no selector, and not all of its endpoints could be read"
        ready = sum(one.is_ready for one in addresses)
        if is_api_server_service(service):
            published = (
                f"{ready:,} of {len(addresses):,} addresses are ready" if addresses else "none published"
            )
            return "works", f"belongs to the API servers: {published}"
        text = f"has no selector; {ready:,} of {len(addresses):,} published addresses are ready"
        if worst is not None and worst.severity == "error":
            return "degraded", f"{text}, but {worst.cause}"
        return "works", text
    if not index.could_read("pods"):
        return "unknown", "its pods could not be read"
    return _summarise_pods(index, service, selected, worst, pods)


def _summarise_pods(
    index: ClusterIndex,
    service: Service,
    selected: Sequence[Pod],
    worst: TrafficProblem | None,
    pods: Sequence[PodExplanation],
) -> tuple[ServiceVerdict, str]:
    ready = sum(expected_state(outcome) == "ready" for outcome in index.outcomes_of(service).values())
    missing = sum(pod.verdict == "missing" for pod in pods)
    stale = sum(
        pod.verdict == "left over" or any(reason.code == "Stale" for reason in pod.reasons) for pod in pods
    )
    total = max(ready, sum(map(is_meant_to_serve, selected)))
    share = f"{ready:,} of {total:,} {'pod is' if total == 1 else 'pods are'} ready"
    behind = " and ".join(
        part
        for part in (f"{missing:,} missing" if missing else "", f"{stale:,} stale" if stale else "")
        if part
    )
    if missing and not any(pod.verdict == "ready" for pod in pods):
        return "no traffic", (
            f"receives no traffic: {share}, but no slice has them: the EndpointSlice controller is behind or not running"
        )
    if behind:
        return (
            "degraded",
            f"{share}, but its slices are out of date ({behind}): a controller is behind or not running",
        )
    if not index.could_read("endpointslices"):
        text = f"should receive traffic: {share} (slices could not be read)"
        return "unknown", f"{text}; {worst.cause}" if worst is not None else text
    if worst is not None and worst.severity != "note":
        return "degraded", f"{share}, but {worst.cause}"
    if worst is not None:
        return "degraded", worst.cause
    return "works", f"works: {share}"


def service_notes(
    index: ClusterIndex, service: Service, problems: Sequence[TrafficProblem], settings: Settings
) -> Iterator[Reason]:
    """Yield the reasons that concern the service as a whole, errors first."""
    key = key_of(service)
    if is_api_server_service(service):
        yield Reason(
            "ApiServer",
            "note",
            "the API servers publish their own addresses for this service, so it needs no selector",
        )
    else:
        for reason in service_reasons(service):
            yield msgspec.structs.replace(reason, weight="note")
    yield from map(as_reason, sorted(problems, key=lambda one: _SEVERITIES.index(one.severity)))
    item = index.endpoints.get(key)
    if item is not None and OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}):
        yield Reason(
            "Truncated",
            "note",
            "the Endpoints object is limited to 1,000 addresses, and the service has more: consumers of Endpoints do not see all",
            "let consumers read EndpointSlices",
        )
    other_managers = {
        managed_by(endpoint_slice) or "no controller"
        for endpoint_slice in index.slices_by_service.get(key, ())
    }
    other_managers -= {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    if service.selector and not service.is_external_name:
        for other_manager in sorted(other_managers):
            yield Reason(
                "OthersClaim",
                "note",
                f"slices managed by {other_manager} also name this service: consumers use them in addition to ours",
                "check that this is intended",
            )
    changes = list(changes_of(index, key, settings, ratios=zone_ratios(index)))
    if changes:
        objects = "1 object differs" if len(changes) == 1 else f"{len(changes):,} objects differ"
        yield Reason(
            "Behind",
            "note",
            f"{objects} from the controllers' plan: see endpointd diff -n {key.namespace}",
            "check that the controllers are running",
        )
    if index.snapshot.unread:
        names = ", ".join(f"{unread.resource} ({unread.why})" for unread in index.snapshot.unread)
        yield Reason("Unread", "note", f"could not be read: {names}; results that depend on them are unknown")
