"""Encode documents for storage once, and extract the values that selectors need."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern

import msgspec

from tinykube.server.objects import JsonObject, StorageKey, labels_of, metadata_of
from tinykube.server.storage.model import Describe, FieldValues, StoredObject

_ENCODER = msgspec.json.Encoder()


def encode_stored(
    key: StorageKey,
    document: JsonObject,
    revision: int,
    describe: Describe,
    before: StoredObject | None = None,
) -> StoredObject:
    """Return the object at a revision. The storage owns the document from now on and modifies it.

    Unchanged labels and field values are shared with ``before``. Raises ``TypeError`` for values that JSON
    cannot represent.
    """
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = document["metadata"] = {}
    metadata["resourceVersion"] = str(revision)
    kind, api_version = str(document.pop("kind", "")), str(document.pop("apiVersion", ""))
    encoded = _ENCODER.encode({"kind": kind, "apiVersion": api_version, **document})
    document["kind"], document["apiVersion"] = kind, api_version
    return describe_stored(
        key, document, revision, encoded, _prefix_length(kind, api_version), describe, before
    )


def describe_stored(
    key: StorageKey,
    document: JsonObject,
    revision: int,
    encoded: bytes,
    item_offset: int,
    describe: Describe,
    before: StoredObject | None = None,
) -> StoredObject:
    """Return an object for already encoded bytes (``document`` is their decoded value)."""
    labels: Mapping[str, str] = labels_of(document)
    fields: FieldValues = describe(key.resource, document)
    uid = str(metadata_of(document).get("uid") or "")
    if before is not None:
        # Share dicts between revisions: most updates change neither labels nor fields.
        key = before.key
        labels = before.labels if before.labels == labels else labels
        fields = before.fields if before.fields == fields else fields
        uid = before.uid if before.uid == uid else uid
    if before is None or labels is not before.labels:
        labels = {_interned(name): _interned(value) for name, value in labels.items()}
    if before is None or fields is not before.fields:
        fields = {_interned(path): _interned(value) for path, value in fields.items()}
    assert isinstance(labels, dict)  # noqa: S101 - for the type checker
    return StoredObject(key, uid, revision, encoded, item_offset, labels, fields)


def at_revision(stored: StoredObject, revision: int, describe: Describe) -> StoredObject:
    """Return the same content at another revision: for deletions, and for objects that leave a watcher's selection."""
    return encode_stored(stored.key, stored.decode(), revision, describe, stored)


def reencoded(stored: StoredObject, revision: int) -> bytes:
    """Return only the encoded bytes of :func:`at_revision`."""
    document = stored.decode()
    document["metadata"]["resourceVersion"] = str(revision)
    return _ENCODER.encode(document)


def _interned(text: str) -> str:
    # Labels and field values repeat, so they are interned; invalid values in old files may not be plain
    # strings.
    return intern(text) if type(text) is str else text


@lru_cache(maxsize=1024)
def _prefix_length(kind: str, api_version: str) -> int:
    # {"kind":"Pod","apiVersion":"v1"} is as long as the prefix {"kind":"Pod","apiVersion":"v1", before the
    # third member.
    return len(_ENCODER.encode({"kind": kind, "apiVersion": api_version}))
