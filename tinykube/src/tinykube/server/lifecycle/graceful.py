"""Remove terminating pods without a kubelet after their grace period."""

from collections.abc import Sequence

import msgspec

from aiokube.api.times import parse_time
from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError
from tinykube.server.lifecycle.interfaces import Deleter
from tinykube.server.lifecycle.namespace_plan import PODS
from tinykube.server.lifecycle.ownership import ownership_of
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.model import Change, Storage, StoredObject

NODES = GroupResource("", "nodes")


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_DECODER = msgspec.json.Decoder(_Pod)


class GracefulDeletion:
    """Completes graceful deletions of pods that no kubelet completes.

    Pods of a missing node are removed after their grace period; with ``finish_all``, so are all other pods,
    for servers without kubelets. A kubelet's own deletion (with grace 0) comes first.
    """

    def __init__(self, storage: Storage, clock: Clock, delete: Deleter, *, finish_all: bool) -> None:
        self._storage = storage
        self._clock = clock
        self._delete = delete
        self._finish_all = finish_all
        self._deleting: dict[str, set[StorageKey]] = {}
        """Terminating pods by node: the deletion of a node requeues its pods."""
        self._node_of: dict[StorageKey, str] = {}
        self._queue: WorkQueue[StorageKey] = lifecycle_queue("graceful", clock)

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection."""
        if resource == PODS:
            for key in self._node_of.keys() - {stored.key for stored in objects}:
                self._forget(key)
            for stored in objects:
                self._note(stored)
        elif resource == NODES:
            for key in self._node_of:
                self._queue.add(key)

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection."""
        for change in changes:
            key = change.after.key
            if key.resource == PODS:
                if change.type == "DELETED":
                    self._forget(key)
                else:
                    self._note(change.after)
            elif key.resource == NODES and change.type == "DELETED":
                for pod in self._deleting.get(key.name, ()):
                    self._queue.add(pod)

    def _note(self, stored: StoredObject) -> None:
        info = ownership_of(stored)
        if not info.is_deleting:
            self._forget(stored.key)  # another pod of the same name
            return
        node = _DECODER.decode(stored.encoded).spec.node_name
        self._node_of[stored.key] = node
        self._deleting.setdefault(node, set()).add(stored.key)
        self._queue.add_after(stored.key, self._left_seconds(info.deletion_timestamp))

    def _forget(self, key: StorageKey) -> None:
        node = self._node_of.pop(key, None)
        if node is None:
            return
        pods = self._deleting[node]
        pods.discard(key)
        if not pods:
            del self._deleting[node]
        self._queue.forget(key)

    def _left_seconds(self, deletion_timestamp: str) -> float:
        moment = parse_time(deletion_timestamp)
        return 0.0 if moment is None else (moment - self._clock.wall()).total_seconds()

    async def run(self) -> None:
        """Run until cancelled."""
        await run_workers(self._queue, self.look)

    async def look(self, key: StorageKey) -> None:
        """Remove a pod after its grace period, unless a kubelet will."""
        stored = self._storage.head(key)
        node = self._node_of.get(key)
        if stored is None or node is None:
            return
        info = ownership_of(stored)
        if not info.is_deleting:
            return  # another pod of the same name
        left_seconds = self._left_seconds(info.deletion_timestamp)
        if left_seconds > 0:
            self._queue.add_after(key, left_seconds)
            return
        if not self._finish_all and self._storage.get(StorageKey(NODES, "", node)) is not None:
            return
        try:
            await self._delete(key, info.uid, grace_period_seconds=0)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
