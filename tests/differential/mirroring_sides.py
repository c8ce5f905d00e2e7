"""One of two clusters with mirrored Endpoints, the state that both must have in common, and rules for each cluster.

Slices are compared as raw JSON without the noise listed in :mod:`tests.differential.normalise`. All other fields of a
mirrored slice are determined, except the order of its endpoints (behaviour 6).
"""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    EndpointPort,
    EndpointSlice,
)
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import NotFoundError
from aiokube.client.rest import MERGE_PATCH
from endpointd.controllers.mirroring.controller import EVENT_COMPONENT, NAME
from endpointd.controllers.mirroring.desired import is_mirrorable, wants_mirroring
from tests.differential.cluster_under_test import (
    TOUCH_ANNOTATION,
    Resolved,
    Side,
    Starter,
)
from tests.differential.mirroring_workload import HELD, OURS, STRANGER
from tests.differential.normalise import (
    Json,
    NormalState,
    Snapshot,
    Uids,
    endpoint_lines,
    is_being_deleted,
    manager_of,
    raw_key_of,
    service_key_of,
    slice_header_lines,
    type_and_ports_of,
)
from tests.differential.operations import Operation, SliceOf, document
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

_START_SECONDS = 60.0


def upstream_mirroring(flags: Sequence[str] = ()) -> Starter:
    """Return a starter of kube-controller-manager with only the mirroring controller and these flags."""
    return lambda plane, name: plane.start_controller_manager((NAME,), flags=flags, name=name)


def endpointd_mirroring(flags: Sequence[str] = (), command: Sequence[str | Path] = ()) -> Starter:
    """Return a starter of ``endpointd run`` with only the mirroring controller and these flags; it waits until the program runs.

    ``command`` precedes the flags; by default it is this interpreter's ``-m endpointd run``.
    """
    program = tuple(command) or (sys.executable, "-m", "endpointd", "run")

    def start(plane: ControlPlane, name: str) -> ChildProcess:
        fixed = (f"--kubeconfig={plane.kubeconfig_path}", f"--controllers={NAME}", "--leader-elect=false")
        child = plane.start_child(name, [*program, *fixed, *flags])
        child.wait_for_log('"running" controllers=', timeout_seconds=_START_SECONDS)
        return child

    return start


class MirroringSide(Side):
    """A cluster whose compared slices are mirrored ones; touching changes every mirrored Endpoints."""

    async def resolve(self, operations: Sequence[Operation]) -> Resolved:
        """Return the names of the slices that the operations target; targets without a slice are absent."""
        targets = [(op.namespace, op.name) for op in operations if isinstance(op.name, SliceOf)]
        if not targets:
            return {}
        snapshot = await self.snapshot()
        found: dict[tuple[str, SliceOf], str] = {}
        for namespace, target in targets:
            candidates = slice_names_in_order(
                snapshot, ObjectKey(namespace, target.service), are_held=target.index == HELD
            )
            if candidates:
                found[namespace, target] = candidates[target.index % len(candidates)]
        return found

    async def touch_services(self) -> None:
        """Change a mirrored annotation of every Endpoints, so that all its slices must be written."""
        self._touches += 1
        body = document({"metadata": {"annotations": {TOUCH_ANNOTATION: str(self._touches)}}}).encode()
        for item in (await self.snapshot()).endpoints:
            await self._client.patch(ENDPOINTS, key_of(item), body, patch_type=MERGE_PATCH)
        self.last_change_seconds = self._clock.monotonic()

    async def clear(self, wheres: Collection[str]) -> None:
        """Delete the slices that mirror these Endpoints, so that the controller starts from nothing."""
        for endpoint_slice in (await self.snapshot()).slices:
            if _manager(endpoint_slice) == OURS and str(_mirrored_key(endpoint_slice)) in wheres:
                with contextlib.suppress(NotFoundError):
                    await self._client.delete(ENDPOINT_SLICES, key_of(endpoint_slice))
        self.last_change_seconds = self._clock.monotonic()

    async def told(self) -> frozenset[tuple[str, str, str, str]]:
        """Return the controller's Events: involved object, type, reason and message."""
        found = set()
        for namespace in self.namespaces:
            answer = await self._client.request("GET", f"/api/v1/namespaces/{namespace}/events")
            for event in msgspec.json.decode(answer)["items"]:
                about = event["involvedObject"]
                if event["source"].get("component") == EVENT_COMPONENT:
                    where = f"{about['kind']} {about['namespace']}/{about['name']}"
                    found.add((where, event["type"], event["reason"], event["message"]))
        return frozenset(found)


def slice_names_in_order(snapshot: Snapshot, key: ObjectKey, *, are_held: bool = False) -> list[str]:
    """Return the names of the slices that mirror an Endpoints, ordered by content.

    Returns either the live slices, or those kept by a finalizer.
    """
    nothing = Uids(Snapshot())
    chosen = [
        slice_
        for slice_ in snapshot.raw_slices
        if service_key_of(slice_) == key
        and manager_of(slice_) == OURS
        and is_being_deleted(slice_) == are_held
    ]
    chosen.sort(key=lambda slice_: (type_and_ports_of(slice_), _lines(slice_, nothing)))
    return [raw_key_of(slice_).name for slice_ in chosen]


def mirrored_state(snapshot: Snapshot) -> NormalState:
    """Return the state that two clusters must have in common: slice contents per Endpoints, address type and ports.

    Excludes slices that are being deleted; :func:`held_keys` lists their Endpoints.
    """
    uids = Uids(snapshot)
    state: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for slice_ in snapshot.raw_slices:
        if not is_being_deleted(slice_):
            own_name = raw_key_of(slice_).name
            named = f" named {own_name}" if own_name.startswith(STRANGER) else ""
            name = f"{service_key_of(slice_)} {type_and_ports_of(slice_)} by {manager_of(slice_)}{named}"
            state[name].append(_lines(slice_, uids))
    return {name: tuple(line for lines in sorted(found) for line in lines) for name, found in state.items()}


def held_keys(snapshot: Snapshot) -> set[str]:
    """Return the Endpoints with slices that a finalizer keeps from being deleted."""
    return {str(service_key_of(slice_)) for slice_ in snapshot.raw_slices if is_being_deleted(slice_)}


def broken_mirrors(snapshot: Snapshot) -> list[str]:
    """Return the errors of mirrored slices at rest, one line each, independent of another cluster.

    Checks without repacking, per address, readiness and port.
    """
    wrong: list[str] = []
    services = {key_of(service): service for service in snapshot.services}
    items = {key_of(item): item for item in snapshot.endpoints}
    groups: set[tuple[ObjectKey, str]] = set()
    for endpoint_slice in snapshot.slices:
        key = _mirrored_key(endpoint_slice)
        if _manager(endpoint_slice) != OURS or endpoint_slice.metadata.deletion_timestamp is not None:
            continue
        name = endpoint_slice.metadata.name
        item, service = items.get(key), services.get(key)
        if item is None or not is_mirrorable(item) or service is None or not wants_mirroring(service):
            wrong.append(f"slice {name} mirrors {key}, which is not to be mirrored (M-10)")
            continue
        if (key, _group(endpoint_slice)) in groups:
            wrong.append(f"slice {name} is one of several of {key} {_group(endpoint_slice)} (M-31)")
        groups.add((key, _group(endpoint_slice)))
        if [owner.uid for owner in endpoint_slice.metadata.owner_references or ()] != [item.metadata.uid]:
            wrong.append(f"slice {name} does not belong to the Endpoints {key} (M-33)")
        if not endpoint_slice.endpoints:
            wrong.append(f"slice {name} of {key} is empty (M-30)")
        offered = {
            (port.name or "", port.port, port.protocol)
            for subset in item.subsets or ()
            for port in subset.ports or ()
        }
        wrong += [
            f"slice {name} of {key} has a port that is not there: {_port_text(port)}"
            for port in endpoint_slice.ports or ()
            if (port.name, port.port, port.protocol) not in offered
        ]
    return wrong


def _mirrored_key(endpoint_slice: EndpointSlice) -> ObjectKey:
    return ObjectKey(
        endpoint_slice.metadata.namespace, (endpoint_slice.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
    )


def _manager(endpoint_slice: EndpointSlice) -> str:
    return (endpoint_slice.metadata.labels or {}).get(MANAGED_BY_LABEL, "(none)")


def _group(endpoint_slice: EndpointSlice) -> str:
    return f"{endpoint_slice.address_type} [{', '.join(map(_port_text, endpoint_slice.ports or ()))}]"


def _port_text(port: EndpointPort) -> str:
    return f"{port.name or '-'}:{port.port}/{port.protocol} {port.app_protocol or ''}".rstrip()


def _lines(slice_: Json, uids: Uids) -> tuple[str, ...]:
    return (*slice_header_lines(slice_, uids), *endpoint_lines(slice_, uids))
