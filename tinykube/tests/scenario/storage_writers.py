"""A process with 32 writers to a storage that runs until it is killed, and prints each acknowledged write.

Run with a data directory. Each line on stdout: revision, type, name, number.
"""

import asyncio
import os
import sys
from pathlib import Path

from aiokube.clock import SystemClock
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.storage.model import Write
from tinykube.server.storage.store import ObjectStorage, open_storage

RESOURCE = GroupResource("", "configmaps")
WRITERS = 32


async def write(storage: ObjectStorage, name: str) -> None:
    key = StorageKey(RESOURCE, "default", name)
    number = 0
    while True:
        number += 1
        stored = storage.head(key)
        document = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "data": {"number": number, "filler": "x" * 500},
        }
        removes = stored is not None and number % 4 == 0
        (change,) = await storage.commit(
            [Write(key, None if removes else document, stored.revision if stored else 0)]
        )
        os.write(1, f"{change.revision} {change.type} {name} {number}\n".encode())


async def main() -> None:
    storage = open_storage(Path(sys.argv[1]), describe=lambda *_: {}, clock=SystemClock())
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write(storage, f"writer-{writer}"), name=f"writer {writer}")


if __name__ == "__main__":
    asyncio.run(main())
