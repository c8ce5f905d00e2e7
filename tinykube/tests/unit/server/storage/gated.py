"""A log that writes or fails on the test's command, and small documents to store."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

from tinykube.server.objects import GroupResource, JsonObject, StorageKey, metadata_of
from tinykube.server.storage.log import Batch, Done, Log, Row
from tinykube.server.storage.model import Write

CONFIGMAPS = GroupResource("", "configmaps")
WIDGETS = GroupResource("example.com", "widgets")
LEASES = GroupResource("coordination.k8s.io", "leases")


class GatedLog:
    """A log behind a gate."""

    def __init__(self, inner: Log) -> None:
        self.inner = inner
        self.held: deque[tuple[Batch, Done]] = deque()

    @property
    def high_water(self) -> int:
        return self.inner.high_water

    @property
    def compacted(self) -> Mapping[GroupResource, int]:
        return self.inner.compacted

    @property
    def is_full(self) -> bool:
        return self.inner.is_full

    def try_recover(self) -> bool:
        return self.inner.try_recover()

    def rows(self) -> Iterable[Row]:
        return self.inner.rows()

    def append(self, batch: Batch, done: Done) -> None:
        self.held.append((batch, done))

    async def release(self) -> int:
        """Write the held batches; return their last revision."""
        batch, done = self.held.popleft()
        written = asyncio.get_running_loop().create_future()

        def both(error: Exception | None) -> None:
            done(error)
            written.set_result(error)

        self.inner.append(batch, both)
        assert await written is None
        return batch.last_revision

    def fail(self) -> None:
        """Fail the held batches, as a full disk does."""
        _, done = self.held.popleft()
        done(OSError("database or disk is full"))

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()


def describe(resource: GroupResource, document: JsonObject) -> Mapping[str, str]:
    metadata = metadata_of(document)
    return {"metadata.name": metadata.get("name", ""), "resource": str(resource)}


def document(name: str, namespace: str = "", *, number: int = 0, uid: str = "u") -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "labels": {"app": f"a{number % 3}"}},
        "data": {"number": number},
        "kind": "ConfigMap",
        "apiVersion": "v1",
    }


def write(key: StorageKey, expected: int = 0, *, number: int = 0, text: str = "") -> Write:
    written = document(key.name, key.namespace, number=number)
    if text:
        written["data"] = {"text": text}
    return Write(key, written, expected)


def removal(key: StorageKey, expected: int) -> Write:
    return Write(key, None, expected)
