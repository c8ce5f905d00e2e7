"""Per kind: the versions of its ownership entries, the fields that subresources cannot write, and its empty object."""

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
# Kinds whose status subresource cannot write fields outside the spec, either.
_LEFT_BY_STATUS: Mapping[str, tuple[Path, ...]] = {
    "Pod": (*_SPEC, ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
    "Deployment": (*_SPEC, ("f:metadata", "f:labels")),
    "ServiceCIDR": (*_SPEC, ("f:metadata",)),
}
_LEFT_BY_CUSTOM_STATUS: tuple[Path, ...] = (*_SPEC, ("f:metadata",))
REPLICAS: Path = ("f:spec", "f:replicas")
ReplicasPaths = Mapping[str, Path | None]
"""The path of the replicas by ``apiVersion``; None if that version has no scale subresource."""
WORKLOADS: ReplicasPaths = {f"apps/{version}": REPLICAS for version in ("v1beta1", "v1beta2", "v1")}


@cache
def version_of(group: str, version: str, kind: str, subresource: str, has_status: bool) -> Version:
    """Return a version of a kind as a subresource writes it.

    The main resource (``""``) excludes a status that has its own subresource. Never raises UnknownTypeError:
    for a kind without a description, only the metadata is known.
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
    """Return an object of a kind with only the fields that always exist. It must not be modified."""
    document: JsonObject = {}
    with contextlib.suppress(UnknownTypeError):
        conform(kind_type(group, version, kind), document)
    return document


class CustomVersion(msgspec.Struct, frozen=True):
    """The parts of a version's definition that affect ownership."""

    schema: StructuralSchema
    has_status: bool
    replicas: Path | None


class CustomTypes:
    """Field ownership of one custom resource in all its versions, served or not.

    Immutable: a changed definition creates a new instance. The schema of a version is compiled on first use
    and kept.
    """

    def __init__(self, group: str, versions: Mapping[str, CustomVersion]) -> None:
        self._versions = {f"{group}/{name}": version for name, version in versions.items()}
        self._nodes: dict[str, MapNode] = {}

    @property
    def replicas(self) -> ReplicasPaths:
        """The path of the replicas in each version."""
        return {name: version.replicas for name, version in self._versions.items()}

    def known(self, subresource: str, requested: str, api_version: str) -> Version | None:
        """Return a version as a subresource of the requested version writes it; None for an unknown version.

        As on kube-apiserver, writes to the main resource exclude the status only in the requested version;
        writes to ``status`` exclude all other fields in every version.
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
        """Return a version as its own subresource writes it. Raises KeyError for an unknown version."""
        version = self.known(subresource, api_version, api_version)
        if version is None:
            raise KeyError(api_version)
        return version

    def others(self, subresource: str, requested: str) -> "partial[Version | None]":
        """Return the lookup of versions of managers' entries (:data:`~.updater.Others`)."""
        return partial(self.known, subresource, requested)

    def _node(self, api_version: str, version: CustomVersion) -> MapNode:
        node = self._nodes.get(api_version)
        if node is None:
            node = self._nodes[api_version] = structural_node(version.schema)
        return node
