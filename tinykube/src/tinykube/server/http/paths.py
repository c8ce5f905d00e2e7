"""Parse resource paths: ``/api/v1/...`` and ``/apis/G/V/...``. Pure."""

from typing import NamedTuple
from urllib.parse import unquote

_OF_A_NAMESPACE = frozenset({"status", "finalize"})


class ResourcePath(NamedTuple):
    """A collection, an object, or a subresource. ``watches``: a deprecated ``/watch/`` path."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""
    watches: bool = False
    in_namespace: bool = False


def segments_of(path: str) -> list[str]:
    """Return the decoded segments of a path; a trailing slash is ignored."""
    return [unquote(part) for part in path.strip("/").split("/")]


def parse_resource_path(segments: list[str]) -> ResourcePath | None:
    """Parse a path below ``/api/VERSION`` or ``/apis/GROUP/VERSION``; return ``None`` for other paths."""
    if segments[0] == "api" and len(segments) >= 3:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[0] == "apis" and len(segments) >= 4:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    watches = rest[0] == "watch" and len(rest) > 1
    if watches:
        rest = rest[1:]
    if not all(rest):
        return None
    namespace, in_namespace = "", False
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _OF_A_NAMESPACE):
        namespace, rest, in_namespace = rest[1], rest[2:], True
    if len(rest) > 3:
        return None
    plural, name, subresource = [*rest, "", ""][:3]
    return ResourcePath(group, version, namespace, plural, name, subresource, watches, in_namespace)
