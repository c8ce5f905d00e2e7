"""The log read back into memory: the objects as they are, and as much of their history as is kept."""

from collections.abc import Callable, Iterable, Iterator
from sys import intern

import msgspec

from tinykube.server.objects import GroupResource, StorageKey, metadata_of
from tinykube.server.storage.collection import Collection
from tinykube.server.storage.encoding import at_revision, describe_stored
from tinykube.server.storage.log import Log, Row, damaged
from tinykube.server.storage.model import Change, Describe, StoredObject


def load(log: Log, collection_of: Callable[[GroupResource], Collection], describe: Describe) -> Iterable[int]:
    """Fill the collections from the log; return the revisions of rows that it does not need any more.

    Raises StorageOpenError where a row does not say what it should.
    """
    for resource, revision in log.compacted.items():
        collection_of(resource).history.oldest = revision
    # Lists would be long: one pass, and what is useless is told as it is found.
    return list(_load(log, collection_of, describe))


def _load(
    log: Log, collection_of: Callable[[GroupResource], Collection], describe: Describe
) -> Iterator[int]:
    resources: dict[tuple[str, str], GroupResource] = {}
    for row in log.rows():
        resource = resources.setdefault((row.group, row.plural), GroupResource(row.group, row.plural))
        collection = collection_of(resource)
        before = collection.get(row.namespace, row.name)
        change = _change(resource, row, before, describe)
        if row.previous and (before is None or before.revision != row.previous):
            # What it replaced is gone: nothing before it can be told.
            collection.history.oldest = max(collection.history.oldest, row.revision)
        if change is None:
            yield row.revision
        elif collection.volatile or row.revision <= collection.history.oldest:
            collection.put(change)
            if before is not None:
                yield before.revision
            if change.type == "DELETED":
                yield row.revision
        else:
            collection.apply(change)


def _change(
    resource: GroupResource, row: Row, before: StoredObject | None, describe: Describe
) -> Change | None:
    if row.value is None:
        return (
            None if before is None else Change("DELETED", at_revision(before, row.revision, describe), before)
        )
    key = StorageKey(resource, intern(row.namespace), row.name)
    try:
        document = msgspec.json.decode(row.value, type=dict)
    except msgspec.DecodeError as error:
        raise damaged(row, str(error)) from None
    if metadata_of(document).get("resourceVersion") != str(row.revision):
        raise damaged(row, "its content is of another revision")
    stored = describe_stored(key, document, row.revision, row.value, row.item_offset, describe, before)
    return Change("ADDED" if before is None else "MODIFIED", stored, before)
