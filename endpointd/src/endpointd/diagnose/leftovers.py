"""Find objects that should not exist: stale, duplicate, foreign, half-migrated or held by a finalizer.

Pure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from aiokube.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
    EndpointSlice,
)
from aiokube.api.endpoints import OVER_CAPACITY_ANNOTATION
from aiokube.api.meta import ObjectKey, key_of
from endpointd.controllers.endpoints.plan import is_published
from endpointd.controllers.indexes import service_name_of
from endpointd.controllers.mirroring.desired import is_mirrorable, wants_mirroring
from endpointd.diagnose.changes import managed_by
from endpointd.diagnose.findings import Finding, make_finding, our_slices
from endpointd.diagnose.reasons import is_selected
from endpointd.diagnose.snapshot import ClusterIndex


def leftover_findings(index: ClusterIndex) -> Iterator[Finding]:
    """Yield all findings that do not depend on an unknown collection. O(slices and their endpoints)."""
    if index.could_read("services"):
        yield from _orphaned_or_stale(index)
        yield from _foreign(index)
        yield from _half_migrated(index)
        yield from _over_capacity(index)
    yield from _without_service(index)
    yield from _duplicates(index)
    yield from _held_by_finalizers(index)


def _orphaned_or_stale(index: ClusterIndex) -> Iterator[Finding]:
    for key in list(index.slices_by_service):
        service = index.services.get(key)
        if service is None:
            for endpoint_slice in our_slices(index, key):
                yield make_finding(
                    "SliceOrphaned",
                    "warning",
                    key,
                    endpoint_slice,
                    "its service no longer exists",
                    "the garbage collector deletes it if its owner reference is correct; otherwise delete it",
                )
            continue
        yield from stale_endpoints(index, key)


def stale_endpoints(index: ClusterIndex, key: ObjectKey) -> Iterator[Finding]:
    """Yield the endpoints of a service's slices that belong to no selected pod."""
    service = index.services.get(key)
    if service is None or not service.selector or service.is_external_name or not index.could_read("pods"):
        return
    for endpoint_slice in our_slices(index, key):
        for endpoint in endpoint_slice.endpoints or ():
            target = endpoint.target_ref
            addresses = ", ".join(endpoint.addresses)
            if target is None or not target.name:
                yield make_finding(
                    "EndpointForeign", "error", key, endpoint_slice, f"{addresses} refers to no pod"
                )
                continue
            pod = index.pods.get(ObjectKey(key.namespace, target.name))
            if pod is None:
                yield make_finding(
                    "EndpointStale",
                    "error",
                    key,
                    endpoint_slice,
                    f"{addresses} belongs to pod {target.name}, which no longer exists",
                )
            elif not is_selected(service, pod):
                yield make_finding(
                    "EndpointStale",
                    "error",
                    key,
                    endpoint_slice,
                    f"{addresses} belongs to pod {target.name}, which the service does not select",
                )


def _duplicates(index: ClusterIndex) -> Iterator[Finding]:
    for key in index.slices_by_service:
        counts: Counter[tuple[str, str, str]] = Counter()
        slice_names: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for endpoint_slice in our_slices(index, key):
            ports = ",".join(
                sorted(f"{port.name}:{port.port}:{port.protocol}" for port in endpoint_slice.ports or ())
            )
            for endpoint in endpoint_slice.endpoints or ():
                identity = (
                    endpoint_slice.address_type,
                    ports,
                    endpoint.addresses[0] if endpoint.addresses else "",
                )
                counts[identity] += 1
                slice_names[identity].append(endpoint_slice.metadata.name)
        for identity, count in counts.items():
            if count > 1:
                yield make_finding(
                    "EndpointDuplicated",
                    "error",
                    key,
                    None,
                    f"{identity[2]} occurs {count} times with the same ports, in {', '.join(sorted(set(slice_names[identity])))}",
                    kind="EndpointSlice",
                    name=slice_names[identity][0],
                )


def _foreign(index: ClusterIndex) -> Iterator[Finding]:
    known = {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for key, endpoint_slices in index.slices_by_service.items():
        service = index.services.get(key)
        if service is None or not service.selector:
            continue
        for endpoint_slice in endpoint_slices:
            if managed_by(endpoint_slice) not in known and not _is_api_server_own(endpoint_slice):
                yield make_finding(
                    "SliceForeign",
                    "warning",
                    key,
                    endpoint_slice,
                    f"it is managed by {managed_by(endpoint_slice) or 'no controller'}, but names a service with a selector: consumers use "
                    "both",
                    "if this is not intended, remove the slice or its kubernetes.io/service-name label",
                )


def _without_service(index: ClusterIndex) -> Iterator[Finding]:
    known = {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for endpoint_slice in index.slices.values():
        if service_name_of(endpoint_slice) is None and managed_by(endpoint_slice) in known:
            yield make_finding(
                "SliceNameless",
                "warning",
                ObjectKey(endpoint_slice.metadata.namespace, ""),
                endpoint_slice,
                "it is labelled as managed by the controller but names no service, so no controller reconciles it",
                "delete it",
            )


def _is_api_server_own(endpoint_slice: EndpointSlice) -> bool:
    return endpoint_slice.metadata.key == ObjectKey("default", "kubernetes")


def _half_migrated(index: ClusterIndex) -> Iterator[Finding]:
    """Find services published by two controllers: a selector was added or removed, and old slices remain."""
    for key, endpoint_slices in index.slices_by_service.items():
        service = index.services.get(key)
        if service is None:
            continue
        by = {managed_by(endpoint_slice) for endpoint_slice in endpoint_slices}
        if not is_published(service) and MANAGED_BY_ENDPOINTSLICE_CONTROLLER in by:
            item = next(
                one for one in endpoint_slices if managed_by(one) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            )
            why = "is of type ExternalName" if service.is_external_name else "has lost its selector"
            mirrored = index.endpoints.get(key)
            both = (
                MANAGED_BY_MIRRORING_CONTROLLER in by
                and mirrored is not None
                and is_mirrorable(mirrored)
                and wants_mirroring(service)
            )
            yield make_finding(
                "HalfMigrated",
                "error" if both else "warning",
                key,
                item,
                f"the service {why}, but slices from when it selected pods still exist"
                + (", alongside those that mirror its Endpoints" if both else ""),
                f"delete them: kubectl -n {key.namespace} delete endpointslice -l kubernetes.io/service-name={key.name},"
                f"endpointslice.kubernetes.io/managed-by={MANAGED_BY_ENDPOINTSLICE_CONTROLLER}",
            )


def _over_capacity(index: ClusterIndex) -> Iterator[Finding]:
    for item in index.endpoints.values():
        key = key_of(item)
        if OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}) and index.services.get(key):
            yield make_finding(
                "EndpointsTruncated",
                "note",
                key,
                item,
                "it is limited to 1,000 addresses, and the service has more: consumers of Endpoints do not see all",
                "let consumers read EndpointSlices",
            )


def _held_by_finalizers(index: ClusterIndex) -> Iterator[Finding]:
    """Find slices whose deletion a finalizer blocks."""
    for endpoint_slice in index.slices.values():
        key = service_name_of(endpoint_slice)
        if endpoint_slice.metadata.deletion_timestamp is not None and key is not None:
            holders = ", ".join(endpoint_slice.metadata.finalizers or ()) or "no visible finalizer"
            yield make_finding(
                "SliceHeld",
                "warning",
                key,
                endpoint_slice,
                f"its deletion was requested at {endpoint_slice.metadata.deletion_timestamp}, but it is held by {holders}: consumers still use it",
                "let the finalizer's owner remove it",
            )
