"""Invariants at every moment of a simulation, checked as revisions become durable and as writes leave a host."""

import ipaddress
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from aiokube.api.core import NODES, PODS, SERVICES, Pod
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    MANAGED_BY_MIRRORING_CONTROLLER,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
)
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey
from aiokube.api.resource import Bookmark, Resource, WatchError, WatchEvent
from aiokube.client.errors import ClientError
from aiokube.client.rest import Client
from tests.differential.operations import RESOURCES
from tinykube.server.storage.log import Row
from tinykube.testing.simulated_server import Disk, Written

MIRRORED_ENDPOINTS_PER_SLICE = 100
_UNFENCED = frozenset({"leases", "events"})

Report = Callable[[str, str], None]
"""Receives the name of an invariant and a description of its violation."""


class HistoryInvariants:
    """Follows the durable history of the API server, and checks each revision that a replica wrote.

    * one-writer: a replica sends a write only while the Lease names it.
    * existing-endpoints: every endpoint of a slice belongs to a pod (or an Endpoints) that had this address at some revision.
    * slice-limits: no slice that a controller writes has more endpoints than the limit.
    * no-withdrawal: an endpoint published as ready stays published while its pod, service, and node do not change and no
    other client edits the service's slices.
    * no-overwrite: objects of other managers are never written.
    """

    def __init__(self, disk: Disk, report: Report, *, max_endpoints: int) -> None:
        self._report = report
        self._max_endpoints = max_endpoints
        self.holder = ""
        self._pods: dict[ObjectKey, Pod] = {}
        self._pod_changes: dict[str, int] = {}
        self._pod_addresses: dict[str, set[str]] = {}
        self._ready_pods: set[str] = set()
        self._publish_not_ready: set[ObjectKey] = set()
        self._mirrorable: dict[ObjectKey, set[str]] = {}
        self._changes: dict[tuple[str, ObjectKey], int] = {}
        self._deleted: set[tuple[str, ObjectKey]] = set()
        self._slices: dict[ObjectKey, EndpointSlice] = {}
        self._edited: dict[ObjectKey, int] = {}
        self._editors: dict[ObjectKey, str] = {}
        self._published: dict[tuple[ObjectKey, str, str], int] = {}
        self.writes = 0
        disk.observers.append(self.observe)

    def sent(self, identity: str, verb: str, resource: str, target: str) -> None:
        """Check a write as its bytes leave a replica."""
        if resource not in _UNFENCED and identity != self.holder:
            self._report(
                "one-writer", f"{identity} sends {verb} {target} while {self.holder or 'no replica'} leads"
            )

    def observe(self, written: Written) -> None:
        """Process one durable revision."""
        row = written.row
        match row.plural:
            case "leases" if row.name == "endpointd":
                spec = msgspec.json.decode(row.value).get("spec", {}) if row.value is not None else {}
                self.holder = spec.get("holderIdentity") or ""
            case "pods":
                self._observe_pod(row)
            case "endpoints":
                self._editors[ObjectKey(row.namespace, row.name)] = written.author
                self._observe_endpoints(row)
            case "endpointslices":
                self._observe_slice(written)
            case "services" | "nodes":
                key = ObjectKey(row.namespace, row.name)
                self._changes[row.plural, key] = self._changes.get((row.plural, key), 0) + 1
                if row.value is None:
                    self._deleted.add((row.plural, key))
                if row.value is not None and b'"publishNotReadyAddresses":true' in row.value:
                    self._publish_not_ready.add(key)

    def last_editor(self, endpoints: ObjectKey) -> str:
        """Return the last writer of an Endpoints."""
        return self._editors.get(endpoints, "")

    def _observe_pod(self, row: Row) -> None:
        key = ObjectKey(row.namespace, row.name)
        before = self._pods.pop(key, None)
        if row.value is None:
            return
        pod: Pod = PODS.decode(row.value)
        self._pods[key] = pod
        uid = pod.metadata.uid
        if (
            before is not None
            and before.metadata.uid == uid
            and before.ready
            and _matters(before) != _matters(pod)
        ):
            self._pod_changes[uid] = self._pod_changes.get(uid, 0) + 1
        self._pod_addresses.setdefault(pod.metadata.uid, set()).update(pod.pod_ips)
        if pod.pod_ip:
            self._pod_addresses[pod.metadata.uid].add(pod.pod_ip)
        if pod.ready:
            self._ready_pods.add(pod.metadata.uid)

    def _observe_endpoints(self, row: Row) -> None:
        if row.value is None:
            return
        key = ObjectKey(row.namespace, row.name)
        item: Endpoints = ENDPOINTS.decode(row.value)
        known = self._mirrorable.setdefault(key, set())
        for subset in item.subsets or ():
            known.update(
                _canonical(one.ip) for one in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
            )

    def _observe_slice(self, written: Written) -> None:
        row = written.row
        key = ObjectKey(row.namespace, row.name)
        before = self._slices.get(key)
        after = ENDPOINT_SLICES.decode(row.value) if row.value is not None else None
        if after is None:
            self._slices.pop(key, None)
        else:
            self._slices[key] = after
        labels = ((after or before).metadata.labels if after or before else None) or {}  # type: ignore[union-attr]
        manager = labels.get(MANAGED_BY_LABEL, "")
        service = ObjectKey(row.namespace, labels.get(SERVICE_NAME_LABEL, ""))
        if not written.author.startswith("replica"):
            for one in (before, after):
                if one is not None:
                    name = (one.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
                    self._edited[ObjectKey(row.namespace, name)] = row.revision
            return
        self.writes += 1
        old = (before.metadata.labels or {}).get(MANAGED_BY_LABEL, "") if before is not None else manager
        ours = (MANAGED_BY_ENDPOINTSLICE_CONTROLLER, MANAGED_BY_MIRRORING_CONTROLLER)
        if manager not in ours or old not in ours:
            self._report(
                "no-overwrite", f"{written.author} writes {key}, managed by {old or 'no controller'}"
            )
        if after is not None:
            self._check_content(after, manager, service, row.revision)
        if manager == MANAGED_BY_ENDPOINTSLICE_CONTROLLER:
            self._check_withdrawn(before, after, service, row.revision)

    def _check_content(self, item: EndpointSlice, manager: str, service: ObjectKey, revision: int) -> None:
        endpoints = item.endpoints or ()
        mirrored = manager == MANAGED_BY_MIRRORING_CONTROLLER
        limit = MIRRORED_ENDPOINTS_PER_SLICE if mirrored else self._max_endpoints
        where = f"slice {item.metadata.key} at {revision}"
        if len(endpoints) > limit:
            self._report("slice-limits", f"{where} has {len(endpoints)} endpoints, more than {limit}")
        for endpoint in endpoints:
            if mirrored:
                known = self._mirrorable.get(service, set())
            else:
                uid = endpoint.target_ref.uid if endpoint.target_ref is not None else None
                known = self._pod_addresses.get(uid or "", set())
                is_ready = endpoint.conditions.ready and service not in self._publish_not_ready
                if is_ready and uid not in self._ready_pods:
                    self._report(
                        "existing-endpoints", f"{where}: {_name(endpoint)} is ready, its pod never was"
                    )
            if not known.issuperset(map(_canonical, endpoint.addresses)):
                self._report(
                    "existing-endpoints", f"{where}: {_name(endpoint)} never had {endpoint.addresses}"
                )

    def _check_withdrawn(
        self, before: EndpointSlice | None, after: EndpointSlice | None, service: ObjectKey, revision: int
    ) -> None:
        here, there = dict(_ready(after)), dict(_ready(before))
        for uid, endpoint in here.items():
            if after is not None:
                known = (service, after.address_type, uid)
                if uid in there and there[uid] != endpoint:  # the controller has seen something new
                    self._published[known] = revision
                self._published.setdefault(known, revision)
        for uid, endpoint in there.items():
            if uid in here or before is None:
                continue
            known = (service, before.address_type, uid)
            if any(
                uid in dict(_ready(one))
                for one in self._slices.values()
                if one.address_type == before.address_type
                and (one.metadata.labels or {}).get(SERVICE_NAME_LABEL) == service.name
                and one.metadata.namespace == service.namespace
            ):
                continue  # it is in another slice
            since = self._published.pop(known, 0)
            reference = endpoint.target_ref
            assert reference is not None
            pod = ObjectKey(service.namespace, reference.name or "")
            if since and self._is_steady(uid, pod, service, endpoint.node_name or "", since):
                self._report(
                    "no-withdrawal",
                    f"{_name(endpoint)}, published for {service} at {since}, is withdrawn at {revision}, and nothing"
                    " had changed",
                )

    def _is_steady(self, uid: str, pod: ObjectKey, service: ObjectKey, node: str, since: int) -> bool:
        """Return whether neither a pod since it became ready nor anything else that its endpoint depends on has changed.

        Changes that were reverted count as changes: a stale cache may correctly show the intermediate state.
        """
        current = self._pods.get(pod)
        return (
            current is not None
            and current.metadata.uid == uid
            and self._pod_changes.get(uid, 0) == 0
            and service not in self._publish_not_ready
            and self._changes.get(("services", service), 0) == 1
            and ("nodes", ObjectKey("", node)) not in self._deleted
            and self._edited.get(service, 0) == 0
        )


def _matters(pod: Pod) -> tuple[Any, ...]:
    """Return the properties of a pod that its endpoint depends on."""
    return (
        pod.ready,
        pod.labels,
        pod.pod_ips,
        pod.pod_ip,
        pod.phase,
        pod.terminating,
        pod.node_name,
        pod.hostname,
        pod.subdomain,
    )


def _canonical(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def _ready(item: EndpointSlice | None) -> Iterator[tuple[str, Endpoint]]:
    for endpoint in (item.endpoints or ()) if item is not None else ():
        if endpoint.conditions.ready and endpoint.target_ref is not None and endpoint.target_ref.uid:
            yield endpoint.target_ref.uid, endpoint


def _name(endpoint: Endpoint) -> str:
    return endpoint.target_ref.name or "" if endpoint.target_ref is not None else str(endpoint.addresses)


class StoreInvariants:
    """A handler for one cache: versions of an object never decrease, and changes match the previous object."""

    def __init__(self, where: str, report: Report) -> None:
        self._where = where
        self._report = report
        self._versions: dict[ObjectKey, int] = {}

    def __call__(self, old: Any, new: Any) -> None:
        """Check one change as the store dispatches it."""
        item = new if new is not None else old
        key = item.metadata.key
        version = int(item.metadata.resource_version or 0)
        known = self._versions.get(key, 0)
        if version < known:
            self._report("versions", f"{self._where}: {key} goes from version {known} back to {version}")
        self._versions[key] = version


class WatchChecker:
    """A client that lists and watches one resource, and compares every event with the durable history."""

    def __init__(
        self, client: Client, disk: Disk, report: Report, rng: random.Random, story: Callable[[str], None]
    ) -> None:
        self._client = client
        self._disk = disk
        self._report = report
        self._rng = rng
        self._story = story
        self._resource: Resource[Any] = RESOURCES[rng.choice(("endpointslices", "pods", "services"))]
        self._versions: list[int] = []
        self._read = 0
        self.events = 0

    async def run(self, sleep: Callable[[float], Any]) -> None:
        """List, then watch until killed."""
        version = 0
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
            except ClientError:
                await sleep(0.5 + self._rng.random())

    async def _list(self) -> int:
        page = await self._client.list_page(self._resource)
        version = int(page.resource_version)
        found = {item.metadata.key: int(item.metadata.resource_version) for item in page.items}
        expected: dict[ObjectKey, int] = {}
        for written in self._disk.history:
            row = written.row
            if row.plural == self._resource.plural and row.revision <= version:
                if row.value is None:
                    expected.pop(ObjectKey(row.namespace, row.name), None)
                else:
                    expected[ObjectKey(row.namespace, row.name)] = row.revision
        if found != expected:
            self._report(
                "watch", f"the list of {self._resource.plural} at {version} is not the state at {version}"
            )
        return version

    async def _watch(self, version: int) -> int:
        watch = self._client.watch(
            self._resource, resource_version=str(version), timeout_seconds=self._rng.randint(5, 40)
        )
        async with watch as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, WatchError):
                        return 0 if event.status.code == 410 else version
                    version = self._judge(event, version)
        return version

    def _judge(self, event: WatchEvent[Any] | Bookmark, version: int) -> int:
        if isinstance(event, Bookmark):
            reached = int(event.resource_version)
            missing = [revision for revision in self._after(version) if revision <= reached]
            if missing:
                self._report(
                    "watch", f"a bookmark of {self._resource.plural} at {reached} skips {missing[:3]}"
                )
            return max(version, reached)
        self.events += 1
        revision = int(event.item.metadata.resource_version)
        expected = next(iter(self._after(version)), 0)
        if revision != expected:
            self._report(
                "watch",
                f"a watch of {self._resource.plural} after {version} delivers {revision}, not {expected}",
            )
        return revision

    def _after(self, version: int) -> list[int]:
        history = self._disk.history
        for written in history[self._read :]:
            if written.row.plural == self._resource.plural:
                self._versions.append(written.row.revision)
        self._read = len(history)
        return [revision for revision in self._versions if revision > version]


__all__ = ["NODES", "SERVICES", "HistoryInvariants", "StoreInvariants", "WatchChecker"]
