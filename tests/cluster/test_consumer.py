"""A consumer's state always equals the API server's history, for slices of any controller.

A workload runs on a real control plane, with external edits of slices, while the consumers' connections are cut
repeatedly. A plain watch records the history. Every reported state is then compared with the result of applying the
rules to the slices at that resource version.
"""

import asyncio
import contextlib
import dataclasses
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Self
from urllib.parse import urlsplit

import pytest
from tests.unit.discovery.model import Fact, Map, fact_of, model_map

from aiokube.api.discovery import ENDPOINT_SLICES, SERVICE_NAME_LABEL, EndpointSlice
from aiokube.api.endpoints import HEADLESS_LABEL
from aiokube.api.meta import ObjectKey, version_number
from aiokube.api.resource import Bookmark, WatchError, WatchEvent
from aiokube.backoff import ExponentialBackoff
from aiokube.client.rest import Client
from aiokube.clock import SystemClock
from aiokube.discovery import (
    LiveService,
    ServiceEndpoints,
    ServiceMap,
    ServicePortName,
    watch_service,
    watch_services,
)
from aiokube.runtime.reflector_settings import NotSyncedError, ReflectorSettings
from docs.guide.examples import consumer_changes
from tests.differential.cluster_under_test import (
    Side,
    Starter,
    come_to_rest,
    endpointd,
    upstream,
    while_watching,
)
from tests.differential.operations import Batch, Operation, document
from tests.differential.workload import WorkloadOptions, generate
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

CLOCK = SystemClock()
OPERATIONS = 300
FOLLOWED = 6
BUSY, BUSY_PODS = "busy", 12
CUT_EVERY = 10  # operations
REST_SECONDS = 0.2
SETTINGS = ReflectorSettings(backoff=ExponentialBackoff(base_seconds=0.05, cap_seconds=0.2, jitter=0.5))

Said = tuple[int, ServicePortName, dict[str, Fact]]
"""The resource version, the service port, and its endpoints by address."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A separate control plane: the nodes created here would affect the comparison tests."""
    with ControlPlane() as plane:
        yield plane


class History:
    """The slices of all namespaces as watched, one write after the other."""

    def __init__(self) -> None:
        self.events: list[WatchEvent[EndpointSlice]] = []
        self.start: dict[ObjectKey, EndpointSlice] = {}
        self.version = 0

    async def record(self, client: Client) -> None:
        async with client.watch(ENDPOINT_SLICES, resource_version=str(self.version)) as batches:
            async for batch in batches:
                for event in batch:
                    assert not isinstance(event, WatchError), event
                    if isinstance(event, Bookmark):
                        continue
                    self.events.append(event)
                    self.version = version_number(event.item.metadata.resource_version)

    async def begin(self, client: Client) -> None:
        page = await client.list_page(ENDPOINT_SLICES)
        self.start = {endpoint_slice.metadata.key: endpoint_slice for endpoint_slice in page.items}
        self.version = version_number(page.resource_version)

    def states(self, versions: set[int]) -> Iterator[tuple[int, dict[ObjectKey, EndpointSlice]]]:
        """Yield the slices at each of these versions, in order."""
        now = dict(self.start)
        events = iter([*self.events, None])
        event = next(events)
        for version in sorted(versions):
            while event is not None and version_number(event.item.metadata.resource_version) <= version:
                if event.type == "DELETED":
                    now.pop(event.item.metadata.key, None)
                else:
                    now[event.item.metadata.key] = event.item
                event = next(events)
            yield version, now


class Cutter:
    """A proxy to the API server that can cut all its connections."""

    def __init__(self, plane: ControlPlane) -> None:
        self._target = urlsplit(plane.url).port
        self._config = plane.client_config()
        self._open: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def client(self) -> Client:
        port = self._server.sockets[0].getsockname()[1]
        config = dataclasses.replace(self._config, server=f"https://127.0.0.1:{port}")
        return Client.from_config(config, clock=CLOCK)

    def cut(self) -> None:
        self.cuts += 1
        for writer in list(self._open):
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer))
                group.create_task(self._pump(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Witness:
    """Records every state that the consumers report."""

    def __init__(self) -> None:
        self.of_services: list[Said] = []
        self.of_map: list[tuple[int, Map]] = []
        """Contents of the map, by existing service port."""
        self.of_changes: list[tuple[int, Map]] = []
        """The result of applying the map's reported changes in order."""

    async def follow(self, live: LiveService) -> None:
        last = 0
        async for endpoints in live:
            version = version_number(live.resource_version)
            assert version >= last
            last = version
            if not endpoints.problem:
                self.of_services.append((version, endpoints.name, facts(endpoints)))

    async def follow_map(self, services: ServiceMap) -> None:
        known: Map = {}
        async for changes in services.changes():
            slices = services.statistics().informers[1]
            version = version_number(slices.store.resource_version)
            self.of_map.append((version, {name: facts(found) for name, found in services.snapshot().items()}))
            for name, found in changes.endpoints["IPv4"].ports.items():
                port = known[name] = dict(known.get(name, {}))
                for each in found.added:
                    assert each.address not in port
                    port[each.address] = fact_of(each)
                for was, now in found.changed:
                    assert port[was.address] == fact_of(was)
                    port[now.address] = fact_of(now)
                for each in found.removed:
                    assert port.pop(each.address) == fact_of(each)
                if not port:
                    del known[name]
            self.of_changes.append((version, dict(known)))

    def check(self, history: History) -> None:
        """Compare every recorded state with the rules applied to the slices of its version."""
        versions = {version for version, *_ in self.of_services}
        versions |= {version for version, _ in (*self.of_map, *self.of_changes)}
        maps = {version: model_map_of(slices) for version, slices in history.states(versions)}
        for version, name, found in self.of_services:
            assert found == maps[version][False].get(name, {}), f"{name} at {version}"
        for version, found_map in self.of_map:
            for name, found in found_map.items():
                assert found == maps[version][True].get(name, {}), f"{name} in the map at {version}"
        for version, known in self.of_changes:
            assert known == maps[version][True], f"all changes up to {version}"


def model_map_of(slices: dict[ObjectKey, EndpointSlice]) -> dict[bool, Map]:
    """The expected maps: of all slices, and (True) without those of headless services."""
    proxied = {
        key: endpoint_slice
        for key, endpoint_slice in slices.items()
        if HEADLESS_LABEL not in (endpoint_slice.metadata.labels or {})
    }
    return {
        False: model_map({str(key): endpoint_slice for key, endpoint_slice in slices.items()}, "IPv4"),
        True: model_map({str(key): endpoint_slice for key, endpoint_slice in proxied.items()}, "IPv4"),
    }


def facts(endpoints: ServiceEndpoints) -> dict[str, Fact]:
    return {each.address: fact_of(each) for each in endpoints.endpoints}


def busy_service(namespace: str) -> list[Operation]:
    """A service with a dozen pods on a separate node, in the same namespace."""
    node_name = f"{BUSY}-{namespace}"  # pods without an existing node are not published
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name}}
    spec = {"selector": {"app": BUSY}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": BUSY}, "spec": spec}
    found = [
        Operation("create", "nodes", "", node_name, document(node)),
        Operation("create", "services", namespace, BUSY, document(service)),
    ]
    for number in range(BUSY_PODS):
        name = f"{BUSY}-{number}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": BUSY}},
            "spec": {"nodeName": node_name, "containers": [{"name": "main", "image": "none"}]},
        }
        found.append(Operation("create", "pods", namespace, name, document(pod)))
        found.append(flip(namespace, number, ready=True))
    return found


def flip(namespace: str, number: int, *, ready: bool) -> Operation:
    """Change the readiness of a pod of the busy service."""
    ip = f"10.200.{len(namespace)}.{number + 1}"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}
    return Operation("patch-status", "pods", namespace, f"{BUSY}-{number}", document({"status": status}))


def ports_in(life: tuple[Batch, ...]) -> list[tuple[str, str]]:
    """The most frequently created services of a workload, as namespace/name and port name."""
    found: Counter[tuple[str, str]] = Counter()
    for batch in life:
        for operation in batch.operations:
            if operation.verb == "create" and operation.resource == "services":
                ports = json.loads(operation.body)["spec"].get("ports") or []
                if ports:
                    found[f"{operation.namespace}/{operation.name}", ports[0].get("name", "")] += 1
    return [service for service, _ in found.most_common(FOLLOWED)]


@contextlib.asynccontextmanager
async def watching(
    cutter: Cutter, followed: list[tuple[str, str]], witness: Witness
) -> AsyncIterator[list[asyncio.Task[None]]]:
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(cutter.client())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        services = await stack.enter_async_context(
            watch_services(client, families=["IPv4"], settings=SETTINGS, rng=random.Random(1))
        )
        tasks = [group.create_task(witness.follow_map(services), name="map")]
        for name, port in followed:
            live = await stack.enter_async_context(
                watch_service(client, name, port=port, family="IPv4", settings=SETTINGS, rng=random.Random(1))
            )
            tasks.append(group.create_task(witness.follow(live), name=name))
        yield tasks


@pytest.mark.parametrize(("who", "seed"), [("kube-controller-manager", 31), ("endpointd", 32)])
async def test_every_view_of_a_service_is_a_state_of_its_history(
    who: str,
    seed: int,
    plane: ControlPlane,
    endpointd_command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    starter: Starter = (
        upstream() if who == "kube-controller-manager" else endpointd(command=endpointd_command)
    )
    options = WorkloadOptions(prefix=f"consumer{seed}")
    life = generate(seed, OPERATIONS, options)
    namespace = options.namespace_names[0]
    chance = random.Random(seed)
    side = Side(who, plane, starter, options.namespace_names)
    history, witness = History(), Witness()

    async def lead(cutter: Cutter) -> None:
        applied = 0
        for operation in busy_service(namespace):
            assert await side.apply(operation, {}) == "ok"
        for batch in life:
            resolved = await side.resolve(batch.operations)
            for operation in batch.operations:
                await side.apply(operation, resolved)
                await side.apply(
                    flip(namespace, chance.randrange(BUSY_PODS), ready=chance.random() < 0.5), {}
                )
                applied += 1
                if applied % CUT_EVERY == 0:
                    cutter.cut()
            await CLOCK.sleep(REST_SECONDS)
        await come_to_rest([side], 1.5, CLOCK)

    async def scenario() -> None:
        async with (
            Client.from_config(plane.client_config(), clock=CLOCK) as client,
            Cutter(plane) as cutter,
            asyncio.TaskGroup() as group,
        ):
            await history.begin(client)
            recorder = group.create_task(history.record(client), name="recorder")
            async with watching(cutter, [(f"{namespace}/{BUSY}", "http"), *ports_in(life)], witness):
                await lead(cutter)
            recorder.cancel()
            assert cutter.cuts > OPERATIONS // CUT_EVERY - 1

    try:
        await side.open()
        await while_watching([side], scenario)
    finally:
        await side.close()
    witness.check(history)
    end = max(version for version, _ in witness.of_map)
    assert witness.of_changes[-1][1] == model_map_of(next(history.states({history.version}))[1])[True]
    with capsys.disabled():
        print(
            f"\n  {who}: {len(history.events)} writes to slices; {len(witness.of_services)} views of "
            f"{FOLLOWED + 1} services and {len(witness.of_map)} of all, up to {end}, were as the history held them",
            flush=True,
        )
    assert len(witness.of_services) > 30
    assert len(witness.of_map) > 30


ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
"""
BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
"""


def slice_yaml(name: str, ip: str, labels: str) -> str:
    return f"""
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, labels: {labels}}}
addressType: IPv4
endpoints: [{{addresses: ["{ip}"]}}]
ports: [{{name: http, port: 8080}}]
"""


async def test_a_kubeconfig_and_permission_to_list_and_watch_are_sufficient(
    plane: ControlPlane,
) -> None:
    """Label selectors are evaluated by the server: a slice that no longer matches disappears (C-3)."""
    namespace = f"consumer-{random.SystemRandom().randrange(10**8)}"

    def kubectl(*arguments: str, document: str | None = None) -> None:
        plane.kubectl("-n", namespace, *arguments, document=document)

    plane.kubectl("create", "namespace", namespace)
    for text in (ROLE, BINDING, slice_yaml("ours", "10.9.0.1", f"{{{SERVICE_NAME_LABEL}: web}}")):
        kubectl("apply", "-f", "-", document=text)
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    kubectl("patch", "service", "web", "-p", '{"spec":{"selector":null,"ports":[{"port":80,"name":"http"}]}}')
    path = plane.kubeconfig_for("reader")
    name = ServicePortName(namespace, "web", "http")
    async with (
        asyncio.timeout(30.0),
        watch_service(path, f"{namespace}/web", port="http", settings=SETTINGS) as live,
        watch_services(plane.kubeconfig_path, settings=SETTINGS) as services,
    ):

        async def until(ips: list[str], in_map: list[str] | None) -> None:
            while True:
                found = services.get(name)
                mapped = None if found is None else [each.ip for each in found.usable]
                if [each.ip for each in live.current.usable] == ips and mapped == in_map:
                    return
                await CLOCK.sleep(0.02)

        await until(["10.9.0.1"], ["10.9.0.1"])
        theirs = slice_yaml("theirs", "10.9.0.2", f"{{{SERVICE_NAME_LABEL}: other}}")
        kubectl("apply", "-f", "-", document=theirs)
        kubectl("label", "endpointslice", "theirs", "--overwrite", f"{SERVICE_NAME_LABEL}=web")
        await until(["10.9.0.1", "10.9.0.2"], ["10.9.0.1", "10.9.0.2"])
        kubectl("label", "endpointslice", "ours", f"{HEADLESS_LABEL}=")
        await until(["10.9.0.1", "10.9.0.2"], ["10.9.0.2"])
        kubectl("label", "service", "web", "service.kubernetes.io/service-proxy-name=other")
        await until(["10.9.0.1", "10.9.0.2"], None)
        kubectl("label", "service", "web", "service.kubernetes.io/service-proxy-name-")
        kubectl("label", "endpointslice", "ours", f"{HEADLESS_LABEL}-")
        await until(["10.9.0.1", "10.9.0.2"], ["10.9.0.1", "10.9.0.2"])
        kubectl("label", "endpointslice", "theirs", f"{SERVICE_NAME_LABEL}-")
        await until(["10.9.0.1"], ["10.9.0.1"])


async def test_a_missing_watch_permission_is_named(plane: ControlPlane) -> None:
    path = plane.kubeconfig_for("nobody-in-particular")
    with pytest.raises(NotSyncedError, match=r"nobody-in-particular.*cannot (list|watch)"):
        async with watch_service(path, "default/kubernetes", timeout_seconds=2.0, settings=SETTINGS):
            pass


async def test_the_program_of_the_guide_prints_the_endpoints_of_the_api_server(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-apiserver publishes ``default/kubernetes`` and its slice on any cluster."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig_path))
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if line.startswith("= default/kubernetes:https/TCP forward to 1"):
            enough.set()

    enough = asyncio.Event()
    async with asyncio.timeout(20.0), asyncio.TaskGroup() as group:
        running = group.create_task(consumer_changes.run("", tell), name="the program")
        await enough.wait()
        running.cancel()
    assert any(line.startswith("+ default/kubernetes:https/TCP ") for line in told)
