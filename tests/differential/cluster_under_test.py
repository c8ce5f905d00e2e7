"""One of two compared clusters: a control plane, its controllers, and the operations applied to it."""

import asyncio
import contextlib
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aiokube.api.core import PODS, SERVICES
from aiokube.api.discovery import (
    ENDPOINT_SLICES,
    MANAGED_BY_ENDPOINTSLICE_CONTROLLER,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    EndpointSlice,
)
from aiokube.api.endpoints import ENDPOINTS
from aiokube.api.meta import KubernetesObject, ObjectKey, key_of
from aiokube.api.resource import Resource, WatchEvent
from aiokube.client.errors import AlreadyExistsError, ApiError, ClientError, NotFoundError
from aiokube.client.rest import MERGE_PATCH, Client
from aiokube.clock import Clock, SystemClock
from tests.differential.normalise import Json, Snapshot, slice_names_in_order
from tests.differential.operations import RESOURCES, Operation, SliceOf, document
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

CONTROLLERS = ("endpoints-controller", "endpointslice-controller")
USER_AGENT = "endpointd-testing"  # distinguishes the harness from the controllers in an audit log
TOUCH_ANNOTATION = "differential.example/touch"

ENDPOINTS_MANAGER_SINCE = 33
"""Minor version since which upstream labels Endpoints with their manager."""

SIDECAR_PORTS_SINCE = 34
"""Minor version since which upstream resolves named ports of sidecars, in Endpoints as well."""

PORTLESS_SLICES_KEPT_SINCE = 36
"""Minor version since which upstream no longer replaces slices without ports at each sync."""

_UID = re.compile(r"\$\(uid:([^)]+)\)")
NO_TARGET = "there is none"
_WATCH_RETRY_SECONDS = 0.2
_RESTLESS_SECONDS = 60.0
_START_SECONDS = 60.0
_START_POLL_SECONDS = 0.1
_CANARY = "canary"

T = TypeVar("T")
Object = TypeVar("Object", bound=KubernetesObject)

Resolved = Mapping[tuple[str, SliceOf], str]
"""Names of slices, by the namespace and target that refer to them."""

Starter = Callable[[ControlPlane, str], ChildProcess]
"""Starts controllers on a control plane, with a process name, and returns the process."""


def upstream(flags: Sequence[str] = ()) -> Starter:
    """Return a starter of kube-controller-manager with the two controllers and these flags."""
    return lambda plane, name: plane.start_controller_manager(CONTROLLERS, flags=flags, name=name)


def endpointd(flags: Sequence[str] = (), command: Sequence[str | Path] = ()) -> Starter:
    """Return a starter of ``endpointd run`` with the two controllers as the admin user; ``flags`` take precedence.

    ``command`` precedes the flags; by default it is this interpreter's ``-m endpointd run``.
    """
    program = tuple(command) or (sys.executable, "-m", "endpointd", "run")

    def start(plane: ControlPlane, name: str) -> ChildProcess:
        fixed = (
            f"--kubeconfig={plane.kubeconfig_path}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            "--missing-node-grace-period=0",  # upstream has no grace period
        )
        return plane.start_child(name, [*program, *fixed, *flags])

    return start


class ControllersError(RuntimeError):
    """Controllers exited, or never come to rest."""


class Side:
    """A cluster under comparison; call :meth:`open` and :meth:`close` once each, in one event loop.

    ``name`` labels it in reports. Inside :func:`while_watching`, watches observe the writes of its controllers;
    :attr:`last_change_seconds` is the time of the last write or operation (monotonic).
    """

    def __init__(
        self,
        name: str,
        plane: ControlPlane,
        starter: Starter,
        namespaces: Sequence[str],
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.plane = plane
        self.namespaces = tuple(namespaces)
        self._starter = starter
        self._clock = clock or SystemClock()
        self._client = Client.from_config(plane.client_config(), clock=self._clock, user_agent=USER_AGENT)
        self._process: ChildProcess | None = None
        self._touches = 0
        self.last_change_seconds = self._clock.monotonic()

    # -------------------------------------------------------------------------- lifecycle

    async def open(self) -> None:
        """Create the namespaces and start the controllers."""
        for name in self.namespaces:
            await self._create_namespace(name)
        self.start()

    async def _create_namespace(self, name: str) -> None:
        body = document({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
        with contextlib.suppress(AlreadyExistsError):  # left by an earlier workload on this cluster
            await self._client.request("POST", "/api/v1/namespaces", body=body)

    def start(self) -> None:
        """Start the controllers."""
        self._process = self._starter(self.plane, f"controllers-{self.name}")

    async def wait_started(self) -> None:
        """Wait until the controllers publish a canary Service in a separate namespace.

        Otherwise a slow start would look like rest. Raises ControllersError after a minute, or when the process has exited.
        """
        await self._create_namespace(_CANARY)
        collection = f"/api/v1/namespaces/{_CANARY}/services"
        spec = {"selector": {"app": _CANARY}, "ports": [{"port": 80}]}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"generateName": "canary-"},
            "spec": spec,
        }
        answer = await self._client.request("POST", collection, body=document(service).encode())
        name = msgspec.json.decode(answer)["metadata"]["name"]
        published = (
            (f"/api/v1/namespaces/{_CANARY}/endpoints", {"fieldSelector": f"metadata.name={name}"}),
            (
                f"/apis/discovery.k8s.io/v1/namespaces/{_CANARY}/endpointslices",
                {"labelSelector": f"kubernetes.io/service-name={name}"},
            ),
        )
        deadline = self._clock.monotonic() + _START_SECONDS
        while self._clock.monotonic() < deadline:
            if self.exit_report is not None:
                raise ControllersError(self.exit_report)
            for path, query in published:
                if msgspec.json.decode(await self._client.request("GET", path, query=query))["items"]:
                    return
            await self._clock.sleep(_START_POLL_SECONDS)
        raise ControllersError(f"{self.name} published nothing within {_START_SECONDS:g} s of its start")

    def stop(self) -> int:
        """Stop the controllers and return their exit code."""
        if self._process is None:
            return 0
        code = self._process.stop()
        self._process = None
        return code

    def kill(self) -> None:
        """Kill the controllers with SIGKILL, as a crash would; :meth:`start` restarts them."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def replace_controllers(self, starter: Starter) -> None:
        """Start other controllers on this cluster; the previous ones must be stopped."""
        self._starter = starter
        self.start()

    async def close(self) -> None:
        """Stop the controllers if they are running, and close the connections."""
        self.stop()
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connections; the controllers continue until the control plane stops."""
        await self._client.aclose()

    @property
    def process(self) -> ChildProcess:
        """The controllers' process. Raises ControllersError if it was not started."""
        if self._process is None:
            raise ControllersError(f"the controllers of {self.name} do not run: start() them")
        return self._process

    @property
    def exit_report(self) -> str | None:
        """Return the last log lines of controllers that have exited unexpectedly; None while they run."""
        process = self._process
        if process is None or process.is_running:
            return None
        return f"the controllers of {self.name} have ended with {process.exit_code}:\n{process.log_tail()}"

    # ---------------------------------------------------------------------------- reading

    async def snapshot(self) -> Snapshot:
        """Return the objects in the namespaces that a comparison needs."""
        return Snapshot(
            raw_endpoints=await self._list_raw(ENDPOINTS),
            raw_slices=await self._list_raw(ENDPOINT_SLICES),
            services=await self._list(SERVICES),
            pods=await self._list(PODS),
            is_old=self.plane.minor_version < ENDPOINTS_MANAGER_SINCE,
            replaces_portless_slices=self.plane.minor_version < PORTLESS_SLICES_KEPT_SINCE,
        )

    async def _list(self, resource: Resource[Object]) -> tuple[Object, ...]:
        pages = [await self._client.list_page(resource, namespace=namespace) for namespace in self.namespaces]
        return tuple(item for page in pages for item in page.items)

    async def _list_raw(self, resource: Resource[Any]) -> tuple[Json, ...]:
        bodies = [await self._client.request("GET", resource.path(name)) for name in self.namespaces]
        return tuple(item for body in bodies for item in msgspec.json.decode(body)["items"])

    async def versions(self) -> Mapping[str, str]:
        """Return the resource version of every Endpoints and EndpointSlice in the namespaces."""
        snapshot = await self.snapshot()
        items = [("endpoints", item.metadata) for item in snapshot.endpoints]
        items += [("endpointslice", item.metadata) for item in snapshot.slices]
        return {f"{kind} {metadata.key}": metadata.resource_version for kind, metadata in items}

    async def follow(self, resource: Resource[Any]) -> None:
        """Observe writes to a resource until cancelled, including across restarts of the API server."""
        while True:
            try:
                version = (await self._client.list_page(resource, limit=1)).resource_version
                async with self._client.watch(resource, resource_version=version) as batches:
                    async for batch in batches:
                        if any(isinstance(event, WatchEvent) and self._is_here(event) for event in batch):
                            self.last_change_seconds = self._clock.monotonic()
            except ClientError:
                await self._clock.sleep(_WATCH_RETRY_SECONDS)

    def _is_here(self, event: WatchEvent[Any]) -> bool:
        return event.item.metadata.namespace in self.namespaces

    # ------------------------------------------------------------------------- operations

    async def resolve(self, operations: Sequence[Operation]) -> Resolved:
        """Return the names of the slices that the operations target; targets without a slice are absent."""
        targets = [(op.namespace, op.name) for op in operations if isinstance(op.name, SliceOf)]
        if not targets:
            return {}
        snapshot = await self.snapshot()
        found: dict[tuple[str, SliceOf], str] = {}
        for namespace, target in targets:
            key = ObjectKey(namespace, target.service)
            candidates = slice_names_in_order(snapshot, key, MANAGED_BY_ENDPOINTSLICE_CONTROLLER)
            if candidates:
                found[namespace, target] = candidates[target.index % len(candidates)]
        return found

    async def apply(self, operation: Operation, resolved: Resolved) -> str:
        """Apply one operation; return ``ok``, or the code and reason of the rejection.

        Two clusters in agreement return the same result. Raises TransportError if the server does not respond.
        """
        resource = RESOURCES[operation.resource]
        name = operation.name
        if isinstance(name, SliceOf):
            if (operation.namespace, name) not in resolved:
                return NO_TARGET
            name = resolved[operation.namespace, name]
        key = ObjectKey(operation.namespace, name)
        try:
            body = await self._filled_in(operation)
            match operation.verb:
                case "create":
                    await self._client.request("POST", resource.path(operation.namespace), body=body)
                case "patch":
                    await self._client.patch(resource, key, body, patch_type=MERGE_PATCH)
                case "patch-status":
                    await self._client.patch(
                        resource, key, body, patch_type=MERGE_PATCH, subresource="status"
                    )
                case "delete":
                    await self._client.delete(resource, key, grace_period_seconds=operation.grace_seconds)
        except ApiError as error:
            return f"{error.status.code} {error.status.reason}"
        self.last_change_seconds = self._clock.monotonic()
        return "ok"

    async def touch_services(self) -> None:
        """Touch every service, so that any controller reconciles it."""
        self._touches += 1
        body = document({"metadata": {"annotations": {TOUCH_ANNOTATION: str(self._touches)}}}).encode()
        for service in await self._list(SERVICES):
            await self._client.patch(SERVICES, key_of(service), body, patch_type=MERGE_PATCH)
        self.last_change_seconds = self._clock.monotonic()

    async def collect_garbage(self) -> int:
        """Delete slices whose service no longer exists, as a cluster's garbage collector would; return their number.

        Which of them exist is random if a service was deleted before its controllers noticed it. Slices of our controllers
        that lost their owner reference by a manual edit are identified by their label.
        """
        services = await self._list(SERVICES)
        uids = {service.metadata.uid for service in services}
        keys = {key_of(service) for service in services}
        garbage = [
            slice_
            for slice_ in await self._list(ENDPOINT_SLICES)
            if slice_.metadata.deletion_timestamp is None and _is_garbage(slice_, uids, keys)
        ]
        for slice_ in garbage:
            with contextlib.suppress(NotFoundError):
                await self._client.delete(ENDPOINT_SLICES, key_of(slice_), uid=slice_.metadata.uid)
        return len(garbage)

    async def _filled_in(self, operation: Operation) -> bytes:
        body = operation.body
        for service in set(_UID.findall(body)):
            found = await self._client.get(SERVICES, ObjectKey(operation.namespace, service))
            body = body.replace(f"$(uid:{service})", found.metadata.uid)
        return body.encode()


def _is_garbage(slice_: EndpointSlice, uids: set[str], keys: set[ObjectKey]) -> bool:
    owners = slice_.metadata.owner_references
    if owners:
        return not any(owner.uid in uids for owner in owners)
    labels = slice_.metadata.labels or {}
    service = ObjectKey(slice_.metadata.namespace, labels.get(SERVICE_NAME_LABEL, ""))
    return labels.get(MANAGED_BY_LABEL) == MANAGED_BY_ENDPOINTSLICE_CONTROLLER and service not in keys


async def while_watching(sides: Sequence[Side], body: Callable[[], Awaitable[T]]) -> T:
    """Run ``body`` and return its result, observing the writes to the clusters while it runs."""
    try:
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(side.follow(resource), name=f"{side.name} {resource.plural}")
                for side in sides
                for resource in (ENDPOINTS, ENDPOINT_SLICES)
            ]
            result = await body()
            for follower in followers:
                follower.cancel()
    except BaseExceptionGroup as group_of_errors:
        if len(group_of_errors.exceptions) == 1:
            raise group_of_errors.exceptions[0] from None
        raise
    return result


async def come_to_rest(sides: Sequence[Side], seconds: float, clock: Clock) -> None:
    """Wait until no operation and no write has happened on any cluster for ``seconds``, inside :func:`while_watching`.

    Raises ControllersError if this never happens, or if controllers have exited.
    """
    deadline = clock.monotonic() + _RESTLESS_SECONDS
    while True:
        for side in sides:
            if side.exit_report is not None:
                raise ControllersError(side.exit_report)
        missing = max(side.last_change_seconds for side in sides) + seconds - clock.monotonic()
        if missing <= 0:
            return
        if clock.monotonic() > deadline:
            raise ControllersError(f"still being written to {_RESTLESS_SECONDS:g} s after the last operation")
        await clock.sleep(missing)
