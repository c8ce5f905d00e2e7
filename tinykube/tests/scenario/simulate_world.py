"""An in-memory API server for a simulation, and a simulation that uses it, in virtual time.

Objects are JSON, as on a real server; each resource is watched through a FakeSource. Requests take time, so
that changes happen in between.
"""

import asyncio
import copy
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from aiokube.api.apps import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.resource import Resource
from aiokube.api.times import format_time
from aiokube.client.errors import AlreadyExistsError, ConflictError, NotFoundError
from aiokube.runtime.controller import Controller
from aiokube.runtime.manager import Manager
from aiokube.runtime.source import Source
from aiokube.testing.api_errors import failure_status
from aiokube.testing.fake_source import FakeSource
from aiokube.testing.virtual_time import FakeClock
from tinykube.simulate.nodes import SIMULATED_NODES
from tinykube.simulate.pods import SIMULATED_PODS
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation import Simulation

T = TypeVar("T", bound=KubernetesObject)
Document = dict[str, Any]

RESOURCES: tuple[Resource[Any], ...] = (
    SIMULATED_NODES,
    SIMULATED_PODS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
)
PODS, NODES = SIMULATED_PODS.plural, SIMULATED_NODES.plural
_PATH = re.compile(
    r"/apis?/(?:apps/)?v1(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)


class FakeApi:
    """Implements :class:`tinykube.simulate.api.Api`. Every request takes ``delay()`` seconds before it acts."""

    def __init__(self, clock: FakeClock, delay: Callable[[], float]) -> None:
        self._clock = clock
        self._delay = delay
        self._resources = {resource.plural: resource for resource in RESOURCES}
        self._sources: dict[str, FakeSource[Any]] = {resource.plural: FakeSource() for resource in RESOURCES}
        self._documents: dict[str, dict[ObjectKey, Document]] = {each.plural: {} for each in RESOURCES}
        self._uids = 0
        self.history: list[tuple[float, str, str, str]] = []
        """Time, operation, object and result of each request."""
        self.after_each: Callable[[], None] = lambda: None
        self.slow: Callable[[str], float] = lambda path: 0.0
        """How much longer a POST to a path takes."""
        self.fault: Callable[[], Exception | None] = lambda: None
        """What a request fails with, before it acts."""

    # --------------------------------------------------------------------------------- for the test

    def documents(self, plural: str) -> list[Document]:
        return list(self._documents[plural].values())

    def document(self, plural: str, name: str, namespace: str = "default") -> Document | None:
        return self._documents[plural].get(ObjectKey(namespace, name))

    def hold(self, plural: str) -> None:
        """Delay the watch events of a resource."""
        self._sources[plural].hold()

    def release(self, plural: str) -> None:
        """Deliver the delayed watch events of a resource."""
        self._sources[plural].release()

    def make(self, document: Document) -> Document:
        """Create an object as a user does."""
        resource = next(each for each in RESOURCES if each.kind == document["kind"])
        return self._create(resource.plural, "" if resource is SIMULATED_NODES else "default", document)

    def edit(self, plural: str, name: str, change: Document, namespace: str = "default") -> None:
        """Merge a change as a user does."""
        self._patch(plural, ObjectKey(namespace, name), change, "")

    def edit_status(self, plural: str, name: str, change: Document, namespace: str = "default") -> None:
        """Merge a change into a status, as another controller does."""
        self._patch(plural, ObjectKey(namespace, name), {"status": change}, "status")

    def remove(self, plural: str, name: str, namespace: str = "default", grace: int | None = None) -> None:
        """Delete as a user does."""
        self._delete(plural, ObjectKey(namespace, name), grace)

    # --------------------------------------------------------------------------------------- the verbs

    def source(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Source[T]:
        source: Source[T] = self._sources[resource.plural]
        return source

    async def get(self, resource: Resource[T], key: ObjectKey) -> T:
        await self._arrive()
        found: T = self._decoded(resource.plural, self._existing(resource.plural, key))
        return found

    async def patch(
        self,
        resource: Resource[T],
        key: ObjectKey,
        body: bytes | msgspec.Struct,
        *,
        patch_type: str,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        await self._arrive()
        assert isinstance(body, bytes)
        document = self._patch(resource.plural, key, msgspec.json.decode(body), subresource)
        written: T = self._decoded(resource.plural, document)
        return written

    async def delete(
        self,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        await self._arrive()
        self._same(self._existing(resource.plural, key), uid or "", "")
        self._delete(resource.plural, key, grace_period_seconds)

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes:
        await self._arrive()
        await asyncio.sleep(self.slow(path))
        found = _PATH.fullmatch(path)
        assert found is not None
        assert method == "POST"
        assert body is not None
        document = msgspec.json.decode(body)
        if found["sub"] == "binding":
            self._bind(ObjectKey(found["namespace"], found["name"]), document)
            return b"{}"
        return msgspec.json.encode(self._create(found["plural"], found["namespace"] or "", document))

    async def _arrive(self) -> None:
        await asyncio.sleep(self._delay())
        fault = self.fault()
        if fault is not None:
            raise fault

    # ---------------------------------------------------------------------------------------- registry

    def _decoded(self, plural: str, document: Document) -> Any:
        return self._resources[plural].decode(msgspec.json.encode(document))

    def _existing(self, plural: str, key: ObjectKey) -> Document:
        found = self._documents[plural].get(key)
        if found is None:
            raise NotFoundError(failure_status(404, "NotFound", f"{key} not found"))
        return found

    def _same(self, document: Document, uid: str, version: str) -> None:
        meta = document["metadata"]
        if uid not in ("", meta["uid"]) or version not in ("", meta["resourceVersion"]):
            raise ConflictError(failure_status(409, "Conflict", "the object has been modified"))

    def _create(self, plural: str, namespace: str, document: Document) -> Document:
        document = copy.deepcopy(document)
        key = ObjectKey(namespace, document["metadata"]["name"])
        if key in self._documents[plural]:
            raise AlreadyExistsError(failure_status(409, "AlreadyExists", f"{key} already exists"))
        self._uids += 1
        document["metadata"] |= {
            "namespace": namespace,
            "uid": f"uid-{self._uids}",
            "creationTimestamp": format_time(self._clock.wall()),
            "generation": 1,
        }
        if plural != NODES:
            document["status"] = {"phase": "Pending"} if plural == PODS else {}
        return self._keep("create", plural, key, document)

    def _patch(self, plural: str, key: ObjectKey, change: Document, subresource: str) -> Document:
        old = self._existing(plural, key)
        change = copy.deepcopy(change)
        meta = change.get("metadata") or {}
        self._same(old, meta.pop("uid", ""), meta.pop("resourceVersion", ""))
        if subresource == "status":
            change = {"status": change["status"]}
        else:
            change.pop("status", None)
        new = merged(old, change)
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        return self._keep("patch", plural, key, new, subresource)

    def _bind(self, key: ObjectKey, binding: Document) -> None:
        old = self._existing(PODS, key)
        self._same(old, binding["metadata"]["uid"], "")
        if old["spec"].get("nodeName"):
            raise ConflictError(failure_status(409, "Conflict", "the pod is bound"))
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": format_time(self._clock.wall()),
        }
        change = {"spec": {"nodeName": binding["target"]["name"]}, "status": {"conditions": [scheduled]}}
        self._keep("bind", PODS, key, merged(old, change))

    def _delete(self, plural: str, key: ObjectKey, grace: int | None) -> None:
        old = self._existing(plural, key)
        finished = old["status"].get("phase") in ("Succeeded", "Failed")
        if plural == PODS and old["spec"].get("nodeName") and not finished and grace != 0:
            if "deletionTimestamp" in old["metadata"]:
                return
            seconds = old["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
            ends = {
                "deletionTimestamp": format_time(self._clock.wall()),
                "deletionGracePeriodSeconds": seconds,
            }
            self._keep("delete", plural, key, merged(old, {"metadata": ends}))
            return
        del self._documents[plural][key]
        self._sources[plural].delete(key)
        self._note("gone", plural, key, old)

    def _keep(self, verb: str, plural: str, key: ObjectKey, document: Document, sub: str = "") -> Document:
        known = key in self._documents[plural]
        source, item = self._sources[plural], self._decoded(plural, document)
        stored = source.modify(item) if known else source.create(item)
        document["metadata"]["resourceVersion"] = stored.metadata.resource_version
        self._documents[plural][key] = document
        self._note(f"{verb} {sub}".strip(), plural, key, document)
        return document

    def _note(self, verb: str, plural: str, key: ObjectKey, document: Document) -> None:
        told = msgspec.json.encode({part: document.get(part) for part in ("metadata", "spec", "status")})
        self.history.append((self._clock.monotonic(), verb, f"{plural}/{key}", told.decode()))
        self.after_each()


def merged(old: Any, change: Any) -> Any:
    """Return a document with a merge patch; conditions are merged by type, as with a strategic merge patch."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            new.pop(key, None)
        elif key == "conditions" and value and isinstance(value[0], dict):
            by_type = {each["type"]: each for each in new.get("conditions") or ()}
            new["conditions"] = list((by_type | {each["type"]: each for each in value}).values())
        else:
            new[key] = merged(new.get(key), value)
    return new


class SimulatedWorld:
    """A running simulation on a :class:`FakeApi`."""

    def __init__(
        self, settings: SimulateSettings, api: FakeApi | None, longest_delay: float, chance: int
    ) -> None:
        rng = random.Random(chance)
        self.clock = FakeClock()
        self.api = api or FakeApi(
            self.clock, lambda: rng.uniform(0.0, longest_delay) if longest_delay else 0.001
        )
        parts = Simulation(self.api, settings, self.clock, random.Random(0)).runnables()
        self._controllers = parts.controllers
        self.manager = Manager(clock=self.clock, informers=parts.informers, controllers=parts.controllers)

    def reconciles(self) -> int:
        """Return the number of reconciles of all controllers."""
        return sum(part.statistics().succeeded for part in self._controllers if isinstance(part, Controller))

    def pods(self, app: str = "web") -> list[Document]:
        found = [
            pod for pod in self.api.documents(PODS) if (pod["metadata"].get("labels") or {}).get("app") == app
        ]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def alive(self, app: str = "web") -> list[Document]:
        return [pod for pod in self.pods(app) if "deletionTimestamp" not in pod["metadata"]]

    def pod(self, name: str) -> Document:
        found = self.api.document(PODS, name)
        assert found is not None, f"there is no pod {name}"
        return found


@asynccontextmanager
async def simulated(
    settings: SimulateSettings, *, api: FakeApi | None = None, longest_delay: float = 0.0, chance: int = 0
) -> AsyncIterator[SimulatedWorld]:
    """Run a simulation for a block, by default on a new server."""
    world = SimulatedWorld(settings, api, longest_delay, chance)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(world.manager.run(stop), name="simulation")
        try:
            yield world
        finally:
            stop.set()


def is_ready(pod: Document) -> bool:
    return condition(pod, "Ready") == "True"


def condition(pod: Document, kind: str) -> str | None:
    for each in pod["status"].get("conditions") or ():
        if each["type"] == kind:
            return str(each["status"])
    return None


def container(**fields: Any) -> Document:
    return {"name": "main", "image": "main:1", **fields}


def template(app: str = "web", **spec: Any) -> Document:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container()], **spec}}


def workload(kind: str, name: str = "web", **spec: Any) -> Document:
    version = "v1" if kind == "Pod" else "apps/v1"
    base = {"selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {**base, **spec}}


def lone_pod(name: str = "alone", annotations: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"containers": [container()], **spec},
    }
