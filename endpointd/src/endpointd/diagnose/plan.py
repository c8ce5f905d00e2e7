"""What Endpoints and EndpointSlices a cluster will have, as documents that stay the same. Pure."""

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
from endpointd.diagnose.explain import ports_text
from endpointd.diagnose.offline import stable_name
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

_ROUNDS = 3
_CHANCE = frozenset(("uid", "resourceVersion", "creationTimestamp"))


def planned(
    snapshot: Snapshot,
    settings: Settings | None = None,
    controllers: frozenset[ControllerName] = ALL_CONTROLLERS,
) -> list[Published]:
    """Return all Endpoints and EndpointSlices once the controllers have come to rest, by kind, namespace and name.

    Slices get names that depend on their service, family and ports alone; nothing has a uid, a version or a time that
    was not in the snapshot.
    """
    endpoints = {item.metadata.key: item for item in snapshot.endpoints}
    slices = {item.metadata.key: item for item in snapshot.slices}
    for _ in range(_ROUNDS):  # mirrored slices follow from Endpoints that may just have been made
        world = ClusterIndex(
            msgspec.structs.replace(
                snapshot, endpoints=tuple(endpoints.values()), slices=tuple(slices.values())
            )
        )
        changes = list(changes_of_all(world, settings, controllers))
        if not changes:
            break
        for change in changes:
            _carry_out(change, endpoints, slices)
    return [
        *sorted(endpoints.values(), key=lambda item: item.metadata.key),
        *sorted(slices.values(), key=lambda item: item.metadata.key),
    ]


def _carry_out(change: ObjectChange, endpoints: dict[Any, Any], slices: dict[Any, Any]) -> None:
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
    """Return the objects as documents, without what is made up (uids) and what says nothing (nulls)."""
    return [
        {
            "apiVersion": "v1" if isinstance(item, Endpoints) else "discovery.k8s.io/v1",
            "kind": "Endpoints" if isinstance(item, Endpoints) else "EndpointSlice",
            **_without_chance(msgspec.to_builtins(item, str_keys=True)),
        }
        for item in items
    ]


def _without_chance(value: Any) -> Any:
    if isinstance(value, dict):
        first = {name: value[name] for name in ("metadata", "addressType") if name in value}
        return {
            name: _without_chance(one)
            for name, one in {**first, **value}.items()
            if one is not None and one != "" and name not in _CHANCE
        }
    if isinstance(value, (list, tuple)):
        return [_without_chance(one) for one in value]
    return value
