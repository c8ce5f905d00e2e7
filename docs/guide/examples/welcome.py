"""A controller: every namespace labelled ``example.com/welcome`` has a ConfigMap ``welcome`` with the label's text.

Run it with ``python docs/guide/examples/welcome.py``; then ``kubectl label namespace default
example.com/welcome=hello`` and ``kubectl get configmap welcome -o yaml``.
"""

import asyncio
import logging
import random

import msgspec

from aiokube.api.meta import ObjectKey, ObjectMeta
from aiokube.api.resource import Resource
from aiokube.client.load_config import load_config
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from aiokube.runtime.controller import Controller
from aiokube.runtime.events import ClientEventSink, EventRecorder, EventWriter, reference
from aiokube.runtime.handlers import enqueue
from aiokube.runtime.informer import Informer
from aiokube.runtime.manager import Manager
from aiokube.runtime.queue import WorkQueue
from aiokube.runtime.shutdown import stop_on_signals
from aiokube.runtime.store import Store

LABEL = "example.com/welcome"
MANAGED_BY = "app.kubernetes.io/managed-by"
NAME = "welcome"


class Namespace(msgspec.Struct, frozen=True):
    """Only read, so only what is used."""

    metadata: ObjectMeta


class ConfigMap(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Written, so complete: what a type does not know, an update would erase."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


NAMESPACES: Resource[Namespace] = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", wire=Namespace, namespaced=False
)
CONFIG_MAPS: Resource[ConfigMap] = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", wire=ConfigMap, complete=True
)


class Welcome:
    """Keeps the welcomes of all namespaces right."""

    def __init__(
        self,
        namespaces: Store[Namespace],
        welcomes: Store[ConfigMap],
        client: Client,
        queue: WorkQueue[str],
        recorder: EventRecorder,
    ) -> None:
        self._namespaces, self._welcomes = namespaces, welcomes
        self._client, self._recorder = client, recorder
        namespaces.subscribe(enqueue(queue, lambda namespace: namespace.metadata.name))
        welcomes.subscribe(enqueue(queue, lambda welcome: welcome.metadata.namespace))

    async def reconcile(self, name: str) -> None:
        """Make the welcome of one namespace right, whatever has happened."""
        namespace = self._namespaces.get(ObjectKey("", name))
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return  # what is in a namespace goes with it
        text = (namespace.metadata.labels or {}).get(LABEL)
        found = self._welcomes.get(ObjectKey(name, NAME))
        if text is None:
            if found is not None:
                await self._client.delete(CONFIG_MAPS, found.metadata.key, uid=found.metadata.uid)
                self._welcomes.record_delete(found.metadata.key, found.metadata.uid)
        elif found is None:
            meta = ObjectMeta(name=NAME, namespace=name, labels={MANAGED_BY: NAME})
            wanted = ConfigMap(meta, data={"text": text})
            self._welcomes.record_write(await self._client.create(CONFIG_MAPS, wanted, namespace=name))
            self._recorder.event(reference(NAMESPACES, namespace), "Normal", "Welcomed", f"It says {text!r}")
        elif found.data != {"text": text}:
            wanted = msgspec.structs.replace(found, data={"text": text})
            written = await self._client.update(CONFIG_MAPS, wanted, key=found.metadata.key)
            self._welcomes.record_write(written)


async def run(client: Client, stop: asyncio.Event) -> None:
    """Run the controller until ``stop`` is set."""
    clock, rng = SystemClock(), random.SystemRandom()
    events = EventWriter(ClientEventSink(client), clock=clock, rng=rng)
    namespaces = Informer(client.source(NAMESPACES), name="namespaces", clock=clock, rng=rng)
    ours = client.source(CONFIG_MAPS, label_selector=f"{MANAGED_BY}={NAME}")
    welcomes = Informer(ours, name="welcomes", clock=clock, rng=rng)
    queue: WorkQueue[str] = WorkQueue("welcome", clock=clock)
    welcome = Welcome(namespaces.store, welcomes.store, client, queue, events.recorder("welcome-controller"))
    manager = Manager(
        clock=clock,
        services=[events],
        informers=[namespaces, welcomes],
        controllers=[Controller("welcome", queue, welcome.reconcile, workers=2, clock=clock)],
    )
    await manager.run(stop)


async def main() -> None:
    """Run it against the cluster of your kubeconfig, until a signal."""
    stop = asyncio.Event()
    clock = SystemClock()
    async with Client.from_config(load_config(clock=clock), clock=clock) as client:
        with stop_on_signals(stop):
            await run(client, stop)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
