"""The clients of :mod:`benchmarks.discovery_faults`, one process each: ``python -m benchmarks.discovery_clients CLIENT ...``.

A client prints one line of JSON for each state: the usable pods as pairs of name and IP, and when it learned of them.
For each line that it reads it prints how many connections it has tried to open so far.
"""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from aiokube.clock import SystemClock

CLOCK = SystemClock()
log = logging.getLogger(__name__)
NAMESPACE = "faults"
_POLL_SECONDS = 0.02
_FINISHED = ("Succeeded", "Failed")

Usable = Iterable[tuple[str, str]]


class Shows(Protocol):
    """Takes the usable pods whenever they may have changed."""

    def show(self, usable: Usable) -> None: ...


class Reporter:
    """Prints states that differ from the one before, and counts attempts to connect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: list[tuple[str, str]] | None = None
        self._connects = 0
        sys.addaudithook(self._count)
        threading.Thread(target=self._answer, name="answer", daemon=True).start()

    def show(self, usable: Usable) -> None:
        found = sorted(usable)
        with self._lock:
            if found != self._last:
                self._last = found
                print(json.dumps({"at": CLOCK.monotonic(), "usable": found}), flush=True)

    def _count(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self._connects += 1

    def _answer(self) -> None:
        for _ in sys.stdin:
            with self._lock:
                print(json.dumps({"connects": self._connects}), flush=True)


def follow_with_aiokube(kubeconfig: str, selector: str, reporter: Reporter) -> None:
    """Iterate the view of this package."""
    from aiokube.discovery import watch_pods

    async def run() -> None:
        async with watch_pods(kubeconfig, NAMESPACE, selector, port=8080) as live:
            async for endpoints in live:
                reporter.show(
                    (each.target_ref.name or "", each.ip)
                    for each in endpoints.usable
                    if each.target_ref is not None
                )

    asyncio.run(run())


def follow_with_informer(kubeconfig: str, selector: str, reporter: Reporter) -> None:
    """Run the official client's SharedInformer, and read its cache all the time."""
    from kubernetes import client, config
    from kubernetes.informer import SharedInformer

    config.load_kube_config(kubeconfig)
    api = client.CoreV1Api()
    informer = SharedInformer(api.list_namespaced_pod, namespace=NAMESPACE, label_selector=selector)
    informer.start()
    while True:
        pods = [pod.to_dict() for pod in informer.cache.list()]
        if pods:
            reporter.show(usable_of(pods, "pod_ip", "deletion_timestamp"))
        threading.Event().wait(_POLL_SECONDS)


def follow_with_kr8s(kubeconfig: str, selector: str, reporter: Reporter) -> None:
    """Iterate the watch of kr8s; start it again a second after it has failed or ended."""
    import kr8s.asyncio

    async def run() -> None:
        api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
        pods: dict[str, dict[str, Any]] = {}
        while True:
            try:
                async for event, pod in api.watch("pods", namespace=NAMESPACE, label_selector=selector):
                    if event == "DELETED":
                        pods.pop(pod.name, None)
                    else:
                        pods[pod.name] = pod.raw.to_dict() if hasattr(pod.raw, "to_dict") else pod.raw
                    reporter.show(usable_of(pods.values(), "podIP", "deletionTimestamp"))
            except Exception:
                log.exception("the watch failed")
            await asyncio.sleep(1)

    asyncio.run(run())


def follow_by_hand(kubeconfig: str, selector: str, reporter: Shows) -> None:
    """Run the loop that routers of inference servers have: watches of 30 s, readiness from the containers' statuses."""
    from kubernetes import client, config, watch

    config.load_kube_config(kubeconfig)
    api, watcher = client.CoreV1Api(), watch.Watch()
    backends: dict[str, str] = {}
    while True:
        try:
            for event in watcher.stream(
                api.list_namespaced_pod, namespace=NAMESPACE, label_selector=selector, timeout_seconds=30
            ):
                pod = event["object"]
                statuses = pod.status.container_statuses
                if event["type"] == "DELETED" or not statuses or not all(each.ready for each in statuses):
                    backends.pop(pod.metadata.name, None)
                elif pod.status.pod_ip:
                    backends[pod.metadata.name] = pod.status.pod_ip
                reporter.show(backends.items())
        except Exception:
            log.exception("the watch failed")
            threading.Event().wait(0.5)


def usable_of(pods: Iterable[dict[str, Any]], ip: str, deleted: str) -> list[tuple[str, str]]:
    """Return the pods that are Ready, neither deleted nor finished: what a careful author writes."""
    return [
        (pod["metadata"]["name"], pod["status"][ip])
        for pod in pods
        if pod["status"].get(ip)
        and not pod["metadata"].get(deleted)
        and pod["status"].get("phase") not in _FINISHED
        and any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in pod["status"].get("conditions") or ()
        )
    ]


CLIENTS: dict[str, Callable[[str, str, Reporter], None]] = {
    "aiokube.discovery": follow_with_aiokube,
    "kubernetes informer": follow_with_informer,
    "kr8s": follow_with_kr8s,
    "hand-written loop": follow_by_hand,
}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    CLIENTS[sys.argv[1]](sys.argv[2], sys.argv[3], Reporter())
