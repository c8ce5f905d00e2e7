"""The embedded API server, assembled from storage, verbs and HTTP: start, serve, graceful shutdown."""

import asyncio
import base64
import logging
import platform
import random
import secrets
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

from aiokube.clock import Clock, SystemClock
from tinykube.server.bootstrap import NAMESPACES, bootstrap
from tinykube.server.certificates.files import (
    ServingCertificate,
    kept_certificate,
    make_certificate,
    write_private,
)
from tinykube.server.certificates.token_signer import TokenSigner, kept_key, looks_signed, new_key
from tinykube.server.custom.customresourcedefinitions import custom_resource_definitions
from tinykube.server.custom.kinds import CustomKinds
from tinykube.server.custom.service import CustomPatches, CustomSchema, CustomSchemas
from tinykube.server.http.codec import encode_yaml
from tinykube.server.http.dispatch import Dispatcher, PublishedDocument
from tinykube.server.http.faults import Faults
from tinykube.server.http.identity import Identity
from tinykube.server.http.listener import Listener
from tinykube.server.http.openapi import OpenApi
from tinykube.server.http.pod_logs import LogSource
from tinykube.server.http.resources import Resources
from tinykube.server.http.streams import Streams
from tinykube.server.lifecycle.crd_controller import CrdController
from tinykube.server.lifecycle.manager import Lifecycle
from tinykube.server.lifecycle.namespace_defaults import NamespaceDefaults
from tinykube.server.loopback_client import LoopbackClient
from tinykube.server.objects import JsonObject
from tinykube.server.patch.service import TypedPatches
from tinykube.server.registry.definition import Registry, Strategy, UserInfo
from tinykube.server.registry.openapi import TypeOpenApi
from tinykube.server.registry.service_account_tokens import (
    ServiceAccountTokens,
    TokenError,
    token_definitions,
)
from tinykube.server.schema.decoder import TypedDecoder
from tinykube.server.schema.service import TypeSchema
from tinykube.server.settings import ServerSettings, is_token
from tinykube.server.storage.store import ObjectStorage, open_storage
from tinykube.server.verbs.context import Backend, Caller, new_request
from tinykube.server.verbs.reviews import REVIEWS
from tinykube.server.verbs.snapshot import Snapshot, restore_snapshot, take_snapshot

_LOG = logging.getLogger(__name__)

KUBERNETES_VERSION = "v1.36.3"
"""The Kubernetes release whose API is served, as reported to clients."""

_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}
"""Go's names of architectures."""
_TOKEN_FILE = "token"  # noqa: S105 - the name of the file
_TOKEN_BYTES = 32
_START = Caller(UserInfo("system:apiserver"))
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - used only if explicitly allowed
_SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class ApiServer:
    """A Kubernetes API server in this process: ``async with ApiServer(settings, registry) as server``.

    Inside the block it serves :attr:`url` over TLS to clients with the token of :meth:`kubeconfig`. With a
    data directory, every confirmed write is on disk. Leaving the block shuts down gracefully: no new
    connections, watches end, open requests finish, the log is closed. ``pod_logs`` provides the output of
    `kubectl logs`; without it there are no logs. Raises :class:`~.settings.SettingsError`, OSError if the
    address is in use, and StorageOpenError if the data cannot be read.
    """

    def __init__(
        self,
        settings: ServerSettings,
        registry: Registry,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        pod_logs: LogSource | None = None,
    ) -> None:
        settings.check()
        self._pod_logs = pod_logs
        self._settings = settings
        self._registry = registry
        for review in REVIEWS:
            registry.add(review)
        self._custom = CustomKinds(registry)
        registry.add(custom_resource_definitions(self._custom))
        self._tokens = ServiceAccountTokens(TokenSigner(self._signing_key), self._administrator)
        accounts = registry.get("", "v1", "serviceaccounts")
        for definition in () if accounts is None else token_definitions(self._tokens, accounts):
            registry.add(definition)
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random(secrets.randbits(64))  # noqa: S311 - names and uids; secrets come from secrets
        self.faults = Faults(lambda: 0 if self._backend is None else self._backend.storage.revision)
        """Faults on purpose, for tests of clients; none unless a test adds them."""
        self._closing = AsyncExitStack()
        self._streams = Streams(self._clock)
        self._is_ready = False
        self._port = 0
        self._token = ""
        self._certificate: ServingCertificate | None = None
        self._backend: Backend | None = None
        self._defaults: NamespaceDefaults | None = None
        self._identity: Identity
        self._listener: Listener | None = None

    # ------------------------------------------------------------------------------------- start and stop

    async def __aenter__(self) -> Self:
        """Start the server; return when it is ready."""
        try:
            await self._start()
        except BaseException:
            await self._closing.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop the server's components in reverse order."""
        await self._closing.aclose()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set."""
        async with self:
            await stop.wait()

    async def _start(self) -> None:
        settings = self._settings
        storage = open_storage(
            settings.data_dir, describe=self._registry.describe, clock=self._clock, settings=settings.storage
        )
        self._closing.push_async_callback(storage.aclose)
        self._certificate = self._serving_certificate()
        self._token = self._known_token()
        backend = self._backend = self._new_backend(storage)
        self._identity = Identity(self._token, settings.user, partial(self._service_account, backend))
        self._custom.attach(storage)
        self._load_strategies(backend)
        await self._start_lifecycle(backend)
        listener = self._listener = Listener(
            self._dispatcher(backend).handle, self._certificate.context(), settings.connections
        )
        self._closing.push_async_callback(self._stop_serving, listener)
        self._port = await listener.start(settings.host, settings.port)
        await bootstrap(backend, host=settings.host, port=self._port, service_ip=settings.service_ip)
        if self._defaults is not None:
            for namespace in NAMESPACES:  # there when the server is ready
                await self._defaults.sync(namespace)
        self._is_ready = True
        _LOG.info("the API server is ready at %s", self.url)

    async def _start_lifecycle(self, backend: Backend) -> None:
        """Start the background controllers; if one fails, the task that runs the server is cancelled with its error."""
        verbs = LoopbackClient(backend)
        group = await self._closing.enter_async_context(asyncio.TaskGroup())
        definitions = CrdController(
            backend.storage, self._custom, self._clock, delete=verbs.delete, update=verbs.update
        )
        task = group.create_task(definitions.run(), name="API server custom resource definitions")
        self._closing.callback(task.cancel)
        if not self._settings.lifecycle:
            return
        if self._settings.namespace_defaults:
            self._defaults = NamespaceDefaults(
                backend.storage, self._clock, verbs.create, verbs.update, self._started().authority
            )
        lifecycle = Lifecycle(
            backend.storage,
            self._registry,
            self._clock,
            delete=verbs.delete,
            update=verbs.update,
            finish_graceful_deletions=self._settings.finish_graceful_deletions,
            others=() if self._defaults is None else (self._defaults,),
        )
        task = group.create_task(lifecycle.run(), name="API server lifecycle")
        self._closing.callback(task.cancel)

    async def _stop_serving(self, listener: Listener) -> None:
        self._is_ready = False
        listener.stop_accepting()
        self._streams.close()
        await listener.aclose(self._settings.shutdown_seconds)

    def _new_backend(self, storage: ObjectStorage) -> Backend:
        return Backend(
            storage=storage,
            registry=self._registry,
            schema=CustomSchema(self._custom, TypeSchema()),
            patches=CustomPatches(self._custom, TypedPatches()),
            clock=self._clock,
            rng=self._rng,
        )

    def _dispatcher(self, backend: Backend) -> Dispatcher:
        return Dispatcher(
            registry=self._registry,
            resources=Resources(backend, TypedDecoder(), self._streams, self._pod_logs, self.faults),
            identity=self._identity,
            openapi=OpenApi(self._registry, TypeOpenApi(partial(CustomSchemas, self._custom))),
            documents={
                "/.well-known/openid-configuration": PublishedDocument(
                    "application/json", lambda: self._tokens.configuration(self.url)
                ),
                "/openid/v1/jwks": PublishedDocument("application/jwk-set+json", self._tokens.public_keys),
            },
            version=_version(),
            rng=self._rng,
            is_ready=lambda: self._is_ready,
            storage_problem=lambda: backend.storage.problem,
        )

    def _load_strategies(self, backend: Backend) -> None:
        """Report all stored objects to the strategies (for example, addresses in use) before serving."""
        for definition in self._registry.all():
            strategy = definition.strategy
            if definition.view is not None or type(strategy).after_create is Strategy.after_create:
                continue
            request = new_request(backend, _START, dry_run=False)
            for stored in backend.storage.heads_in(definition.storage_resource):
                strategy.after_create(request, stored.decode())

    def _serving_certificate(self) -> ServingCertificate:
        hosts = list(dict.fromkeys((self._settings.host, "localhost", "127.0.0.1", "::1", *_SERVICE_NAMES)))
        if self._settings.service_ip:
            hosts.append(self._settings.service_ip)
        hosts = [host for host in hosts if host not in _WILDCARDS]
        if self._settings.data_dir is None:
            return make_certificate(hosts, self._clock)
        return kept_certificate(self._settings.data_dir, hosts, self._clock)

    def _signing_key(self) -> bytes:
        data_dir = self._settings.data_dir
        return new_key() if data_dir is None else kept_key(data_dir)

    def _administrator(self, token: str) -> UserInfo | None:
        """Return the user of the server's own token."""
        caller = self._identity.caller(f"Bearer {token}", "") if not looks_signed(token) else None
        return None if caller is None else caller.user

    def _service_account(self, backend: Backend, token: str) -> UserInfo | None:
        """Return the service account that bears a token, None where the token is not valid."""
        try:
            identified = self._tokens.identify(backend.storage, self._clock.wall(), token)
        except TokenError as error:
            _LOG.debug("a token was refused: %s", error)
            return None
        return None if identified is None else identified.user

    def _known_token(self) -> str:
        settings = self._settings
        if settings.token is not None:
            return settings.token
        if settings.data_dir is None:
            return secrets.token_hex(_TOKEN_BYTES)
        path = settings.data_dir / _TOKEN_FILE
        try:
            token = path.read_text("ascii", errors="replace").strip()
        except FileNotFoundError:
            token = ""
        if not is_token(token):  # missing or damaged
            token = secrets.token_hex(_TOKEN_BYTES)
            write_private(path, token.encode())
        return token

    # ------------------------------------------------------------------------------------- access

    @property
    def port(self) -> int:
        """The port it listens on; 0 before the start."""
        return self._port

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = self._settings.host
        host = _WILDCARDS.get(host, host)
        return f"https://[{host}]:{self._port}" if ":" in host else f"https://{host}:{self._port}"

    @property
    def authority(self) -> bytes:
        """The CA certificate (PEM) of its serving certificate."""
        return self._started().authority.encode()

    @property
    def backend(self) -> Backend:
        """The layers below HTTP, for the server's own controllers. Only after the start."""
        if self._backend is None:
            raise RuntimeError("the server is not running: enter its context first")
        return self._backend

    def snapshot(self) -> Snapshot:
        """Return all objects as they are now, for :meth:`restore`."""
        return take_snapshot(self.backend)

    async def restore(self, snapshot: Snapshot) -> int:
        """Make all objects those of a snapshot of this server; see :func:`~.verbs.snapshot.restore_snapshot`."""
        return await restore_snapshot(self.backend, snapshot, _START)

    def kubeconfig(self) -> str:
        """Return a kubeconfig as text. It contains the token: use :meth:`write_kubeconfig`, or write it with mode 0600."""
        name = self._settings.cluster_name
        authority = base64.b64encode(self.authority).decode()
        document: JsonObject = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": self._settings.user, "user": {"token": self._token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": self._settings.user}}],
            "current-context": name,
        }
        return encode_yaml(document).decode()

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig atomically, readable only by its owner."""
        write_private(path, self.kubeconfig().encode())

    def _started(self) -> ServingCertificate:
        if self._certificate is None:
            raise RuntimeError("the server is not running: enter its context first")
        return self._certificate


def _version() -> JsonObject:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"{KUBERNETES_VERSION}+tinykube",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_ARCHITECTURES.get(platform.machine(), platform.machine())}",
    }
