"""Keep a file of endpoints for a router that reads one: ``python adapter_file.py llm app=vllm 8000 targets.json``.

The format is that of Prometheus' ``file_sd_configs``, which several routers read, too.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from aiokube.discovery import LivePods, ServiceEndpoints, watch_pods


def document(endpoints: ServiceEndpoints) -> str:
    """Return the content of the file: one group for each set of labels."""
    groups: dict[str, list[str]] = {}
    for each in endpoints.usable:
        groups.setdefault(json.dumps(dict(each.labels), sort_keys=True), []).append(each.address)
    return json.dumps(
        [{"targets": targets, "labels": json.loads(labels)} for labels, targets in sorted(groups.items())],
        indent=2,
    )


def write(path: Path, text: str) -> None:
    """Replace the file: a reader sees the old or the new content, never a part."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


async def follow(live: LivePods, path: Path) -> None:
    """Keep the file current until the view ends."""
    async for endpoints in live:
        write(path, document(endpoints))


async def run(namespace: str, selector: str, port: int, path: Path) -> None:
    """Keep the file current until cancelled."""
    async with watch_pods(None, namespace, selector, port=port, labels=["model", "role"]) as live:
        await follow(live, path)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
