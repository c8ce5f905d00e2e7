"""The server's representation of objects: plain JSON documents with standard metadata."""

from collections.abc import Mapping
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
"""A decoded JSON object. Storage returns objects that the caller may modify; passing one to storage transfers ownership."""


class GroupResource(NamedTuple):
    """A collection, independent of version: ``("apps", "deployments")``, ``("", "pods")``."""

    group: str
    plural: str

    def __str__(self) -> str:
        """Return the name in error messages: ``deployments.apps``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StorageKey(NamedTuple):
    """The storage key of an object. The namespace of cluster-scoped objects is ``""``.

    Lists are sorted by ``namespace/name``, as in etcd: ``a-b/x`` comes before ``a/x``.
    """

    resource: GroupResource
    namespace: str
    name: str


def metadata_of(obj: Mapping[str, Any]) -> JsonObject:
    """Return the object's metadata; empty if it is absent or not an object."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the object's labels; empty if absent."""
    labels = metadata_of(obj).get("labels")
    return labels if isinstance(labels, dict) else {}
