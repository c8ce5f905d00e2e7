"""One process that follows the pods of a selector, with any number of readers: what :mod:`benchmarks.discovery_usage` measures.

It prints ``ready`` once every reader has the endpoints, and one line of JSON for every line it reads.
"""

import asyncio
import json
import sys
from collections import Counter

from aiokube.discovery import ServiceEndpoints, watch_pods


class Readers:
    """The changes that the readers have received."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.all_have_read = asyncio.Event()
        self.states: Counter[int] = Counter()
        self.usable: Counter[int] = Counter()

    def receive(self, number: int, endpoints: ServiceEndpoints) -> None:
        self.states[number] += 1
        self.usable[number] = len(endpoints.usable)
        if len(self.states) == self._count:
            self.all_have_read.set()


async def run(kubeconfig: str, namespace: str, selector: str, count: int) -> None:
    readers = Readers(count)
    async with (
        watch_pods(kubeconfig, namespace, selector, port=8080) as live,
        asyncio.TaskGroup() as group,
    ):

        async def read(number: int) -> None:
            async for endpoints in live:
                readers.receive(number, endpoints)

        tasks = [group.create_task(read(number), name=f"reader {number}") for number in range(count)]
        await readers.all_have_read.wait()
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            found = {
                "states": readers.states.total(),
                "fewest_states": min(readers.states.values(), default=0),
                "usable": sorted(set(readers.usable.values())),
                "lists": sum(each.reflector.lists for each in live.statistics()),
                "endpoints": len(live.current.endpoints),
            }
            print(json.dumps(found), flush=True)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
