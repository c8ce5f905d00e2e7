"""What the server takes an object for: a plain JSON document, and the few members that every one of them has."""

from collections.abc import Mapping
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
"""A decoded JSON object. Whoever is handed one by the storage owns it; whoever hands one over gives it away."""


class GroupResource(NamedTuple):
    """A collection, whatever version it is looked at in: ``("apps", "deployments")``, ``("", "pods")``."""

    group: str
    plural: str

    def __str__(self) -> str:
        """Return the name as errors spell it: ``deployments.apps``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StorageKey(NamedTuple):
    """Where one object lives. The namespace is ``""`` for what belongs to none.

    Lists are answered in the order of ``namespace/name``, as etcd sorts it: ``a-b/x`` comes before ``a/x``.
    """

    resource: GroupResource
    namespace: str
    name: str


def metadata_of(obj: Mapping[str, Any]) -> JsonObject:
    """Return the object's metadata, or an empty document where it has none (or something else in its place)."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the object's labels; empty where it has none."""
    labels = metadata_of(obj).get("labels")
    return labels if isinstance(labels, dict) else {}
