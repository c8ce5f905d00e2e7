"""Load the log into memory: the objects and their retained history."""

from collections.abc import Callable, Iterable, Iterator
from sys import intern

import msgspec

from tinykube.server.objects import GroupResource, StorageKey, metadata_of
from tinykube.server.storage.collection import Collection
from tinykube.server.storage.encoding import at_revision, describe_stored
from tinykube.server.storage.log import Log, Row, damaged
from tinykube.server.storage.model import Change, Describe, StoredObject


def load(log: Log, collection_of: Callable[[GroupResource], Collection], describe: Describe) -> Iterable[int]:
    """Fill the collections from the log; return the revisions of superfluous rows.

    Raises StorageOpenError for invalid rows.
    """
    for resource, revision in log.compacted.items():
        collection_of(resource).history.oldest = revision
    # One pass without intermediate lists: superfluous rows are reported as they are found.
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
            # The replaced revision is missing: the history begins here.
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
        raise damaged(row, "its content has another revision")
    stored = describe_stored(key, document, row.revision, row.value, row.item_offset, describe, before)
    return Change("ADDED" if before is None else "MODIFIED", stored, before)
