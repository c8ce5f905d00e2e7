"""One collection in memory: durable state, accepted changes, and snapshots at any retained revision."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from tinykube.server.objects import GroupResource
from tinykube.server.storage.model import Change, StoredObject
from tinykube.server.storage.watch import History

_KEPT_SNAPSHOTS = 4
"""The pages of a long list are separate requests: the snapshot that they share is computed once."""


class CollectionSnapshot:
    """A collection at one revision; see :class:`~.model.Snapshot`."""

    __slots__ = ("_items", "revision")

    def __init__(self, items: Sequence[StoredObject], revision: int) -> None:
        self._items = items
        self.revision = revision

    def __len__(self) -> int:
        return len(self._items)

    def after(self, namespace: str, name: str) -> Iterator[StoredObject]:
        """Iterate over the objects after a key."""
        items = self._items
        if not namespace and not name:
            return iter(items)
        start = bisect_right(items, _order((namespace, name)), key=lambda stored: _order(_position(stored)))
        return (items[index] for index in range(start, len(items)))


def _position(stored: StoredObject) -> tuple[str, str]:
    return stored.key.namespace, stored.key.name


def _order(position: tuple[str, str]) -> tuple[str, str]:
    """Return the sort key of a position: as in etcd, ``a-b/x`` comes before ``a/x``."""
    return position[0] + "/", position[1]


class Collection:
    """The objects of one resource."""

    def __init__(self, resource: GroupResource, history: History, *, volatile: bool) -> None:
        self.resource = resource
        self.history = history
        self.volatile = volatile
        self._durable: dict[str, dict[str, StoredObject]] = {}
        self._accepted: dict[tuple[str, str], Change] = {}
        self._names: dict[str, list[str]] = {}
        """Sorted names per namespace, until an object is added or removed."""
        self._snapshots: OrderedDict[tuple[str, int], Sequence[StoredObject]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._durable.values()))

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """Return the durable state of an object."""
        objects = self._durable.get(namespace)
        return None if objects is None else objects.get(name)

    def head(self, namespace: str, name: str) -> StoredObject | None:
        """Return the last accepted state of an object."""
        change = self._accepted.get((namespace, name))
        if change is None:
            return self.get(namespace, name)
        return None if change.type == "DELETED" else change.after

    def all_latest(self, namespace: str) -> Iterable[StoredObject]:
        """Return the last accepted states, unordered."""
        groups = self._durable.values() if not namespace else (self._durable.get(namespace, {}),)
        accepted = self._accepted
        if not accepted:
            return [stored for objects in groups for stored in objects.values()]
        found = [
            stored for objects in groups for stored in objects.values() if _position(stored) not in accepted
        ]
        for (own_namespace, _), change in accepted.items():
            if change.type != "DELETED" and namespace in ("", own_namespace):
                found.append(change.after)
        return found

    def all_durable(self) -> Iterable[StoredObject]:
        """Return the durable states, unordered."""
        return [stored for objects in self._durable.values() for stored in objects.values()]

    def accept(self, change: Change) -> None:
        """Make a change visible to writers before it is durable."""
        key = change.after.key
        self._accepted[key.namespace, key.name] = change

    def reject_all(self) -> None:
        """Discard all accepted changes: they will not become durable."""
        self._accepted.clear()

    def apply(self, change: Change) -> None:
        """Make a durable change visible to readers."""
        key = change.after.key
        position = (key.namespace, key.name)
        if self._accepted.get(position) is change:
            del self._accepted[position]
        self.put(change)
        self.history.append(change)

    def put(self, change: Change) -> None:
        """Set the durable state of one object without recording a change."""
        _, namespace, name = change.after.key
        if change.type == "DELETED":
            objects = self._durable.get(namespace, {})
            objects.pop(name, None)
            self._names.pop(namespace, None)
            if not objects:
                self._durable.pop(namespace, None)
            return
        objects = self._durable.setdefault(namespace, {})
        if name not in objects:
            self._names.pop(namespace, None)
        objects[name] = change.after

    def replace(self, stored: StoredObject) -> None:
        """Replace an object at the same revision, with other field values."""
        self._durable[stored.key.namespace][stored.key.name] = stored
        self._snapshots.clear()

    def snapshot(self, namespace: str, revision: int) -> CollectionSnapshot:
        """Return the state at a revision up to the durable one. Raises RevisionCompactedError."""
        number = self.history.number_after(revision)
        items = self._snapshots.get((namespace, number))
        if items is None:
            items = self._items(namespace, revision)
            self._snapshots[namespace, number] = items
            if len(self._snapshots) > _KEPT_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        else:
            self._snapshots.move_to_end((namespace, number))
        return CollectionSnapshot(items, revision)

    def forget_snapshots(self) -> None:
        """Drop cached snapshots; those in use stay intact."""
        self._snapshots.clear()

    def _items(self, namespace: str, revision: int) -> Sequence[StoredObject]:
        undone = self.history.back_to(revision)
        namespaces = sorted(self._durable, key=lambda each: each + "/") if not namespace else [namespace]
        if not undone:
            return [stored for each in namespaces for stored in self._sorted(each)]
        state = {
            (each, name): stored
            for each in namespaces
            for name, stored in self._durable.get(each, {}).items()
        }
        for change in reversed(undone):
            position = _position(change.after)
            if namespace not in ("", position[0]):
                continue
            if change.before is None:
                state.pop(position, None)
            else:
                state[position] = change.before
        return [state[position] for position in sorted(state, key=_order)]

    def _sorted(self, namespace: str) -> Iterable[StoredObject]:
        objects = self._durable.get(namespace, {})
        names = self._names.get(namespace)
        if names is None:
            names = self._names[namespace] = sorted(objects)
        return map(objects.__getitem__, names)
