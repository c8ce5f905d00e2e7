"""Compute the Endpoints and EndpointSlices that a cluster will have, as deterministic documents. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from aiokube.api.discovery import EndpointSlice
from aiokube.api.endpoints import Endpoints
from endpointd.diagnose.changes import (
    ALL_CONTROLLERS,
    ControllerName,
    ObjectChange,
    Published,
    Settings,
    changes_of_all,
)
from endpointd.diagnose.offline import stable_name
from endpointd.diagnose.ports import ports_text
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

_ROUNDS = 3
_SERVER_GENERATED = frozenset(("uid", "resourceVersion", "creationTimestamp"))


def planned(
    snapshot: Snapshot,
    settings: Settings | None = None,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
) -> list[Published]:
    """Return all Endpoints and EndpointSlices after the controllers have settled, by kind, namespace and name.

    Slice names depend only on service, IP family and ports. No object gets a uid, resource version or
    timestamp that was not in the snapshot.
    """
    endpoints = {item.metadata.key: item for item in snapshot.endpoints}
    slices = {item.metadata.key: item for item in snapshot.slices}
    for _ in range(_ROUNDS):  # mirrored slices follow from Endpoints that an earlier round may have created
        index = ClusterIndex(
            msgspec.structs.replace(
                snapshot, endpoints=tuple(endpoints.values()), slices=tuple(slices.values())
            )
        )
        changes = list(changes_of_all(index, settings, controllers))
        if not changes:
            break
        for change in changes:
            _apply(change, endpoints, slices)
    return [
        *sorted(endpoints.values(), key=lambda item: item.metadata.key),
        *sorted(slices.values(), key=lambda item: item.metadata.key),
    ]


def _apply(change: ObjectChange, endpoints: dict[Any, Any], slices: dict[Any, Any]) -> None:
    items = endpoints if change.kind == "Endpoints" else slices
    if change.after is None:
        if change.before is not None:
            del items[change.before.metadata.key]
        return
    after = change.after
    metadata = after.metadata
    if not metadata.name and isinstance(after, EndpointSlice):
        name = metadata.generate_name or ""
        for number in range(len(items) + 1):
            free = stable_name(name, after.address_type, ports_text(after.ports), str(number))
            if (metadata.namespace, free) not in items:
                name = free
                break
        metadata = msgspec.structs.replace(metadata, name=name, generate_name=None)
    metadata = msgspec.structs.replace(metadata, namespace=change.service.namespace)
    after = msgspec.structs.replace(after, metadata=metadata)
    items[after.metadata.key] = after


def documents(items: Iterable[Published]) -> list[dict[str, Any]]:
    """Return the objects as documents, without server-generated fields (uids) and nulls."""
    return [
        {
            "apiVersion": "v1" if isinstance(item, Endpoints) else "discovery.k8s.io/v1",
            "kind": "Endpoints" if isinstance(item, Endpoints) else "EndpointSlice",
            **_without_generated(msgspec.to_builtins(item, str_keys=True)),
        }
        for item in items
    ]


def _without_generated(value: Any) -> Any:
    if isinstance(value, dict):
        first = {name: value[name] for name in ("metadata", "addressType") if name in value}
        return {
            name: _without_generated(one)
            for name, one in {**first, **value}.items()
            if one is not None and one != "" and name not in _SERVER_GENERATED
        }
    if isinstance(value, (list, tuple)):
        return [_without_generated(one) for one in value]
    return value
