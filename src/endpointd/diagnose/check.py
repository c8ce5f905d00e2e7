"""Is everything as pods and services say it should be: a whole cluster compared with what the controllers would have. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from endpointd.api.core import Service
from endpointd.api.discovery import (
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_MIRRORING_CONTROLLER,
    Endpoint,
    EndpointSlice,
)
from endpointd.api.endpoints import OVER_CAPACITY_ANNOTATION, Endpoints
from endpointd.api.meta import ObjectKey, key_of
from endpointd.controllers.endpoints.plan import is_published
from endpointd.controllers.endpointslice.desired import is_owned_by
from endpointd.controllers.mirroring.desired import is_mirrorable, wants_mirroring
from endpointd.diagnose.changes import (
    ObjectChange,
    Settings,
    changes_of_all,
    managed_by,
    slice_state,
)
from endpointd.diagnose.reasons import is_selected
from endpointd.diagnose.snapshot import World, service_name_of

Severity = Literal["error", "warning"]
"""``error``: consumers are told something wrong. ``warning``: they are not, or not yet."""


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


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What was looked at, and what was found: errors first, then by service."""

    findings: tuple[Finding, ...]
    services: int
    pods: int
    slices: int
    endpoints: int
    unread: tuple[str, ...] = ()
    """What could not be read, so that nothing can be said of it."""

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


_RUNS = "see that kube-controller-manager or endpointd runs and may write here; endpointd diff shows what it would do"


def check(world: World, settings: Settings | None = None) -> Report:
    """Compare everything in a snapshot; O(the cluster). A cluster whose controllers are at rest has no finding.

    One that is changing may show findings that are gone a moment later: what is read is not of one moment.
    """
    settings = settings or Settings()
    changes = list(changes_of_all(world, settings))
    found = [
        *_missing_or_wrong(world, changes),
        *_left_over(world),
        *_duplicates(world),
        *_foreign(world),
        *_half_migrated(world),
        *_over_capacity(world),
        *_out_of_step(world),
    ]
    snapshot = world.snapshot
    unreadable = {unread.resource for unread in snapshot.unread}
    distinct = {
        (finding.code, finding.kind, finding.namespace, finding.name, finding.cause): finding
        for finding in found
        if finding.kind not in _kinds_of(unreadable)
    }
    return Report(
        findings=tuple(
            sorted(
                distinct.values(),
                key=lambda one: (one.severity != "error", one.namespace, one.service, one.code, one.name),
            )
        ),
        services=len(snapshot.services),
        pods=len(snapshot.pods),
        slices=len(snapshot.slices),
        endpoints=len(snapshot.endpoints),
        unread=tuple(f"{unread.resource}: {unread.why}" for unread in snapshot.unread),
    )


def _kinds_of(resources: Iterable[str]) -> set[str]:
    kinds = {"endpoints": "Endpoints", "endpointslices": "EndpointSlice"}
    return {kinds[resource] for resource in resources if resource in kinds}


def _finding(
    code: str,
    severity: Severity,
    service: ObjectKey,
    item: EndpointSlice | Endpoints | None,
    cause: str,
    fix: str = _RUNS,
    *,
    kind: str = "",
    name: str = "",
) -> Finding:
    if item is not None:
        kind = "EndpointSlice" if isinstance(item, EndpointSlice) else "Endpoints"
        name = item.metadata.name
    return Finding(code, severity, service.namespace, service.name, kind, name, cause, fix)


# --------------------------------------------------------------------- what the controllers would write


def _missing_or_wrong(world: World, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
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


def _of_slices(world: World, key: ObjectKey, changes: Sequence[ObjectChange]) -> Iterator[Finding]:
    """Say by pods what is wrong, where that is what is wrong; by slices otherwise."""
    if not changes:
        return
    state = slice_state(world, key)
    if state is None:
        return
    told = False
    for family in state.families():
        wanted = {name: one.endpoint for name, one in family.desired_endpoints().items()}
        held = _held(world, key, family.address_type)
        missing = sorted(wanted.keys() - held.keys())
        if missing:
            told = True
            if not any(piece.address_type == family.address_type for piece in _ours(world, key)):
                yield _finding(
                    "SlicesMissing",
                    "error",
                    key,
                    None,
                    f"there is no {family.address_type} slice at all, and {_pods(missing)} should be published",
                    kind="EndpointSlice",
                )
            else:
                yield _finding(
                    "EndpointMissing",
                    "error",
                    key,
                    None,
                    f"{_pods(missing)} should be in an {family.address_type} slice, and {_is(missing)} in none",
                    kind="EndpointSlice",
                )
        for name in sorted(wanted.keys() & held.keys()):
            for piece, endpoint in held[name]:
                difference = _difference(endpoint, wanted[name])
                if difference:
                    told = True
                    yield _finding("EndpointWrong", "error", key, piece, f"pod {name}: {difference}")
    if told or _has_left_over(world, key):
        return
    replaced = any(change.operation == "delete" for change in changes)
    for change in changes:
        if change.operation == "create" and replaced:
            continue  # what takes the place of the deleted one
        item = change.before if change.before is not None else change.after
        yield _finding(
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
        yield _finding(
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
        yield _finding("EndpointsLeftOver", "warning", change.service, change.before, "its service is gone")
        return
    before, after = change.before, change.after
    assert isinstance(before, Endpoints)  # noqa: S101 - an update has both
    assert isinstance(after, Endpoints)  # noqa: S101
    old, new = _addresses(before), _addresses(after)
    parts = []
    if new - old:
        parts.append(f"missing {_few(new - old)}")
    if old - new:
        parts.append(f"too many {_few(old - new)}")
    cause = "; ".join(parts) or "its ports, labels or annotations are not what they should be"
    yield _finding("EndpointsWrong", "error" if parts else "warning", change.service, before, cause)


def _of_mirror(change: ObjectChange) -> Iterator[Finding]:
    words = {
        "create": "its Endpoints are written by hand, and no slice mirrors them",
        "update": "it is not what the Endpoints that it mirrors say",
        "delete": "it mirrors what is not to be mirrored, or is one too many",
    }
    severity: Severity = "warning" if change.operation == "delete" else "error"
    yield _finding(
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


def _difference(observed: Endpoint, wanted: Endpoint) -> str:
    parts = []
    if sorted(observed.addresses) != sorted(wanted.addresses):
        parts.append(f"addresses {', '.join(observed.addresses)} instead of {', '.join(wanted.addresses)}")
    for field in ("ready", "serving", "terminating"):
        old, new = getattr(observed.conditions, field), getattr(wanted.conditions, field)
        if old != new:
            parts.append(f"{field} is {_json(old)} instead of {_json(new)}")
    for field in ("node_name", "zone", "hostname"):
        old, new = getattr(observed, field) or "", getattr(wanted, field) or ""
        if old != new:
            parts.append(f"{field.replace('_n', 'N')} is {old!r} instead of {new!r}")
    target, right = observed.target_ref, wanted.target_ref
    if target is not None and right is not None and target.uid != right.uid:
        parts.append("it refers to an earlier pod of that name")
    return ", ".join(parts)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# ----------------------------------------------------------------------------------- what is left over


def _ours(world: World, key: ObjectKey) -> list[EndpointSlice]:
    return [
        piece
        for piece in world.slices_by_service.get(key, ())
        if managed_by(piece) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER
        and piece.metadata.deletion_timestamp is None
    ]


def _held(world: World, key: ObjectKey, address_type: str) -> dict[str, list[tuple[EndpointSlice, Endpoint]]]:
    held: dict[str, list[tuple[EndpointSlice, Endpoint]]] = {}
    for piece in _ours(world, key):
        if piece.address_type != address_type:
            continue
        for endpoint in piece.endpoints or ():
            if endpoint.target_ref is not None and endpoint.target_ref.name:
                held.setdefault(endpoint.target_ref.name, []).append((piece, endpoint))
    return held


def _has_left_over(world: World, key: ObjectKey) -> bool:
    return any(True for _ in _left_over_of(world, key))


def _left_over(world: World) -> Iterator[Finding]:
    for key in list(world.slices_by_service):
        service = world.services.get(key)
        if service is None:
            for piece in _ours(world, key):
                yield _finding(
                    "SliceOrphaned",
                    "warning",
                    key,
                    piece,
                    "its service is gone",
                    "the garbage collector removes it, if its owner reference is right; else delete it",
                )
            continue
        yield from _left_over_of(world, key)


def _left_over_of(world: World, key: ObjectKey) -> Iterator[Finding]:
    service = world.services.get(key)
    if service is None or not service.selector or service.is_external_name:
        return
    for piece in _ours(world, key):
        for endpoint in piece.endpoints or ():
            target = endpoint.target_ref
            addresses = ", ".join(endpoint.addresses)
            if target is None or not target.name:
                yield _finding("EndpointForeign", "error", key, piece, f"{addresses} refers to no pod")
                continue
            pod = world.pods.get(ObjectKey(key.namespace, target.name))
            if pod is None:
                yield _finding(
                    "EndpointStale",
                    "error",
                    key,
                    piece,
                    f"{addresses} is of pod {target.name}, which is gone",
                )
            elif not is_selected(service, pod):
                yield _finding(
                    "EndpointStale",
                    "error",
                    key,
                    piece,
                    f"{addresses} is of pod {target.name}, which the service does not select",
                )


def _duplicates(world: World) -> Iterator[Finding]:
    for key in world.slices_by_service:
        seen: Counter[tuple[str, str, str]] = Counter()
        where: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for piece in _ours(world, key):
            ports = ",".join(sorted(f"{port.name}:{port.port}:{port.protocol}" for port in piece.ports or ()))
            for endpoint in piece.endpoints or ():
                identity = (piece.address_type, ports, endpoint.addresses[0] if endpoint.addresses else "")
                seen[identity] += 1
                where[identity].append(piece.metadata.name)
        for identity, count in seen.items():
            if count > 1:
                yield _finding(
                    "EndpointDuplicated",
                    "error",
                    key,
                    None,
                    f"{identity[2]} stands {count} times under the same ports, in {', '.join(sorted(set(where[identity])))}",
                    kind="EndpointSlice",
                    name=where[identity][0],
                )


def _foreign(world: World) -> Iterator[Finding]:
    known = {MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER}
    for key, pieces in world.slices_by_service.items():
        service = world.services.get(key)
        if service is None or not service.selector:
            continue
        for piece in pieces:
            if managed_by(piece) not in known and not _is_api_server_own(piece):
                yield _finding(
                    "SliceForeign",
                    "warning",
                    key,
                    piece,
                    f"it is managed by {managed_by(piece) or 'nobody'}, and names a service whose endpoints are selected: "
                    "consumers use both",
                    "make sure that this is meant; else delete it, or take its service-name label away",
                )
    for piece in world.slices.values():
        if service_name_of(piece) is None and managed_by(piece) in known:
            yield _finding(
                "SliceNameless",
                "warning",
                ObjectKey(piece.metadata.namespace, ""),
                piece,
                "it is labelled as the controller's, and names no service: nobody looks after it",
                "delete it",
            )


def _is_api_server_own(piece: EndpointSlice) -> bool:
    return piece.metadata.key == ObjectKey("default", "kubernetes")


def _half_migrated(world: World) -> Iterator[Finding]:
    """Find services whose endpoints two controllers publish: a selector that came or went, and the other's slices."""
    for key, pieces in world.slices_by_service.items():
        service = world.services.get(key)
        if service is None:
            continue
        by = {managed_by(piece) for piece in pieces}
        if not is_published(service) and MANAGED_BY_ENDPOINTSLICE_CONTROLLER in by:
            item = next(one for one in pieces if managed_by(one) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER)
            why = "is of type ExternalName" if service.is_external_name else "has lost its selector"
            mirrored = world.endpoints.get(key)
            both = (
                MANAGED_BY_MIRRORING_CONTROLLER in by
                and mirrored is not None
                and is_mirrorable(mirrored)
                and wants_mirroring(service)
            )
            yield _finding(
                "HalfMigrated",
                "error" if both else "warning",
                key,
                item,
                f"the service {why}, and slices of its time with one are still there"
                + (", beside those that mirror its Endpoints" if both else ""),
                f"delete them: kubectl -n {key.namespace} delete endpointslice -l kubernetes.io/service-name={key.name},"
                f"endpointslice.kubernetes.io/managed-by={MANAGED_BY_ENDPOINTSLICE_CONTROLLER}",
            )


def _over_capacity(world: World) -> Iterator[Finding]:
    for item in world.endpoints.values():
        key = key_of(item)
        if OVER_CAPACITY_ANNOTATION in (item.metadata.annotations or {}) and world.services.get(key):
            yield _finding(
                "EndpointsTruncated",
                "warning",
                key,
                item,
                "it holds 1,000 addresses and the service has more: what reads Endpoints does not see all",
                "have consumers read EndpointSlices",
            )


def _out_of_step(world: World) -> Iterator[Finding]:
    """Find slices that were asked to go, and that a finalizer keeps."""
    for piece in world.slices.values():
        key = service_name_of(piece)
        if piece.metadata.deletion_timestamp is not None and key is not None:
            held = ", ".join(piece.metadata.finalizers or ()) or "nothing that shows"
            yield _finding(
                "SliceHeld",
                "warning",
                key,
                piece,
                f"it is being deleted since {piece.metadata.deletion_timestamp}, and held by {held}: consumers still use it",
                "have the finalizer's owner release it",
            )


def _pods(names: Sequence[str]) -> str:
    return f"pod {names[0]}" if len(names) == 1 else f"{len(names)} pods ({_few(names)})"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _few(names: Iterable[str], most: int = 4) -> str:
    ordered = sorted(names)
    more = len(ordered) - most
    return ", ".join(ordered[:most]) + (f" and {more} more" if more > 0 else "")
