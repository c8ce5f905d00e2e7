"""Render changes field by field for people, and as documents for programs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from aiokube.api.discovery import CONDITIONS, Endpoint, EndpointSlice
from aiokube.api.endpoints import EndpointAddress, Endpoints
from endpointd.diagnose.changes import ObjectChange, Published
from endpointd.diagnose.style import Style

_SIGNS = {"create": "+", "update": "~", "delete": "-"}


def changes_text(changes: Sequence[ObjectChange], style: Style, *, is_everything_known: bool = True) -> str:
    """Return every changed object with its changes, and a summary line."""
    return style.page(_lines(changes, style, is_everything_known=is_everything_known))


def _lines(changes: Sequence[ObjectChange], style: Style, *, is_everything_known: bool) -> Iterator[str]:
    for change in changes:
        sign = _SIGNS[change.operation]
        title = f"{sign} {change.kind} {change.service.namespace}/{change.name} ({change.controller}, {change.operation})"
        yield style.paint(title, "bold")
        for line in change_lines(change):
            colour = {"+": "green", "-": "red", "~": "yellow"}[line[0]]
            yield "  " + style.paint(line, colour)  # type: ignore[arg-type]
    if changes:
        counts = {word: sum(change.operation == word for change in changes) for word in _SIGNS}
        yield ""
        yield ", ".join(f"{count} to {word}" for word, count in counts.items())
    elif is_everything_known:
        yield style.paint("no changes", "green")
    else:
        yield style.paint("no changes in the collections that could be read", "yellow")


def change_lines(change: ObjectChange) -> list[str]:
    """Return the changes of one write, a line for each element: ``+ added``, ``- removed``, ``~ element: field old -> new``.

    Updated elements come first, because readers look for them.
    """
    before, after = _elements(change.before), _elements(change.after)
    updated = [
        f"~ {name}: {', '.join(_fields(before[name], after[name]))}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    added = [f"+ {name}{_all_of(after[name])}" for name in after if name not in before]
    removed = [f"- {name}{_all_of(before[name])}" for name in before if name not in after]
    lines = [*updated, *added, *removed]
    if not lines and change.before is not None and change.after is not None:
        # Fields outside the elements, such as a reference's namespace, or a changed list order.
        old, new = _compared(change.before), _compared(change.after)
        lines = [f"~ {path}: {was} -> {now}" for path, was, now in _paths("", old, new)]
    return lines


def _compared(item: Published) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(item))
    metadata = document.pop("metadata", {})
    return document | {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences")}


def _paths(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _paths(f"{path}.{name}" if path else name, old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _paths(f"{path}[{number}]", one, other)
    elif old != new:
        yield path, msgspec.json.encode(old).decode(), msgspec.json.encode(new).decode()


_Element = dict[str, str]
"""The fields of one element of an object, by name."""


def _fields(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            label = f"{name} " if name else ""
            yield f"{label}{old.get(name, '(none)')} -> {new.get(name, '(none)')}"


def _all_of(element: Mapping[str, str]) -> str:
    return "".join(f", {name} {value}" if name else f": {value}" for name, value in element.items())


def _elements(item: Published | None) -> dict[str, _Element]:
    """Return the elements of an object by identity: a label by its key, an endpoint by its pod and address."""
    if item is None:
        return {}
    metadata = item.metadata
    elements: dict[str, _Element] = {}
    for name, value in sorted((metadata.labels or {}).items()):
        elements[f"label {name}"] = {"": value}
    for name, value in sorted((metadata.annotations or {}).items()):
        elements[f"annotation {name}"] = {"": value}
    for owner in metadata.owner_references or ():
        elements[f"owner {owner.kind} {owner.name}"] = {"uid": owner.uid or "(none)"}
    if isinstance(item, EndpointSlice):
        elements["addressType"] = {"": item.address_type}
        for port in item.ports or ():
            fields = {"": f"{port.port}/{port.protocol or 'TCP'}"}
            if port.app_protocol:
                fields["appProtocol"] = port.app_protocol
            _add(elements, f"port {port.name or '(no name)'}", fields)
        for endpoint in item.endpoints or ():
            _add(elements, *_endpoint(endpoint))
        return elements
    for name, fields in _addresses(item):
        _add(elements, name, fields)
    return elements


def _add(elements: dict[str, _Element], name: str, fields: _Element) -> None:
    """Add an element; number a second one with the same identity, so that none is lost."""
    unique, number = name, 1
    while unique in elements:
        number += 1
        unique = f"{name} #{number}"
    elements[unique] = fields


def _endpoint(endpoint: Endpoint) -> tuple[str, _Element]:
    target = endpoint.target_ref
    addresses = ",".join(endpoint.addresses)
    name = (
        f"endpoint {target.name}"
        if target is not None and target.name
        else f"endpoint {addresses or '(no address)'}"
    )
    fields: _Element = {"addresses": addresses}
    conditions = endpoint.conditions
    for field in CONDITIONS:
        value = getattr(conditions, field)
        fields[field] = "unknown" if value is None else str(value).lower()
    for label, text in (
        ("node", endpoint.node_name),
        ("zone", endpoint.zone),
        ("hostname", endpoint.hostname),
    ):
        if text:
            fields[label] = text
    if target is not None and target.kind not in (None, "Pod"):
        fields["kind"] = str(target.kind)
    if target is not None and target.uid:
        fields["uid"] = target.uid
    hints = endpoint.hints
    if hints is not None and hints.for_zones:
        fields["forZones"] = ",".join(zone.name for zone in hints.for_zones)
    if hints is not None and hints.for_nodes:
        fields["forNodes"] = ",".join(node.name for node in hints.for_nodes)
    return name, fields


def _addresses(item: Endpoints) -> Iterator[tuple[str, _Element]]:
    for subset in item.subsets or ():
        ports = (
            ",".join(
                f"{port.name + ' ' if port.name else ''}{port.port}/{port.protocol or 'TCP'}"
                for port in subset.ports or ()
            )
            or "none"
        )
        yield from (_address(one, ports, "true") for one in subset.addresses or ())
        yield from (_address(one, ports, "false") for one in subset.not_ready_addresses or ())


def _address(address: EndpointAddress, ports: str, ready: str) -> tuple[str, _Element]:
    target = address.target_ref
    fields: _Element = {"ready": ready, "ports": ports}
    if target is not None and target.name:
        fields["target"] = target.name
    if target is not None and target.uid:
        fields["uid"] = target.uid
    for label, text in (("node", address.node_name), ("hostname", address.hostname)):
        if text:
            fields[label] = text
    return f"address {address.ip}", fields


def as_builtins(changes: Iterable[ObjectChange]) -> dict[str, Any]:
    """Return the changes for programs: the changed fields as text, and the objects before and after."""
    return {
        "changes": [
            {
                "controller": change.controller,
                "operation": change.operation,
                "kind": change.kind,
                "namespace": change.service.namespace,
                "service": change.service.name,
                "name": change.name,
                "fields": change_lines(change),
                "before": msgspec.to_builtins(change.before),
                "after": msgspec.to_builtins(change.after),
            }
            for change in changes
        ]
    }
