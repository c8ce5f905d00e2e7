"""The pods of several clusters as one: ``python several_clusters.py llm app=vllm 8000 east.kubeconfig west.kubeconfig``."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from aiokube.discovery import EndpointView, LivePods, watch_pods

STALE_SECONDS = 60.0

ByCluster = dict[str, tuple[EndpointView, ...]]


def usable(views: Mapping[str, LivePods]) -> ByCluster:
    """Return the usable endpoints of each cluster; the result is empty for a cluster with a stale view."""
    return {name: () if live.is_stale else live.current.usable for name, live in views.items()}


async def follow(views: Mapping[str, LivePods], use: Callable[[ByCluster], None]) -> None:
    """Call ``use`` with the endpoints of all clusters, at first and after each change in one of them."""

    async def follow_one(live: LivePods) -> None:
        async for _ in live:
            use(usable(views))

    async with asyncio.TaskGroup() as group:
        for name, live in views.items():
            group.create_task(follow_one(live), name=f"follow {name}")


def show(clusters: ByCluster) -> None:
    """Print one line for each cluster."""
    for name, endpoints in clusters.items():
        sys.stdout.write(f"{name}: {' '.join(each.address for each in endpoints) or '(none)'}\n")


async def run(
    namespace: str,
    selector: str,
    port: int,
    clusters: Mapping[str, str | Path],
    use: Callable[[ByCluster], None],
) -> None:
    """Follow the same pods in each cluster, by the path of its kubeconfig, until cancelled.

    Raises ConfigError or NotSyncedError if a cluster cannot be read at the start. One that is lost later keeps its
    endpoints for STALE_SECONDS, and the other clusters do not notice.
    """
    async with contextlib.AsyncExitStack() as stack:
        views = {
            name: await stack.enter_async_context(
                watch_pods(kubeconfig, namespace, selector, port=port, stale_after=STALE_SECONDS)
            )
            for name, kubeconfig in clusters.items()
        }
        await follow(views, use)


if __name__ == "__main__":
    files = {Path(each).stem: each for each in sys.argv[4:]}
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), files, show))
