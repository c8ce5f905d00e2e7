"""Of each kind: the versions it can be owned in, what its subresources do not write, and what it is when it is empty."""

import contextlib
from collections.abc import Mapping
from functools import cache, partial

import msgspec

from tinykube.server.fields.nodes import MapNode, kind_node
from tinykube.server.fields.sets import FieldSet, Path, from_paths
from tinykube.server.fields.structural import StructuralSchema, structural_node
from tinykube.server.fields.updater import Version
from tinykube.server.objects import JsonObject
from tinykube.server.schema.conform import conform
from tinykube.server.schema.loader import UnknownTypeError, kind_type

_SPEC: tuple[Path, ...] = (("f:spec",),)
_STATUS: tuple[Path, ...] = (("f:status",),)
_NOTHING: tuple[Path, ...] = ()
# Kinds whose status subresource leaves more alone than the spec.
_LEFT_BY_STATUS: Mapping[str, tuple[Path, ...]] = {
    "Pod": (*_SPEC, ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "Deployment": (*_SPEC, ("f:metadata", "f:labels")),
    "ServiceCIDR": (*_SPEC, ("f:metadata",)),
}
_LEFT_BY_CUSTOM_STATUS: tuple[Path, ...] = (*_SPEC, ("f:metadata",))
REPLICAS: Path = ("f:spec", "f:replicas")
ReplicasPaths = Mapping[str, Path | None]
"""By ``apiVersion``: where a kind says how many replicas there are to be; None where that version has no scale."""
WORKLOADS: ReplicasPaths = {f"apps/{version}": REPLICAS for version in ("v1beta1", "v1beta2", "v1")}


@cache
def version_of(group: str, version: str, kind: str, subresource: str, has_status: bool) -> Version:
    """Return a version of a kind as a subresource writes it: the main one (``""``) leaves the status alone where it has its own.

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


class CustomVersion(msgspec.Struct, frozen=True):
    """What a definition says of one version, as far as it matters to who owns what."""

    schema: StructuralSchema
    has_status: bool
    replicas: Path | None


class CustomTypes:
    """How the parts of one custom resource are owned, in each of its versions (served or not).

    One for each state of a definition: another schema is another of these. A version's schema is read when somebody first
    writes in it, or has written in it, and then kept.
    """

    def __init__(self, group: str, versions: Mapping[str, CustomVersion]) -> None:
        self._versions = {f"{group}/{name}": version for name, version in versions.items()}
        self._nodes: dict[str, MapNode] = {}

    @property
    def replicas(self) -> ReplicasPaths:
        """Where each version says how many replicas there are to be."""
        return {name: version.replicas for name, version in self._versions.items()}

    def known(self, subresource: str, requested: str, api_version: str) -> Version | None:
        """Return a version as a subresource of the version that is requested for writes it; None where there is no such version.

        As on a real server the object itself is written past the status in the requested version's words alone; the subresource
        ``status`` leaves the rest alone in the words of all.
        """
        version = self._versions.get(api_version)
        if version is None:
            return None
        reset = _NOTHING
        if subresource == "status":
            reset = _LEFT_BY_CUSTOM_STATUS if version.has_status else _NOTHING
        elif version.has_status and requested == api_version:
            reset = _STATUS
        return Version(api_version, self._node(api_version, version), _set(reset))

    def own(self, subresource: str, api_version: str) -> Version:
        """Return a version as one of its own subresources writes it. Raises KeyError for one that the kind does not have."""
        version = self.known(subresource, api_version, api_version)
        if version is None:
            raise KeyError(api_version)
        return version

    def others(self, subresource: str, requested: str) -> "partial[Version | None]":
        """Return what finds the versions that managers' entries are in (:data:`~.updater.Others`)."""
        return partial(self.known, subresource, requested)

    def _node(self, api_version: str, version: CustomVersion) -> MapNode:
        node = self._nodes.get(api_version)
        if node is None:
            node = self._nodes[api_version] = structural_node(version.schema)
        return node
