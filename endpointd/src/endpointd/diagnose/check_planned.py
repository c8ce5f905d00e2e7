"""Turn the controllers' planned writes into findings, by pod where a pod's endpoint is wrong. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from aiokube.api.core import Service
from aiokube.api.discovery import CONDITIONS, Endpoint, EndpointSlice
from aiokube.api.endpoints import Endpoints
from aiokube.api.meta import ObjectKey
from endpointd.controllers.endpointslice.desired import is_owned_by
from endpointd.diagnose.changes import ObjectChange, slice_state
from endpointd.diagnose.findings import Finding, Severity, few, is_or_are, make_finding, our_slices, pods_text
from endpointd.diagnose.leftovers import stale_endpoints
from endpointd.diagnose.snapshot import ClusterIndex


def missing_or_wrong(index: ClusterIndex, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
    """Yield the controllers' planned writes as findings. O(services that need a write)."""
    by_service: dict[ObjectKey, list[ObjectChange]] = defaultdict(list)
    for change in changes:
        by_service[change.service].append(change)
    for key, found in by_service.items():
        yield from _of_slices(index, key, [one for one in found if one.controller == "endpointslice"])
        for change in found:
            if change.controller == "endpoints":
                yield from _of_endpoints(change)
            elif change.controller == "mirroring":
                yield from _of_mirror(change)


def _of_slices(index: ClusterIndex, key: ObjectKey, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
    """Report wrong endpoints by pod, and any other difference by slice."""
    if not changes:
        return
    state = slice_state(index, key)
    if state is None:
        return
    is_reported_by_pod = False
    with_topology = index.could_read("nodes")
    for address_type_state in state.address_type_states():
        wanted = {name: one.endpoint for name, one in address_type_state.desired_endpoints().items()}
        published = _published_endpoints(index, key, address_type_state.address_type)
        missing = sorted(wanted.keys() - published.keys())
        if missing:
            is_reported_by_pod = True
            if not any(
                endpoint_slice.address_type == address_type_state.address_type
                for endpoint_slice in our_slices(index, key)
            ):
                yield make_finding(
                    "SlicesMissing",
                    "error",
                    key,
                    None,
                    f"no {address_type_state.address_type} slice exists, but {pods_text(missing)} should be published",
                    kind="EndpointSlice",
                )
            else:
                yield make_finding(
                    "EndpointMissing",
                    "error",
                    key,
                    None,
                    f"{pods_text(missing)} should be in an {address_type_state.address_type} slice, but {is_or_are(missing)} in none",
                    kind="EndpointSlice",
                )
        for name in sorted(wanted.keys() & published.keys()):
            for endpoint_slice, endpoint in published[name]:
                difference = _difference(endpoint, wanted[name], with_topology=with_topology)
                if difference:
                    is_reported_by_pod = True
                    yield make_finding(
                        "EndpointWrong", "error", key, endpoint_slice, f"pod {name}: {difference}"
                    )
    if is_reported_by_pod or any(True for _ in stale_endpoints(index, key)):
        return
    has_replacement = any(change.operation == "delete" for change in changes)
    for change in changes:
        if change.operation == "create" and has_replacement:
            continue  # the replacement of the deleted slice
        item = change.before if change.before is not None else change.after
        yield make_finding(
            "SliceWrong",
            "warning",
            key,
            change.before,
            _slice_cause(state.service, change),
            kind="EndpointSlice",
            name=item.metadata.name if item is not None else "",
        )


def _slice_cause(service: Service, change: ObjectChange) -> str:
    before = change.before
    if change.operation == "create":
        return "a slice is missing"
    if isinstance(before, EndpointSlice) and not is_owned_by(before, service):
        return "its owner reference does not name the current service: it will be replaced"
    if change.operation == "delete":
        return "it should not exist"
    if _is_metadata_alone(change):
        return _metadata_difference(change)
    return "its ports or endpoints are wrong"


def _is_metadata_alone(change: ObjectChange) -> bool:
    before, after = change.before, change.after
    return (
        isinstance(before, EndpointSlice)
        and isinstance(after, EndpointSlice)
        and before.endpoints == after.endpoints
        and before.ports == after.ports
    )


def _metadata_difference(change: ObjectChange) -> str:
    before, after = change.before, change.after
    if before is None or after is None:
        return ""
    old, new = before.metadata.labels or {}, after.metadata.labels or {}
    parts = [
        f"label {name} is {old.get(name)!r}, not {new.get(name)!r}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if before.metadata.owner_references != after.metadata.owner_references:
        parts.append("its owner reference does not name the service")
    return "; ".join(parts) or "its metadata is wrong"


def _of_endpoints(change: ObjectChange) -> Iterator[Finding]:
    if change.operation == "create":
        yield make_finding(
            "EndpointsMissing",
            "error",
            change.service,
            None,
            "the service has no Endpoints",
            kind="Endpoints",
            name=change.service.name,
        )
        return
    if change.operation == "delete":
        yield make_finding(
            "EndpointsLeftOver", "warning", change.service, change.before, "its service no longer exists"
        )
        return
    before, after = change.before, change.after
    assert isinstance(before, Endpoints)  # noqa: S101 - an update has both
    assert isinstance(after, Endpoints)  # noqa: S101
    old, new = _addresses(before), _addresses(after)
    parts = []
    if new - old:
        parts.append(f"missing {few(new - old)}")
    if old - new:
        parts.append(f"unexpected {few(old - new)}")
    cause = "; ".join(parts) or "its ports, labels or annotations are wrong"
    yield make_finding("EndpointsWrong", "error" if parts else "warning", change.service, before, cause)


def _of_mirror(change: ObjectChange) -> Iterator[Finding]:
    words = {
        "create": "its Endpoints are hand-written, but no slice mirrors them",
        "update": "it differs from the Endpoints that it mirrors",
        "delete": "its Endpoints should not be mirrored, or it is superfluous",
    }
    severity: Severity = "warning" if change.operation == "delete" else "error"
    yield make_finding(
        {"create": "MirrorMissing", "update": "MirrorWrong", "delete": "MirrorLeftOver"}[change.operation],
        severity,
        change.service,
        change.before,
        words[change.operation],
        kind="EndpointSlice",
    )


def _addresses(item: Endpoints) -> set[str]:
    found: set[str] = set()
    for subset in item.subsets or ():
        found.update(address.ip for address in subset.addresses or ())
        found.update(f"{address.ip} (not ready)" for address in subset.not_ready_addresses or ())
    return found


def _difference(observed: Endpoint, wanted: Endpoint, *, with_topology: bool) -> str:
    parts = []
    if sorted(observed.addresses) != sorted(wanted.addresses):
        parts.append(f"addresses {', '.join(observed.addresses)} instead of {', '.join(wanted.addresses)}")
    for field in CONDITIONS:
        old, new = getattr(observed.conditions, field), getattr(wanted.conditions, field)
        if old != new:
            parts.append(f"{field} is {_json(old)} instead of {_json(new)}")
    for field in ("node_name", "zone", "hostname") if with_topology else ("node_name", "hostname"):
        old, new = getattr(observed, field) or "", getattr(wanted, field) or ""
        if old != new:
            parts.append(f"{field.replace('_n', 'N')} is {old!r} instead of {new!r}")
    target, wanted_target = observed.target_ref, wanted.target_ref
    if target is not None and wanted_target is not None and target.uid != wanted_target.uid:
        parts.append("it refers to an earlier pod of the same name")
    return ", ".join(parts)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _published_endpoints(
    index: ClusterIndex, key: ObjectKey, address_type: str
) -> dict[str, list[tuple[EndpointSlice, Endpoint]]]:
    published: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {}
    for endpoint_slice in our_slices(index, key):
        if endpoint_slice.address_type != address_type:
            continue
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.target_ref is not None and endpoint.target_ref.name:
                published.setdefault(endpoint.target_ref.name, []).append((endpoint_slice, endpoint))
    return published
