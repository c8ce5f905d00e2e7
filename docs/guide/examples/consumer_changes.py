"""Print all changes of the endpoints in a cluster: ``python consumer_changes.py node-1``."""

import asyncio
import sys
from collections.abc import Callable, Iterator

from aiokube.discovery import ServiceMap, ServiceMapChanges, watch_services


def lines(services: ServiceMap, changes: ServiceMapChanges) -> Iterator[str]:
    """Yield the changes of endpoints, and the new destinations of each changed service."""
    for name, found in changes.endpoints["IPv4"].ports.items():
        yield from (f"+ {name} {endpoint.address}" for endpoint in found.added)
        yield from (f"- {name} {endpoint.address}" for endpoint in found.removed)
        yield from (f"~ {name} {now.address} ready={now.ready}" for _, now in found.changed)
    for name, endpoints in services.snapshot("IPv4").items():
        if name.service_key in changes.updated or changes.location:
            chosen = endpoints.select()
            yield f"= {name} {chosen.verdict()} to {len(chosen.internal)}, topology {chosen.topology}"


async def run(node_name: str, tell: Callable[[str], object] = print) -> None:
    """Print changes until cancelled, as seen from a node."""
    async with watch_services(None, node_name=node_name) as services:
        async for changes in services.changes():
            for line in lines(services, changes):
                tell(line)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else ""))
