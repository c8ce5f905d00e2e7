"""Reject creates in namespaces that are missing or being deleted."""

from tinykube.server.errors import StatusError, forbidden, not_found
from tinykube.server.objects import GroupResource, StorageKey, metadata_of
from tinykube.server.storage.model import Storage
from tinykube.server.verbs.context import Target

NAMESPACES = GroupResource("", "namespaces")


def check_namespace_accepts(storage: Storage, target: Target, name: str) -> None:
    """Raise 404 for a missing namespace, 403 with its cause for one that is being deleted.

    Reads the last accepted state, including writes whose client has no response yet, so no object is created
    in a namespace after its deletion was accepted.
    """
    if not target.definition.namespaced:
        return
    stored = storage.head(StorageKey(NAMESPACES, "", target.namespace))
    if stored is None:
        raise not_found(NAMESPACES, target.namespace)
    # Most namespaces are active: searching the bytes avoids decoding them.
    if b'"deletionTimestamp"' in stored.encoded and "deletionTimestamp" in metadata_of(stored.decode()):
        raise _terminating(target, name)


def _terminating(target: Target, name: str) -> StatusError:
    namespace = target.namespace
    return forbidden(
        target.resource,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
        causes=[
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ],
    )
