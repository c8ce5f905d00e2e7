"""The default objects of every namespace: the ServiceAccount ``default`` and the ConfigMap ``kube-root-ca.crt``.

In a cluster, kube-controller-manager creates them (controllers serviceaccount and
root-ca-certificate-publisher).
"""

from collections.abc import Sequence

from aiokube.clock import Clock
from aiokube.work_queue import WorkQueue
from tinykube.server.errors import StatusError
from tinykube.server.json_access import ensure_object, get_object, get_str
from tinykube.server.lifecycle.interfaces import Creator, Updater
from tinykube.server.lifecycle.workers import lifecycle_queue, run_workers
from tinykube.server.objects import GroupResource, JsonObject, StorageKey, metadata_of
from tinykube.server.storage.model import Change, Storage, StoredObject

_NAMESPACES = GroupResource("", "namespaces")
_SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
_CONFIG_MAPS = GroupResource("", "configmaps")
SERVICE_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_KEPT = {_SERVICE_ACCOUNTS: SERVICE_ACCOUNT, _CONFIG_MAPS: ROOT_CA}
_ANNOTATION = "kubernetes.io/description"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal "
    "service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


class NamespaceDefaults:
    """Creates both in every active namespace, also after a deletion, and restores an edited ConfigMap."""

    def __init__(
        self, storage: Storage, clock: Clock, create: Creator, update: Updater, authority: str
    ) -> None:
        self._storage = storage
        self._create = create
        self._update = update
        self._data = {"ca.crt": authority}
        self._queue: WorkQueue[str] = lifecycle_queue("namespace defaults", clock)

    def replaced(self, resource: GroupResource, objects: Sequence[StoredObject]) -> None:
        """Replace the state of a collection."""
        if resource == _NAMESPACES:
            for stored in objects:
                self._queue.add(stored.key.name)
        elif resource in _KEPT:
            # Deletions may have been missed.
            for stored in self._storage.heads_in(_NAMESPACES):
                self._queue.add(stored.key.name)

    def changed(self, changes: Sequence[Change]) -> None:
        """Process changes of one collection."""
        resource = changes[0].after.key.resource
        if resource == _NAMESPACES:
            for change in changes:
                if change.type != "DELETED":
                    self._queue.add(change.after.key.name)
        elif (name := _KEPT.get(resource)) is not None:
            for change in changes:
                if change.type != "ADDED" and change.after.key.name == name:
                    self._queue.add(change.after.key.namespace)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_workers(self._queue, self.sync)

    async def sync(self, namespace: str) -> None:
        """Create or restore the missing objects of one active namespace. Raises StatusError."""
        stored = self._storage.head(StorageKey(_NAMESPACES, "", namespace))
        if stored is None or get_str(get_object(stored.decode(), "status"), "phase") == "Terminating":
            return
        account = StorageKey(_SERVICE_ACCOUNTS, namespace, SERVICE_ACCOUNT)
        if self._storage.head(account) is None:
            await self._try_create(account, {})
        config_map = StorageKey(_CONFIG_MAPS, namespace, ROOT_CA)
        current = self._storage.head(config_map)
        if current is None:
            body = {"metadata": {"annotations": {_ANNOTATION: _DESCRIPTION}}, "data": dict(self._data)}
            await self._try_create(config_map, body)
        elif not self._is_right(current.decode()):
            try:
                await self._update(config_map, self._restored)
            except StatusError as error:
                if error.code != 404:  # deleted: its event requeues the namespace
                    raise

    def _is_right(self, config_map: JsonObject) -> bool:
        annotations = get_object(metadata_of(config_map), "annotations")
        return config_map.get("data") == self._data and bool(annotations.get(_ANNOTATION))

    def _restored(self, config_map: JsonObject) -> JsonObject:
        if not self._is_right(config_map):
            config_map["data"] = dict(self._data)
            ensure_object(ensure_object(config_map, "metadata"), "annotations")[_ANNOTATION] = _DESCRIPTION
        return config_map

    async def _try_create(self, key: StorageKey, body: JsonObject) -> None:
        try:
            await self._create(key, body)
        except StatusError as error:
            # The namespace was deleted (404) or is terminating (403), or another client was faster (409).
            if error.code not in (403, 404, 409):
                raise
