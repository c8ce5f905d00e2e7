"""What stands in a cluster and should not: left over, doubled, foreign, half migrated, held. Pure."""

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


def standing(world: ClusterIndex) -> Iterator[Finding]:
    """Return all of it that does not depend on an unknown collection: O(slices and their endpoints)."""
    if world.could_read("services"):
        yield from _left_over(world)
        yield from _foreign(world)
        yield from _half_migrated(world)
        yield from _over_capacity(world)
    yield from _nameless(world)
    yield from _duplicates(world)
    yield from _out_of_step(world)


def _left_over(world: ClusterIndex) -> Iterator[Finding]:
    for key in list(world.slices_by_service):
        service = world.services.get(key)
        if service is None:
            for endpoint_slice in our_slices(world, key):
                yield make_finding(
                    "SliceOrphaned",
                    "warning",
                    key,
                    endpoint_slice,
                    "its service is gone",
                    "the garbage collector removes it, if its owner reference is right; else delete it",
                )
            continue
        yield from left_over_of(world, key)


def left_over_of(world: ClusterIndex, key: ObjectKey) -> Iterator[Finding]:
    """Return the endpoints of a service's slices that are of no pod it selects."""
    service = world.services.get(key)
    if service is None or not service.selector or service.is_external_name or not world.could_read("pods"):
        return
    for endpoint_slice in our_slices(world, key):
        for endpoint in endpoint_slice.endpoints or ():
            target = endpoint.target_ref
            addresses = ", ".join(endpoint.addresses)
            if target is None or not target.name:
                yield make_finding(
                    "EndpointForeign", "error", key, endpoint_slice, f"{addresses} refers to no pod"
                )
                continue
            pod = world.pods.get(ObjectKey(key.namespace, target.name))
            if pod is None:
                yield make_finding(
                    "EndpointStale",
                    "error",
                    key,
                    endpoint_slice,
                    f"{addresses} is of pod {target.name}, which is gone",
                )
            elif not is_selected(service, pod):
                yield make_finding(
                    "EndpointStale",
                    "error",
                    key,
                    endpoint_slice,
                    f"{addresses} is of pod {target.name}, which the service does not select",
                )


def _duplicates(world: ClusterIndex) -> Iterator[Finding]:
    for key in world.slices_by_service:
        seen: Counter[tuple[str, str, str]] = Counter()
        where: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for endpoint_slice in our_slices(world, key):
            ports = ",".join(
                sorted(f"{port.name}:{port.port}:{port.protocol}" for port in endpoint_slice.ports or ())
            )
            for endpoint in endpoint_slice.endpoints or ():
                identity = (
                    endpoint_slice.address_type,
                    ports,
                    endpoint.addresses[0] if endpoint.addresses else "",
                )
                seen[identity] += 1
                where[identity].append(endpoint_slice.metadata.name)
        for identity, count in seen.items():
            if count > 1:
                yield make_finding(
                    "EndpointDuplicated",
                    "error",
                    key,
                    None,
                    f"{identity[2]} stands {count} times under the same ports, in {', '.join(sorted(set(where[identity])))}",
                    kind="EndpointSlice",
                    name=where[identity][0],
                )


def _foreign(world: ClusterIndex) -> Iterator[Finding]:
    known = {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for key, endpoint_slices in world.slices_by_service.items():
        service = world.services.get(key)
        if service is None or not service.selector:
            continue
        for endpoint_slice in endpoint_slices:
            if managed_by(endpoint_slice) not in known and not _is_api_server_own(endpoint_slice):
                yield make_finding(
                    "SliceForeign",
                    "warning",
                    key,
                    endpoint_slice,
                    f"it is managed by {managed_by(endpoint_slice) or 'nobody'}, and names a service with a selector: consumers use "
                    "both",
                    "if this is not intended, remove the slice or its kubernetes.io/service-name label",
                )


def _nameless(world: ClusterIndex) -> Iterator[Finding]:
    known = {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for endpoint_slice in world.slices.values():
        if service_name_of(endpoint_slice) is None and managed_by(endpoint_slice) in known:
            yield make_finding(
                "SliceNameless",
                "warning",
                ObjectKey(endpoint_slice.metadata.namespace, ""),
                endpoint_slice,
                "it is labelled as the controller's, and names no service: nobody looks after it",
                "delete it",
            )


def _is_api_server_own(endpoint_slice: EndpointSlice) -> bool:
    return endpoint_slice.metadata.key == ObjectKey("default", "kubernetes")


def _half_migrated(world: ClusterIndex) -> Iterator[Finding]:
    """Find services whose endpoints two controllers publish: a selector that came or went, and the other's slices."""
    for key, endpoint_slices in world.slices_by_service.items():
        service = world.services.get(key)
        if service is None:
            continue
        by = {managed_by(endpoint_slice) for endpoint_slice in endpoint_slices}
        if not is_published(service) and MANAGED_BY_ENDPOINTSLICE_CONTROLLER in by:
            item = next(
                one for one in endpoint_slices if managed_by(one) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
            )
            why = "is of type ExternalName" if service.is_external_name else "has lost its selector"
            mirrored = world.endpoints.get(key)
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
                f"the service {why}, and slices of its time with one are still there"
                + (", beside those that mirror its Endpoints" if both else ""),
                f"delete them: kubectl -n {key.namespace} delete endpointslice -l kubernetes.io/service-name={key.name},"
                f"endpointslice.kubernetes.io/managed-by={MANAGED_BY_ENDPOINTSLICE_CONTROLLER}",
            )


def _over_capacity(world: ClusterIndex) -> Iterator[Finding]:
    for item in world.endpoints.values():
        key = key_of(item)
        if OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}) and world.services.get(key):
            yield make_finding(
                "EndpointsTruncated",
                "note",
                key,
                item,
                "it holds 1,000 addresses and the service has more: what reads Endpoints does not see all",
                "have consumers read EndpointSlices",
            )


def _out_of_step(world: ClusterIndex) -> Iterator[Finding]:
    """Find slices that were asked to go, and that a finalizer keeps."""
    for endpoint_slice in world.slices.values():
        key = service_name_of(endpoint_slice)
        if endpoint_slice.metadata.deletion_timestamp is not None and key is not None:
            held = ", ".join(endpoint_slice.metadata.finalizers or ()) or "nothing that shows"
            yield make_finding(
                "SliceHeld",
                "warning",
                key,
                endpoint_slice,
                f"it is being deleted since {endpoint_slice.metadata.deletion_timestamp}, and held by {held}: consumers still use it",
                "have the finalizer's owner release it",
            )
