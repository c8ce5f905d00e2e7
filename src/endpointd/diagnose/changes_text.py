"""Changes as a diff that people read, and as documents for programs. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from endpointd.api.discovery import EndpointSlice
from endpointd.diagnose.changes import ObjectChange, Published
from endpointd.diagnose.text import Style

_CONTEXT_LINES = 2
_SIGNS = {"create": "+", "update": "~", "delete": "-"}


def changes_text(changes: Sequence[ObjectChange], style: Style) -> str:
    """Return a diff of every object, and a line that sums up."""
    lines: list[str] = []
    for change in changes:
        sign = _SIGNS[change.operation]
        title = f"{sign} {change.kind} {change.service.namespace}/{change.name} ({change.controller}, {change.operation})"
        lines.append(style.paint(title, "bold"))
        lines += _painted(_diff(change), style)
    counts = {word: sum(change.operation == word for change in changes) for word in _SIGNS}
    if changes:
        lines.append("")
        lines.append(", ".join(f"{count} to {word}" for word, count in counts.items()))
    else:
        lines.append(style.paint("nothing would be changed", "green"))
    return "\n".join(lines) + "\n"


def _painted(lines: Iterable[str], style: Style) -> Iterator[str]:
    for line in lines:
        if line.startswith("+"):
            yield style.paint("  " + line, "green")
        elif line.startswith("-"):
            yield style.paint("  " + line, "red")
        else:
            yield style.paint("  " + line, "dim") if line.startswith("@@") else "  " + line


def _diff(change: ObjectChange) -> Iterator[str]:
    old, new = _document_lines(change.before), _document_lines(change.after)
    lines = difflib.unified_diff(old, new, lineterm="", n=_CONTEXT_LINES)
    for number, line in enumerate(lines):
        if number >= 2:  # the two lines that would name files
            yield line


def _document_lines(item: Published | None) -> list[str]:
    """Return an object a line an endpoint, so that a diff shows endpoints, not their parts."""
    if item is None:
        return []
    metadata = item.metadata
    lines = [f"label {name}: {value}" for name, value in sorted((metadata.labels or {}).items())]
    lines += [f"annotation {name}: {value}" for name, value in sorted((metadata.annotations or {}).items())]
    lines += [f"owner {owner.kind} {owner.name} {owner.uid}" for owner in metadata.owner_references or ()]
    if isinstance(item, EndpointSlice):
        lines.append(f"addressType {item.address_type}")
        lines += [f"port {_line(port)}" for port in item.ports or ()]
        lines += [f"endpoint {_line(endpoint)}" for endpoint in item.endpoints or ()]
        return lines
    for subset in item.subsets or ():
        ports = ", ".join(
            f"{port.name or ''} {port.port}/{port.protocol}".strip() for port in subset.ports or ()
        )
        lines += [f"address {_line(one)} ports {ports}" for one in subset.addresses or ()]
        lines += [f"address {_line(one)} ports {ports} not ready" for one in subset.not_ready_addresses or ()]
    return lines


def _line(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def as_builtins(changes: Sequence[ObjectChange]) -> dict[str, Any]:
    """Return the changes for programs: whole objects, before and after."""
    return {
        "changes": [
            {
                "controller": change.controller,
                "operation": change.operation,
                "kind": change.kind,
                "namespace": change.service.namespace,
                "service": change.service.name,
                "name": change.name,
                "before": msgspec.to_builtins(change.before),
                "after": msgspec.to_builtins(change.after),
            }
            for change in changes
        ]
    }
