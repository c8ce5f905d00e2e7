r"""A Kubernetes API for tests: the embedded server, started in milliseconds, reached by any client, gone afterwards.

::

    with running_api_server() as server:  # in a thread of its own: for clients that block
        server.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        kubernetes.config.load_kube_config(str(server.kubeconfig_path))

    async with running_api_server() as server:  # in the running loop
        await server.apply(...)

pytest users have it as the fixtures of :mod:`tinykube.pytest_plugin`.
"""

import asyncio
import random
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import Registry
from tinykube.server.settings import ServerSettings
from tinykube.simulate.settings import SimulateSettings
from tinykube.simulate.simulation import run_simulation
from tinykube.testing.objects import Json, Manifests, Objects

T = TypeVar("T")

DEFAULT_SETTINGS = ServerSettings(shutdown_seconds=1.0)
"""In memory, on a free port of 127.0.0.1; requests under way at the end are waited for, for a second."""

FAST_PODS = SimulateSettings(speed=100.0)
"""Three nodes, and pods that live a hundred times as fast as real ones: ready in a tenth of a second."""


class ApiServerAccess:
    """How a server under test is reached. It belongs to the block that started it: afterwards nobody answers."""

    def __init__(self, server: ApiServer, token: str, folder: "_Folder") -> None:
        self._server = server
        self._folder = folder
        self.token = token
        """The bearer token that may do everything."""

    @property
    def url(self) -> str:
        """``https://127.0.0.1:PORT``."""
        return self._server.url

    @property
    def certificate_authority(self) -> bytes:
        """The certificate (PEM) to trust."""
        return self._server.authority

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for the server. It holds the token."""
        return self._server.kubeconfig()

    @property
    def kubeconfig_path(self) -> Path:
        """A file with :meth:`kubeconfig` (mode 0600), written when first asked for, removed with the server."""
        path = self._folder.path() / "kubeconfig"
        if not path.exists():
            self._server.write_kubeconfig(path)
        return path

    def client_config(self) -> ClusterConfig:
        """Return what :class:`aiokube.client.rest.Client` needs."""
        return ClusterConfig(
            server=self.url,
            tls=TlsConfig(ca_data=self.certificate_authority),
            credentials=StaticCredentials(Credential(authorization=bearer(self.token))),
            origin="the API server under test",
        )


class LoopApiServer(ApiServerAccess):
    """A server in the running loop; helpers are coroutines, and raise :class:`aiokube.client.errors.ApiError`.

    A client that blocks the loop would wait for ever: use ``with`` for those.
    """

    def __init__(self, server: ApiServer, token: str, folder: "_Folder", client: Client) -> None:
        super().__init__(server, token, folder)
        self.client = client
        """Our own client, connected."""
        self.objects = Objects(client)

    async def apply(self, *manifests: Manifests) -> list[Json]:
        """Put manifests on the server; see :meth:`tinykube.testing.objects.Objects.apply`."""
        return await self.objects.apply(*manifests)

    async def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object. Raises NotFoundError."""
        return await self.objects.get(api_version, kind, name, namespace)

    async def list_all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind, of all namespaces without one."""
        return await self.objects.list_all(api_version, kind, namespace)

    async def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object, pods at once."""
        await self.objects.delete(api_version, kind, name, namespace)

    async def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace nobody else uses, and return its name."""
        return await self.objects.new_namespace(prefix)

    async def run_pod(self, name: str, namespace: str = "default", **status: Any) -> Json:
        """Have a pod run; see :meth:`tinykube.testing.objects.Objects.run_pod`."""
        return await self.objects.run_pod(name, namespace, **status)

    @asynccontextmanager
    async def simulated_pods(self, settings: SimulateSettings = FAST_PODS) -> AsyncIterator[None]:
        """Have nodes, and pods and workloads that live on them, for as long as the block lasts; see tinykube.simulate."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_simulation(self.client, settings, stop), name="simulated pods")
            try:
                yield
            finally:
                stop.set()


class ThreadApiServer(ApiServerAccess):
    """A server in a thread of its own; helpers block, and raise :class:`aiokube.client.errors.ApiError`.

    They may be called from any thread but the server's.
    """

    def __init__(self, inner: LoopApiServer, loop: asyncio.AbstractEventLoop, folder: "_Folder") -> None:
        super().__init__(inner._server, inner.token, folder)  # noqa: SLF001 - the same server
        self._inner = inner
        self._loop = loop

    def apply(self, *manifests: Manifests) -> list[Json]:
        """Put manifests on the server; see :meth:`tinykube.testing.objects.Objects.apply`."""
        return self._wait(self._inner.apply(*manifests))

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object. Raises NotFoundError."""
        return self._wait(self._inner.get(api_version, kind, name, namespace))

    def list_all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind, of all namespaces without one."""
        return self._wait(self._inner.list_all(api_version, kind, namespace))

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object, pods at once."""
        self._wait(self._inner.delete(api_version, kind, name, namespace))

    def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace nobody else uses, and return its name."""
        return self._wait(self._inner.new_namespace(prefix))

    def run_pod(self, name: str, namespace: str = "default", **status: Any) -> Json:
        """Have a pod run; see :meth:`tinykube.testing.objects.Objects.run_pod`."""
        return self._wait(self._inner.run_pod(name, namespace, **status))

    @contextmanager
    def simulated_pods(self, settings: SimulateSettings = FAST_PODS) -> Iterator[None]:
        """Have nodes, and pods and workloads that live on them, for as long as the block lasts; see tinykube.simulate."""
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
    """A server for the block: ``with`` gives a :class:`ThreadApiServer`, ``async with`` a :class:`LoopApiServer`.

    It is ready when the block begins, and fresh: what a cluster has at its start, nothing else. It listens on loopback
    alone (ValueError for settings that say otherwise). At the end connections are closed, the thread is joined, files are
    removed; an error that ended the server early is raised then.
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
            raise ValueError("a server under test listens on loopback alone: leave out allow_remote")
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
            client = await stack.enter_async_context(
                Client.from_config(config, clock=self._clock or SystemClock())
            )
            self._stack = stack.pop_all()
        return LoopApiServer(server, self._token, folder, client)

    async def __aexit__(self, *exception: object) -> None:
        """Stop, in order."""
        await self._stack.aclose()

    def __enter__(self) -> ThreadApiServer:
        """Start in a thread."""
        self._thread = _ServerThread(self)
        return self._thread.begin()

    def __exit__(self, *exception: object) -> None:
        """Stop, in order."""
        if self._thread is not None:
            self._thread.end()


class _ServerThread:
    """The thread of a server: its loop ends with it."""

    def __init__(self, running: running_api_server) -> None:
        self._running = running
        self._ready = threading.Event()
        self._server: ThreadApiServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="API server under test", daemon=True)

    def begin(self) -> ThreadApiServer:
        """Return the server when it answers; raise what keeps it from that."""
        self._thread.start()
        self._ready.wait()
        if self._server is None:
            self.end()
            raise RuntimeError("the server has ended before it was ready")
        return self._server

    def end(self) -> None:
        """Stop the server and wait for its end; raise what ended it, if that was not this."""
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
    """A folder for the server's files, made when it is first needed."""

    def __init__(self) -> None:
        self._path: Path | None = None

    def path(self) -> Path:
        """Return it (mode 0700)."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="endpointd-apiserver-"))
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
    "LoopApiServer",
    "ThreadApiServer",
    "running_api_server",
]
