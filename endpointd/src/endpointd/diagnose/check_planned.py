"""What is missing or wrong by the controllers' own plans: said by pods where that is what is wrong. Pure."""

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
from endpointd.diagnose.leftovers import left_over_of
from endpointd.diagnose.snapshot import ClusterIndex


def missing_or_wrong(world: ClusterIndex, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
    """Return what the controllers would write as findings: O(the services that need a write)."""
    by_service: dict[ObjectKey, list[ObjectChange]] = defaultdict(list)
    for change in changes:
        by_service[change.service].append(change)
    for key, found in by_service.items():
        yield from _of_slices(world, key, [one for one in found if one.controller == "endpointslice"])
        for change in found:
            if change.controller == "endpoints":
                yield from _of_endpoints(change)
            elif change.controller == "mirroring":
                yield from _of_mirror(change)


def _of_slices(world: ClusterIndex, key: ObjectKey, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
    """Say by pods what is wrong, where that is what is wrong; by slices otherwise."""
    if not changes:
        return
    state = slice_state(world, key)
    if state is None:
        return
    told = False
    with_topology = world.could_read("nodes")
    for family in state.families():
        wanted = {name: one.endpoint for name, one in family.desired_endpoints().items()}
        held = _held(world, key, family.address_type)
        missing = sorted(wanted.keys() - held.keys())
        if missing:
            told = True
            if not any(
                endpoint_slice.address_type == family.address_type
                for endpoint_slice in our_slices(world, key)
            ):
                yield make_finding(
                    "SlicesMissing",
                    "error",
                    key,
                    None,
                    f"there is no {family.address_type} slice at all, and {pods_text(missing)} should be published",
                    kind="EndpointSlice",
                )
            else:
                yield make_finding(
                    "EndpointMissing",
                    "error",
                    key,
                    None,
                    f"{pods_text(missing)} should be in an {family.address_type} slice, and {is_or_are(missing)} in none",
                    kind="EndpointSlice",
                )
        for name in sorted(wanted.keys() & held.keys()):
            for endpoint_slice, endpoint in held[name]:
                difference = _difference(endpoint, wanted[name], with_topology=with_topology)
                if difference:
                    told = True
                    yield make_finding(
                        "EndpointWrong", "error", key, endpoint_slice, f"pod {name}: {difference}"
                    )
    if told or any(True for _ in left_over_of(world, key)):
        return
    replaced = any(change.operation == "delete" for change in changes)
    for change in changes:
        if change.operation == "create" and replaced:
            continue  # what takes the place of the deleted one
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
        return "its owner is not the service, or an earlier one of its name: another takes its place"
    if change.operation == "delete":
        return "it should not be there"
    if _is_metadata_alone(change):
        return _metadata_difference(change)
    return "its ports or its endpoints are not what they should be"


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
        parts.append("its owner is not the service")
    return "; ".join(parts) or "its metadata is not what it should be"


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
            "EndpointsLeftOver", "warning", change.service, change.before, "its service is gone"
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
        parts.append(f"too many {few(old - new)}")
    cause = "; ".join(parts) or "its ports, labels or annotations are not what they should be"
    yield make_finding("EndpointsWrong", "error" if parts else "warning", change.service, before, cause)


def _of_mirror(change: ObjectChange) -> Iterator[Finding]:
    words = {
        "create": "its Endpoints are written by hand, and no slice mirrors them",
        "update": "it is not what the Endpoints that it mirrors say",
        "delete": "it mirrors what is not to be mirrored, or is one too many",
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
    target, right = observed.target_ref, wanted.target_ref
    if target is not None and right is not None and target.uid != right.uid:
        parts.append("it refers to an earlier pod of that name")
    return ", ".join(parts)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _held(
    world: ClusterIndex, key: ObjectKey, address_type: str
) -> dict[str, list[tuple[EndpointSlice, Endpoint]]]:
    held: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {}
    for endpoint_slice in our_slices(world, key):
        if endpoint_slice.address_type != address_type:
            continue
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.target_ref is not None and endpoint.target_ref.name:
                held.setdefault(endpoint.target_ref.name, []).append((endpoint_slice, endpoint))
    return held
