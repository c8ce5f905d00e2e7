"""An overview of published endpoints: one row per service, computed from the caches. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from aiokube.api.core import HEADLESS, Service
from aiokube.api.discovery import SERVICE_NAME_LABEL, Endpoint, EndpointSlice
from aiokube.api.meta import ObjectKey, key_of
from aiokube.api.printable import printable


class SliceRow(msgspec.Struct, frozen=True, rename="camel"):
    """One slice of a service."""

    name: str
    address_type: str
    endpoints: int


class ServiceRow(msgspec.Struct, frozen=True, rename="camel"):
    """One service: its endpoints by state, and its slices.

    An endpoint that is published for both IP families (the same target) counts once; one with several states
    counts in its best state.
    """

    namespace: str
    name: str
    type: str
    ready: int
    not_ready: int
    terminating: int
    slices: tuple[SliceRow, ...]

    @property
    def families(self) -> str:
        """The published address types, as in ``IPv4 IPv6``."""
        return " ".join(sorted({item.address_type for item in self.slices}))


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """All services, by namespace and name."""

    services: tuple[ServiceRow, ...]

    @property
    def ready(self) -> int:
        """The total number of ready endpoints."""
        return sum(row.ready for row in self.services)


def overview(services: Iterable[Service], slices: Iterable[EndpointSlice]) -> Overview:
    """Return a row for each service.

    A slice belongs to the service that its label names, whichever controller manages it.
    """
    by_service: dict[ObjectKey, list[EndpointSlice]] = {}
    for item in slices:
        name = (item.metadata.labels or {}).get(SERVICE_NAME_LABEL)
        if name:
            by_service.setdefault(ObjectKey(item.metadata.namespace or "", name), []).append(item)
    rows = [_row(service, by_service.get(key_of(service), [])) for service in services]
    return Overview(tuple(sorted(rows, key=lambda row: (row.namespace, row.name))))


_READY, _NOT_READY, _TERMINATING = range(3)


def _row(service: Service, slices: Sequence[EndpointSlice]) -> ServiceRow:
    states: dict[Any, int] = {}
    for item in slices:
        for endpoint in item.endpoints or ():
            identity, state = _identity(endpoint), _state(endpoint)
            states[identity] = min(state, states.get(identity, state))
    counts = [0, 0, 0]
    for state in states.values():
        counts[state] += 1
    key = key_of(service)
    return ServiceRow(
        namespace=key.namespace,
        name=key.name,
        type=kind_of(service),
        ready=counts[_READY],
        not_ready=counts[_NOT_READY],
        terminating=counts[_TERMINATING],
        slices=tuple(
            sorted(
                (
                    SliceRow(item.metadata.name, item.address_type, len(item.endpoints or ()))
                    for item in slices
                ),
                key=lambda row: (row.address_type, row.name),
            )
        ),
    )


def _identity(endpoint: Endpoint) -> Any:
    target = endpoint.target_ref
    if target is not None and target.name:
        return (target.kind, target.namespace, target.name)
    return endpoint.addresses


def _state(endpoint: Endpoint) -> int:
    if endpoint.conditions.terminating:
        return _TERMINATING
    return (
        _NOT_READY if endpoint.conditions.ready is False else _READY
    )  # unset counts as ready, as it does for consumers


def kind_of(service: Service) -> str:
    """Return the service's type in a word or two, such as ``NodePort headless``."""
    if service.type == "ExternalName":
        return "ExternalName"
    words = [] if service.type in ("", "ClusterIP") else [service.type]
    if service.cluster_ip == HEADLESS:
        words.append("headless")
    if not service.selector:
        words.append("selectorless")
    return " ".join(words) or "ClusterIP"


HEADERS = ("NAMESPACE", "SERVICE", "TYPE", "READY", "NOT READY", "TERMINATING", "FAMILIES", "SLICES")


def cells(row: ServiceRow) -> tuple[str, ...]:
    """Return a row as strings, one for each of :data:`HEADERS`."""
    names = [f"{item.name} ({item.endpoints})" for item in row.slices[:3]]
    if len(row.slices) > len(names):
        names.append(f"+{len(row.slices) - len(names)} more")
    counts = [str(count) if count else "-" for count in (row.ready, row.not_ready, row.terminating)]
    texts = (row.namespace, row.name, row.type, *counts, row.families or "-", ", ".join(names) or "-")
    return tuple(map(printable, texts))


def as_text(found: Overview) -> str:
    """Return the table as aligned text."""
    rows = [HEADERS, *(cells(row) for row in found.services)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def as_json(found: Overview) -> str:
    """Return the overview as JSON."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def as_yaml(found: Overview) -> str:
    """Return the overview as YAML."""
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False)).rstrip()
