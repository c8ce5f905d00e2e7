r"""A Kubernetes API for tests: the embedded server, started for a block, for any client.

::

    with running_api_server() as server:  # in its own thread: for blocking clients
        server.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        kubernetes.config.load_kube_config(str(server.kubeconfig_path))

    async with running_api_server() as server:  # in the running event loop
        await server.apply(...)

:mod:`tinykube.pytest_plugin` provides pytest fixtures.
"""

import asyncio
import random
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from msgspec.structs import replace

from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from tinykube.server.api_server import ApiServer
from tinykube.server.certificates.files import write_private
from tinykube.server.http.faults import Faults
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import Registry
from tinykube.server.settings import ServerSettings
from tinykube.server.verbs.snapshot import Snapshot
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation import run_simulation
from tinykube.testing.objects import Json, Manifests, Objects

T = TypeVar("T")

DEFAULT_SETTINGS = ServerSettings(shutdown_seconds=1.0)
"""In-memory storage, a free port of 127.0.0.1; shutdown waits one second for open requests."""

FAST_PODS = SimulateSettings(speed=100.0)
"""Three nodes, and pods that run a hundred times faster than real ones: ready in a tenth of a second."""


class InCluster(NamedTuple):
    """The environment of a pod, for tests of in-cluster configuration. Removed with the server."""

    folder: Path
    """The contents of /var/run/secrets/kubernetes.io/serviceaccount: ``token``, ``ca.crt`` and ``namespace``."""
    environ: dict[str, str]
    """``KUBERNETES_SERVICE_HOST`` and ``KUBERNETES_SERVICE_PORT``."""


class ApiServerAccess:
    """Access to a server under test. Valid inside the block that started it."""

    def __init__(self, server: ApiServer, token: str, folder: "_Folder") -> None:
        self._server = server
        self._folder = folder
        self.token = token
        """The bearer token; it grants full access."""

    @property
    def url(self) -> str:
        """``https://127.0.0.1:PORT``."""
        return self._server.url

    @property
    def certificate_authority(self) -> bytes:
        """The CA certificate (PEM) to trust."""
        return self._server.authority

    @property
    def faults(self) -> Faults:
        """Fault injection: rejected, slow, lost and stale responses, and broken watches; none by default."""
        return self._server.faults

    def kubeconfig(self) -> str:
        """Return a kubeconfig for the server as text. It contains the token."""
        return self._server.kubeconfig()

    @property
    def kubeconfig_path(self) -> Path:
        """A file with :meth:`kubeconfig` (mode 0600), written on first access and removed with the server."""
        path = self._folder.path() / "kubeconfig"
        if not path.exists():
            self._server.write_kubeconfig(path)
        return path

    def _in_cluster(self, token: str, namespace: str) -> "InCluster":
        """Write the files that are mounted in a pod; return their location."""
        folder = Path(tempfile.mkdtemp(prefix="in-cluster-", dir=self._folder.path()))
        (folder / "ca.crt").write_bytes(self.certificate_authority)
        (folder / "namespace").write_text(namespace)
        write_private(folder / "token", token.encode())
        host, port = self.url.removeprefix("https://").rsplit(":", 1)
        return InCluster(
            folder, {"KUBERNETES_SERVICE_HOST": host.strip("[]"), "KUBERNETES_SERVICE_PORT": port}
        )

    def client_config(self) -> ClusterConfig:
        """Return the configuration for :meth:`aiokube.client.rest.Client.from_config`."""
        return ClusterConfig(
            server=self.url,
            tls=TlsConfig(ca_data=self.certificate_authority),
            credentials=StaticCredentials(Credential(authorization=bearer(self.token))),
            origin="the API server under test",
        )


class LoopApiServer(ApiServerAccess):
    """A server in the running event loop; its methods are coroutines and raise :class:`aiokube.client.errors.ApiError`.

    A blocking client in the same loop would deadlock: start the server with ``with`` for such clients.
    """

    def __init__(
        self, server: ApiServer, token: str, folder: "_Folder", client: Client, clock: Clock
    ) -> None:
        super().__init__(server, token, folder)
        self.client = client
        """A client connected to the server."""
        self.objects = Objects(client, clock=clock)

    async def apply(self, *manifests: Manifests) -> list[Json]:
        """Create or update objects; see :meth:`tinykube.testing.objects.Objects.apply`."""
        return await self.objects.apply(*manifests)

    async def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object. Raises NotFoundError."""
        return await self.objects.get(api_version, kind, name, namespace)

    async def wait_for(
        self,
        api_version: str,
        kind: str,
        name: str,
        condition: Callable[[Json], object],
        *,
        namespace: str = "default",
        timeout_seconds: float = 30.0,
    ) -> Json:
        """Return the object once ``condition`` is true for it; it need not exist yet. Raises TimeoutError."""
        return await self.objects.wait_for(
            api_version, kind, name, condition, namespace=namespace, timeout_seconds=timeout_seconds
        )

    async def list_all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind in a namespace, or in all namespaces."""
        return await self.objects.list_all(api_version, kind, namespace)

    async def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object without a grace period."""
        await self.objects.delete(api_version, kind, name, namespace)

    async def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace with a unique name, and return the name."""
        return await self.objects.new_namespace(prefix)

    async def run_pod(self, name: str, namespace: str = "default", **status: Any) -> Json:
        """Set the status of a pod as a kubelet would; see :meth:`tinykube.testing.objects.Objects.run_pod`."""
        return await self.objects.run_pod(name, namespace, **status)

    async def service_account_token(
        self,
        name: str = "default",
        namespace: str = "default",
        *,
        audiences: Sequence[str] = (),
        lifetime_seconds: int = 3600,
    ) -> str:
        """Return a new token of a service account; the account is created if it does not exist.

        Without ``audiences`` it is for the API. Raises InvalidError for a lifetime below ten minutes.
        """
        return await self.objects.service_account_token(name, namespace, audiences, lifetime_seconds)

    async def in_cluster(self, service_account: str = "default", namespace: str = "default") -> InCluster:
        """Return the files and environment variables of a pod with this service account."""
        return self._in_cluster(await self.service_account_token(service_account, namespace), namespace)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all objects, for :meth:`restore`."""
        return self._server.snapshot()

    async def restore(self, snapshot: Snapshot) -> int:
        """Restore all objects from a snapshot of this server; return the number of changes.

        Watches stay open and report the changes: DELETED for objects created since, ADDED for deleted ones, MODIFIED
        for changed ones. Resource versions grow; everything else is restored, including the uid. Finalizers and grace
        periods are ignored. Stop other writers first.
        """
        return await self._server.restore(snapshot)

    @asynccontextmanager
    async def simulated_pods(self, settings: SimulateSettings = FAST_PODS) -> AsyncIterator[None]:
        """Simulate nodes, workloads and pods for a block; see :mod:`tinykube.simulate`."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_simulation(self.client, settings, stop), name="simulated pods")
            try:
                yield
            finally:
                stop.set()


class ThreadApiServer(ApiServerAccess):
    """A server in its own thread; its methods block and raise :class:`aiokube.client.errors.ApiError`.

    Call them from any thread except the server's.
    """

    def __init__(self, inner: LoopApiServer, loop: asyncio.AbstractEventLoop, folder: "_Folder") -> None:
        super().__init__(inner._server, inner.token, folder)  # noqa: SLF001 - the same server
        self._inner = inner
        self._loop = loop

    def apply(self, *manifests: Manifests) -> list[Json]:
        """Create or update objects; see :meth:`tinykube.testing.objects.Objects.apply`."""
        return self._wait(self._inner.apply(*manifests))

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object. Raises NotFoundError."""
        return self._wait(self._inner.get(api_version, kind, name, namespace))

    def wait_for(
        self,
        api_version: str,
        kind: str,
        name: str,
        condition: Callable[[Json], object],
        *,
        namespace: str = "default",
        timeout_seconds: float = 30.0,
    ) -> Json:
        """Return the object once ``condition`` is true for it; it need not exist yet. Raises TimeoutError."""
        return self._wait(
            self._inner.wait_for(
                api_version, kind, name, condition, namespace=namespace, timeout_seconds=timeout_seconds
            )
        )

    def list_all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind in a namespace, or in all namespaces."""
        return self._wait(self._inner.list_all(api_version, kind, namespace))

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object without a grace period."""
        self._wait(self._inner.delete(api_version, kind, name, namespace))

    def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace with a unique name, and return the name."""
        return self._wait(self._inner.new_namespace(prefix))

    def run_pod(self, name: str, namespace: str = "default", **status: Any) -> Json:
        """Set the status of a pod as a kubelet would; see :meth:`tinykube.testing.objects.Objects.run_pod`."""
        return self._wait(self._inner.run_pod(name, namespace, **status))

    def service_account_token(
        self,
        name: str = "default",
        namespace: str = "default",
        *,
        audiences: Sequence[str] = (),
        lifetime_seconds: int = 3600,
    ) -> str:
        """Return a new token of a service account; the account is created if it does not exist.

        Without ``audiences`` it is for the API. Raises InvalidError for a lifetime below ten minutes.
        """
        return self._wait(
            self._inner.service_account_token(
                name, namespace, audiences=audiences, lifetime_seconds=lifetime_seconds
            )
        )

    def in_cluster(self, service_account: str = "default", namespace: str = "default") -> InCluster:
        """Return the files and environment variables of a pod with this service account."""
        return self._wait(self._inner.in_cluster(service_account, namespace))

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all objects, for :meth:`restore`."""

        async def take() -> Snapshot:
            return self._inner.snapshot()

        return self._wait(take())

    def restore(self, snapshot: Snapshot) -> int:
        """Restore all objects from a snapshot of this server; return the number of changes.

        Watches stay open and report the changes: DELETED for objects created since, ADDED for deleted ones, MODIFIED
        for changed ones. Resource versions grow; everything else is restored, including the uid. Finalizers and grace
        periods are ignored. Stop other writers first.
        """
        return self._wait(self._inner.restore(snapshot))

    @contextmanager
    def simulated_pods(self, settings: SimulateSettings = FAST_PODS) -> Iterator[None]:
        """Simulate nodes, workloads and pods for a block; see :mod:`tinykube.simulate`."""
        stop = asyncio.Event()
        running = asyncio.run_coroutine_threadsafe(
            run_simulation(self._inner.client, settings, stop), self._loop
        )
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            running.result()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class running_api_server:  # noqa: N801 - used as a function
    """Run a server for a block: ``with`` returns a :class:`ThreadApiServer`, ``async with`` a :class:`LoopApiServer`.

    The server is ready when the block starts, and contains only the objects of a new cluster. It listens on
    loopback (ValueError for other settings). Leaving the block closes connections, joins the thread, removes
    files and re-raises the error of a server that failed early.
    """

    def __init__(
        self,
        settings: ServerSettings = DEFAULT_SETTINGS,
        *,
        registry: Registry | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if settings.allow_remote:
            raise ValueError("a server under test listens only on loopback: remove allow_remote")
        self._token = settings.token or secrets.token_hex(16)
        self._settings = replace(settings, token=self._token)
        self._registry = registry
        self._clock = clock
        self._rng = rng
        self._stack = AsyncExitStack()
        self._thread: _ServerThread | None = None

    async def __aenter__(self) -> LoopApiServer:
        """Start in the running loop."""
        server = ApiServer(
            self._settings, self._registry or builtin_registry(), clock=self._clock, rng=self._rng
        )
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(_Folder())
            await stack.enter_async_context(server)
            config = ApiServerAccess(server, self._token, folder).client_config()
            clock = self._clock or SystemClock()
            client = await stack.enter_async_context(Client.from_config(config, clock=clock))
            self._stack = stack.pop_all()
        return LoopApiServer(server, self._token, folder, client, clock)

    async def __aexit__(self, *exception: object) -> None:
        """Stop the server and release its resources in reverse order."""
        await self._stack.aclose()

    def __enter__(self) -> ThreadApiServer:
        """Start in a new thread."""
        self._thread = _ServerThread(self)
        return self._thread.begin()

    def __exit__(self, *exception: object) -> None:
        """Stop the server and join its thread."""
        if self._thread is not None:
            self._thread.end()


class _ServerThread:
    """The thread of a server, with its own event loop."""

    def __init__(self, running: running_api_server) -> None:
        self._running = running
        self._ready = threading.Event()
        self._server: ThreadApiServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tinykube API server", daemon=True)

    def begin(self) -> ThreadApiServer:
        """Start the thread and return the server once it is ready; raise the error that prevented its start."""
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            self.end()
            raise RuntimeError("the server stopped before it was ready")
        return self._server

    def end(self) -> None:
        """Stop the server and join the thread; raise the error of a server that failed early."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._running as inner:
            self._server = ThreadApiServer(inner, self._loop, inner._folder)  # noqa: SLF001 - the same server
            self._ready.set()
            await self._stop.wait()


class _Folder:
    """A directory for the server's files, created on first use."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the directory (mode 0700)."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="tinykube-"))
        return self._path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


__all__ = [
    "DEFAULT_SETTINGS",
    "FAST_PODS",
    "ApiServerAccess",
    "InCluster",
    "LoopApiServer",
    "ThreadApiServer",
    "running_api_server",
]
