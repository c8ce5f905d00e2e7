"""Replicas that compete for a lease, constant changes of pods, a connection that can be cut, and the history of writes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from aiokube.api.core import PODS
from aiokube.api.discovery import ENDPOINT_SLICES, SERVICE_NAME_LABEL
from aiokube.api.meta import ObjectKey
from aiokube.client.rest import MERGE_PATCH, Client
from aiokube.clock import SystemClock
from tests.cluster.audit import AuditLog, Write
from tests.differential.example import pod, pod_runs
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.kubeconfig import write_kubeconfig
from tinykube.testing.processes import ChildProcess

CLOCK = SystemClock()
PODS_OF_SERVICE = 12
FLIP_SECONDS = 0.03
_RUNNING = re.compile(r"\brunning\b.*controllers=")
RESOURCES = ("endpoints", "endpointslices")


def grant(plane: ControlPlane, users: Sequence[str]) -> None:
    """Grant users the permissions of the guide."""
    api = "rbac.authorization.k8s.io"
    read, write = ["list", "watch"], ["create", "update", "delete"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": read},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", *read]},
        {"apiGroups": [""], "resources": ["services/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["endpoints"], "verbs": ["get", *read, *write]},
        {"apiGroups": [""], "resources": ["endpoints/restricted"], "verbs": ["create"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", *read, *write]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    ]
    name = {"name": "endpointd-replica"}
    role = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "endpointd-replica"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user} for user in users],
    }
    both = {"apiVersion": "v1", "kind": "List", "items": [role, binding]}
    plane.kubectl("apply", "-f", "-", document=json.dumps(both))


async def until(condition: Callable[[], object], *, within: float, what: str) -> None:
    """Wait until the condition holds, without blocking the loop."""
    deadline = CLOCK.monotonic() + within
    while not condition():
        assert CLOCK.monotonic() < deadline, f"not {what} after {within:g} s"
        await CLOCK.sleep(0.02)


class Churn:
    """A service whose pods change readiness one after the other, without pause, and its expected state."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = self._node = namespace
        self._client = Client.from_config(plane.client_config(), clock=CLOCK, user_agent="churn")
        self._ready = dict.fromkeys(range(PODS_OF_SERVICE), True)
        self._going = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Change readiness during the block."""
        await self._create()
        try:
            async with self._client, asyncio.TaskGroup() as group:
                task = group.create_task(self._flip(), name="churn")
                try:
                    yield
                finally:
                    task.cancel()
        finally:
            here = f"--namespace={self._namespace}"
            self._plane.kubectl("delete", "node", self._node)
            self._plane.kubectl("delete", here, "pods", "--all", "--grace-period=0", "--force")
            self._plane.kubectl("delete", here, "services,endpoints,endpointslices", "--all")

    async def _create(self) -> None:
        self._plane.kubectl("create", "namespace", self._namespace)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}}
        self._plane.kubectl("create", "-f", "-", document=json.dumps(node))
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }
        self._plane.kubectl(
            "create", f"--namespace={self._namespace}", "-f", "-", document=json.dumps(service)
        )
        for number in self._ready:
            created, runs = pod(
                self._namespace, f"web-{number}", {"app": "web"}, node=self._node, ips=[self._ip(number)]
            )
            path = PODS.path(self._namespace)
            await self._client.request("POST", path, body=created.body.encode())
            await self._say(number, runs.body)

    def _ip(self, number: int) -> str:
        return f"10.77.0.{number + 1}"

    async def _say(self, number: int, body: str) -> None:
        key = ObjectKey(self._namespace, f"web-{number}")
        await self._client.patch(PODS, key, body.encode(), patch_type=MERGE_PATCH, subresource="status")

    async def _flip(self) -> None:
        number = 0
        while self._going:
            number = (number + 1) % PODS_OF_SERVICE
            self._ready[number] = not self._ready[number]
            body = pod_runs(
                self._namespace, f"web-{number}", [self._ip(number)], ready=self._ready[number]
            ).body
            await self._say(number, body)
            await CLOCK.sleep(FLIP_SECONDS)
        self._going = True

    async def rest(self) -> None:
        """Stop after the current change."""
        self._going = False
        await until(lambda: self._going, within=10, what="at rest")

    async def published(self) -> dict[str, bool]:
        """Return the readiness of all addresses in the slices; each may be listed only once."""
        page = await self._client.list_page(
            ENDPOINT_SLICES, namespace=self._namespace, label_selector=f"{SERVICE_NAME_LABEL}=web"
        )
        found = [
            (endpoint.addresses[0], bool(endpoint.conditions.ready))
            for item in page.items
            for endpoint in item.endpoints or ()
        ]
        assert len({address for address, _ in found}) == len(found), found
        return dict(found)

    async def assert_published(self, within: float = 5.0) -> None:
        """Wait until the slices match the pods."""
        wanted = {self._ip(number): ready for number, ready in self._ready.items()}
        deadline = CLOCK.monotonic() + within
        while (found := await self.published()) != wanted:
            assert CLOCK.monotonic() < deadline, (wanted, found)
            await CLOCK.sleep(0.1)


class Relay:
    """A proxy to the API server that can be cut: it then drops all data without closing connections."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._is_cut = False
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Relay"]:
        async with asyncio.TaskGroup() as group:
            connections: list[asyncio.Task[None]] = []

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connections.append(group.create_task(self._serve(reader, writer), name="relay"))

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.close()
                for task in connections:
                    task.cancel()

    def cut(self) -> None:
        self._is_cut = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            if self._is_cut:
                await CLOCK.sleep(3600.0)
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            with closing(far_writer):
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, far_writer), name="relay-there")
                    group.create_task(self._pump(far_reader, writer), name="relay-back")

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(65536):
                if self._is_cut:
                    continue
                sink.write(chunk)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            if not self._is_cut:
                sink.close()


class Replicas:
    """Two or more ``endpointd run`` with different users, so that the audit log distinguishes them."""

    def __init__(
        self,
        plane: ControlPlane,
        command: Sequence[str],
        folder: Path,
        *,
        lease: str,
        times: tuple[float, float, float],
    ) -> None:
        self.plane = plane
        self.lease = lease
        self.times = times
        self._command = command
        self._folder = folder
        self._audit = AuditLog(plane.audit_log_path)
        self._writes: list[Write] = []
        self.processes: dict[str, ChildProcess] = {}

    def user(self, name: str) -> str:
        return f"{self.lease}-{name}"

    def start(self, name: str, *, port: int | None = None) -> ChildProcess:
        user = self.user(name)
        server = self.plane.url if port is None else f"https://127.0.0.1:{port}"
        kubeconfig = write_kubeconfig(
            self._folder / f"{user}.kubeconfig",
            server=server,
            certificate_authority=self.plane.certificate_authority,
            client_certificate=self.plane.client_certificate(user),
            user=user,
        )
        lease, renew, retry = self.times
        flags = [
            f"--kubeconfig={kubeconfig}",
            f"--leader-elect-resource-name={self.lease}",
            f"--leader-elect-lease-duration={lease}s",
            f"--leader-elect-renew-deadline={renew}s",
            f"--leader-elect-retry-period={retry}s",
        ]
        self.processes[name] = ChildProcess(
            user, [*self._command, *flags], log_path=self._folder / f"{user}.log"
        )
        return self.processes[name]

    def start_upstream(self, name: str) -> ChildProcess:
        """Start kube-controller-manager with the same controllers and lease; it releases the lease on SIGTERM."""
        kubeconfig = self.plane.kubeconfig_for(self.user(name), ["system:masters"])
        lease, renew, retry = self.times
        flags = [
            f"--kubeconfig={kubeconfig}",
            "--controllers=endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller",
            "--leader-elect=true",
            f"--leader-elect-resource-name={self.lease}",
            f"--leader-elect-lease-duration={lease}s",
            f"--leader-elect-renew-deadline={renew}s",
            f"--leader-elect-retry-period={retry}s",
            "--secure-port=0",
            "--use-service-account-credentials=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true",
            "--v=4",
        ]
        self.processes[name] = ChildProcess(
            self.user(name),
            [self.plane.assets / "kube-controller-manager", *flags],
            log_path=self._folder / f"{self.user(name)}.log",
            directory=self._folder,
        )
        return self.processes[name]

    def record(self) -> dict[str, Any]:
        """Return the current spec of the lease."""
        lease = self.plane.kubectl("get", "lease", "-n", "kube-system", self.lease, "-o", "json")
        spec: dict[str, Any] = json.loads(lease)["spec"]
        return spec

    async def leads(self, name: str, *, within: float = 20.0) -> None:
        """Wait until the replica logs that it leads."""
        process = self.processes[name]
        await until(lambda: _RUNNING.search(process.log()), within=within, what=f"{name} leading")

    async def waits(self, name: str) -> None:
        """Wait until the replica logs which leader it waits for."""
        process = self.processes[name]
        await until(lambda: "is held by" in process.log(), within=20, what=f"{name} waiting")

    def kill_all(self) -> None:
        for process in self.processes.values():
            process.kill()

    def writes(self, resources: Sequence[str] = RESOURCES) -> list[Write]:
        """Return the writes of the replicas so far, in the order of receipt."""
        self._writes += self._audit.new_writes([*RESOURCES, "leases"])
        ours = [write for write in self._writes if write.user.startswith(f"{self.lease}-")]
        return sorted((write for write in ours if write.resource in resources), key=received)

    def wrote(self, name: str, *, since: datetime | None = None) -> bool:
        user = self.user(name)
        return any(
            write.user == user and (since is None or received(write) >= since) for write in self.writes()
        )

    def takeover_seconds(self, successor: str, begun: datetime) -> float:
        """Return the seconds until the successor's first write."""
        first = next(write for write in self.writes() if write.user == self.user(successor))
        return (received(first) - begun).total_seconds()

    def assert_never_two(self, *order: str) -> None:
        """Assert that all writes of each leader precede those of its successor and fall within its lease."""
        writes = self.writes()
        writers = [write.user for write in writes]
        changes = [user for index, user in enumerate(writers) if index == 0 or writers[index - 1] != user]
        assert changes == [self.user(name) for name in order]
        renewed = [write for write in self.writes(["leases"]) if write.code < 300]
        # The server receives a write shortly after the fence admitted it, and a renewal after it was sent.
        allowed = timedelta(seconds=self.times[1] + 0.5)
        for write in writes:
            last = [
                received(renewal)
                for renewal in renewed
                if renewal.user == write.user and received(renewal) <= received(write)
            ]
            assert last, f"{write} of {write.user} without a lease"
            assert received(write) - last[-1] <= allowed, f"{write} of {write.user} after its lease"


def received(write: Write) -> datetime:
    """Return when the API server received a request."""
    return datetime.fromisoformat(write.received)
