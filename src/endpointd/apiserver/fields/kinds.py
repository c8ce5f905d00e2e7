"""Of each kind: the versions it can be owned in, what its doors do not write, and what it is when it is empty."""

import contextlib
from collections.abc import Mapping
from functools import cache

from endpointd.apiserver.fields.nodes import kind_node
from endpointd.apiserver.fields.sets import FieldSet, Path, from_paths
from endpointd.apiserver.fields.updater import Version
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.schema.conform import conform
from endpointd.apiserver.schema.loader import UnknownTypeError, kind_type

_SPEC: tuple[Path, ...] = (("f:spec",),)
_STATUS: tuple[Path, ...] = (("f:status",),)
_NOTHING: tuple[Path, ...] = ()
# Kinds whose door for the status leaves more alone than the spec.
_LEFT_BY_STATUS: Mapping[str, tuple[Path, ...]] = {
    "Pod": (*_SPEC, ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "Deployment": (*_SPEC, ("f:metadata", "f:labels")),
    "ServiceCIDR": (*_SPEC, ("f:metadata",)),
}


@cache
def version_of(group: str, version: str, kind: str, subresource: str, has_status: bool) -> Version:
    """Return a version of a kind as a door writes it: the main one (``""``) leaves the status alone where it has its own.

    Raises UnknownTypeError never: of a kind that is not described, nothing is known but its metadata.
    """
    reset = _NOTHING
    if subresource == "status":
        reset = _LEFT_BY_STATUS.get(kind, _SPEC)
    elif has_status:
        reset = _STATUS
    api_version = f"{group}/{version}" if group else version
    return Version(api_version, kind_node(group, version, kind), _set(reset))


@cache
def _set(paths: tuple[Path, ...]) -> FieldSet:
    return from_paths(*paths)


@cache
def empty(group: str, version: str, kind: str) -> JsonObject:
    """Return an object of a kind before anything was written: what is always there, and nothing else. Not to be changed."""
    document: JsonObject = {}
    with contextlib.suppress(UnknownTypeError):
        conform(kind_type(group, version, kind), document)
    return document
