"""A real control plane on this machine: etcd, kube-apiserver and, optionally, kube-controller-manager.

The binaries come from one folder with envtest's layout (``KUBEBUILDER_ASSETS``). Everything listens on
loopback, on free ports, with newly issued certificates; no process outlives the one that started it. Without
kubelet and scheduler, pods have the status that a test writes.
"""

import os
import random
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import Credential, StaticCredentials, bearer
from aiokube.clock import Clock, SystemClock
from tinykube.server.certificates.authority import CertificateAuthority, KeyPair, new_signing_key
from tinykube.server.certificates.files import write_private
from tinykube.testing.kubeconfig import write_kubeconfig
from tinykube.testing.processes import ChildProcess, ProcessError

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
SERVICE_CIDRS = "10.96.0.0/16,fd00:10:96::/112"

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_START_ATTEMPTS = 3
_FIRST_PORT, _LAST_PORT = 20_000, 31_999  # below the ephemeral port range of outgoing connections
_READY_POLL_SECONDS = 0.05
_SHUTDOWN_SECONDS = 2.0  # kube-apiserver would wait up to a minute for its watchers
_CONTROLLERS_WITH_CACHES = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
)
_AUDIT_POLICY = b"""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
"""


class AssetsMissingError(RuntimeError):
    """The asset folder is not set, or lacks a binary."""


class ControlPlaneError(RuntimeError):
    """The control plane is not ready for this call; the text names the call that must come first."""


def find_assets(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder with etcd and kube-apiserver. Raises AssetsMissingError with one line."""
    named = (os.environ if environment is None else environment).get(ASSETS_VARIABLE, "")
    if not named:
        raise AssetsMissingError(
            f"{ASSETS_VARIABLE} is not set: point it at a folder that contains etcd and kube-apiserver"
        )
    folder = Path(named)
    for program in ("etcd", "kube-apiserver"):
        if not os.access(folder / program, os.X_OK):
            raise AssetsMissingError(f"{ASSETS_VARIABLE}={named} contains no executable {program}")
    return folder


class ControlPlane:
    """An etcd and a kube-apiserver, running from :meth:`start` (or ``with``) to :meth:`stop`; several can run side by side.

    Starting takes about three seconds; on failure it raises ProcessError with the end of the failed program's
    log. RBAC is on: the admin has full access, other users (:meth:`kubeconfig_for`) need grants. The
    ServiceAccount admission plugin is off, so that pods need no account. Services are dual-stack on request.
    Writes are not durable: etcd never calls fsync. ``audit`` records every write in :attr:`audit_log_path`.
    Not thread-safe. Stopping removes :attr:`directory` unless the caller passed it.
    """

    def __init__(
        self,
        assets: Path | None = None,
        *,
        directory: Path | None = None,
        audit: bool = False,
        apiserver_flags: Sequence[str] = (),
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.assets = assets or find_assets()
        self._given_directory = directory
        self.directory = directory or Path()
        self._audit = audit
        self._extra_flags = tuple(apiserver_flags)
        self._clock = clock or SystemClock()
        self._rng = rng or random.SystemRandom()
        self._children: list[ChildProcess] = []
        self._etcd: ChildProcess | None = None
        self._apiserver: ChildProcess | None = None
        self._ports: tuple[int, int, int] = (0, 0, 0)
        self.admin_token = secrets.token_hex(16)
        self._authority: CertificateAuthority | None = None

    # ------------------------------------------------------------------------------- start and stop

    def start(self) -> Self:
        """Start etcd and kube-apiserver; return once the API server is ready."""
        self.directory = self._given_directory or Path(tempfile.mkdtemp(prefix="tinykube-control-plane-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        self._write_files()
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._ports = self._free_ports()
            try:
                self._start_etcd()
                self.start_apiserver()
            except ProcessError as error:
                lost_a_port = "address already in use" in str(error)
                self._end_children()
                if not lost_a_port or attempt == _START_ATTEMPTS:
                    raise
            else:
                break
        write_kubeconfig(
            self.kubeconfig_path,
            server=self.url,
            certificate_authority=self.certificate_authority,
            token=self.admin_token,
            user="admin",
        )
        return self

    def stop(self) -> None:
        """Stop all child processes, clients before servers. Idempotent."""
        self._end_children()
        if self._given_directory is None and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # ------------------------------------------------------------------------------- the API server

    @property
    def url(self) -> str:
        """The URL of the API server; it stays the same across restarts."""
        return f"https://{_HOST}:{self._ports[0]}"

    @cached_property
    def minor_version(self) -> int:
        """The minor version of Kubernetes of the binaries: 36 for v1.36.3."""
        command = [str(self.assets / "kube-apiserver"), "--version"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - of the assets
        return int(text.rpartition("v")[2].split(".")[1])

    @property
    def has_watch_list(self) -> bool:
        """Whether watch-list is supported: enabled by default in 1.32 and since 1.34."""
        return self.minor_version == 32 or self.minor_version >= 34

    @property
    def kubeconfig_path(self) -> Path:
        """A token kubeconfig with full access (group ``system:masters``)."""
        return self.directory / "admin.kubeconfig"

    @property
    def certificate_authority(self) -> bytes:
        """The CA certificate (PEM) that signs server and client certificates."""
        return self._signer.pem

    @property
    def audit_log_path(self) -> Path:
        """The audit log of all writes, one JSON event per line. Raises ControlPlaneError unless ``audit`` is set."""
        if not self._audit:
            raise ControlPlaneError("this control plane has no audit log: start it with audit=True")
        return self.directory / "audit.log"

    @property
    def apiserver(self) -> ChildProcess:
        """The running kube-apiserver, for example to pause it. Raises ControlPlaneError if it is not running."""
        if self._apiserver is None or not self._apiserver.is_running:
            raise ControlPlaneError("kube-apiserver is not running: call start_apiserver() first")
        return self._apiserver

    def start_apiserver(self) -> None:
        """Start kube-apiserver on its port and return once it is ready; no-op if it is running."""
        if self._apiserver is not None and self._apiserver.is_running:
            return
        child = self.start_child("kube-apiserver", [self.assets / "kube-apiserver", *self._apiserver_flags()])
        self._apiserver = child
        child.wait_until(
            self._is_ready, what="ready", timeout_seconds=_START_SECONDS, poll_seconds=_READY_POLL_SECONDS
        )

    def stop_apiserver(self) -> None:
        """Shut kube-apiserver down gracefully, with its watches and connections; etcd keeps running."""
        self.apiserver.stop(_SHUTDOWN_SECONDS)

    def kill_apiserver(self) -> None:
        """Kill kube-apiserver, as in a crash."""
        self.apiserver.kill()

    def save_store(self, folder: Path) -> None:
        """Copy what etcd holds to a folder that does not exist yet; both servers restart."""
        self._with_store_at_rest(lambda data: shutil.copytree(data, folder))

    def restore_store(self, folder: Path) -> None:
        """Replace what etcd holds with an earlier copy; both servers restart, and versions go back."""

        def restore(data: Path) -> None:
            shutil.rmtree(data)
            shutil.copytree(folder, data)

        self._with_store_at_rest(restore)

    def _with_store_at_rest(self, change: Callable[[Path], object]) -> None:
        if self._etcd is None:
            raise ControlPlaneError("etcd is not running: start() first")
        self.kill_apiserver()
        self._etcd.stop(_SHUTDOWN_SECONDS)
        change(self.directory / "etcd")
        self._start_etcd(empty=False)
        self.start_apiserver()

    # ------------------------------------------------------------------------------- clients and controllers

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for a certificate user with only the access that RBAC grants; return its path."""
        return write_kubeconfig(
            self.directory / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig",
            server=self.url,
            certificate_authority=self.certificate_authority,
            client_certificate=self.client_certificate(user, groups),
            user=user,
        )

    def client_config(self) -> ClusterConfig:
        """Return the configuration of an :class:`aiokube.client.rest.Client` that acts as the admin."""
        return ClusterConfig(
            server=self.url,
            tls=TlsConfig(ca_data=self.certificate_authority),
            credentials=StaticCredentials(Credential(authorization=bearer(self.admin_token))),
            origin=f"the control plane in {self.directory}",
        )

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate for a user and groups."""
        return self._signer.client(user, groups)

    def start_controller_manager(
        self, controllers: Sequence[str], *, flags: Sequence[str] = (), name: str = "kube-controller-manager"
    ) -> ChildProcess:
        """Start kube-controller-manager with only these controllers; return when they have started.

        Leader election, serving and client rate limiting are off. ``flags`` come last and override the
        defaults. The process stops with the control plane, or earlier through the returned handle.
        """
        command: list[str | Path] = [
            self.assets / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig_path}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials=false",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
            *flags,
        ]
        child = self.start_child(name, command)
        waiting = sum(controller in _CONTROLLERS_WITH_CACHES for controller in controllers)
        child.wait_until(
            lambda: '"Starting" version' in child.log() and child.log().count("Caches are synced") >= waiting,
            what="running its controllers",
            timeout_seconds=_START_SECONDS,
        )
        return child

    def start_child(
        self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None
    ) -> ChildProcess:
        """Start a program that stops with this control plane; it logs to ``directory/<name>.log``."""
        child = ChildProcess(
            name,
            command,
            log_path=self.directory / f"{name}.log",
            environment=environment,
            directory=self.directory,
            clock=self._clock,
        )
        self._children.append(child)
        return child

    def kubectl(self, *arguments: str, document: str | None = None) -> str:
        """Run kubectl as the admin with ``document`` as standard input; return its output.

        Raises ProcessError with kubectl's error message on failure.
        """
        command = [str(self.assets / "kubectl"), f"--kubeconfig={self.kubeconfig_path}", *arguments]
        done = subprocess.run(  # noqa: S603 - the kubectl of the assets
            command,
            input=document,
            stdin=subprocess.DEVNULL if document is None else None,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(self.directory)},
        )
        if done.returncode:
            raise ProcessError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    # ------------------------------------------------------------------------------- internals

    @property
    def _signer(self) -> CertificateAuthority:
        if self._authority is None:
            raise ControlPlaneError("the control plane is not running: call start() first")
        return self._authority

    def _write_files(self) -> None:
        authority = self._authority = CertificateAuthority(clock=self._clock)
        serving = authority.server([_HOST, "localhost", "kubernetes.default.svc"])
        write_private(self.directory / "ca.crt", authority.pem)
        write_private(self.directory / "apiserver.crt", serving.certificate)
        write_private(self.directory / "apiserver.key", serving.private_key)
        write_private(self.directory / "service-account.key", new_signing_key())
        write_private(
            self.directory / "tokens.csv", f'{self.admin_token},admin,admin,"system:masters"\n'.encode()
        )
        write_private(self.directory / "audit-policy.yaml", _AUDIT_POLICY)
        context = self._tls = ssl.create_default_context(cadata=authority.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED

    def _start_etcd(self, *, empty: bool = True) -> None:
        client, peer = self._ports[1:]
        data = self.directory / "etcd"
        if empty:
            shutil.rmtree(data, ignore_errors=True)
        command: list[str | Path] = [
            self.assets / "etcd",
            f"--data-dir={data}",
            f"--listen-client-urls=http://{_HOST}:{client}",
            f"--advertise-client-urls=http://{_HOST}:{client}",
            f"--listen-peer-urls=http://{_HOST}:{peer}",
            f"--initial-advertise-peer-urls=http://{_HOST}:{peer}",
            f"--initial-cluster=default=http://{_HOST}:{peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--snapshot-count=50000",
        ]
        self._etcd = self.start_child("etcd", command)
        self._etcd.wait_until(
            lambda: self._answers(f"http://{_HOST}:{client}/health"),
            what="ready",
            timeout_seconds=_START_SECONDS,
        )

    def _apiserver_flags(self) -> list[str]:
        folder = self.directory
        flags = [
            f"--etcd-servers=http://{_HOST}:{self._ports[1]}",
            f"--bind-address={_HOST}",
            f"--secure-port={self._ports[0]}",
            # Published only in the service "kubernetes"; loopback addresses are not allowed in Endpoints.
            "--advertise-address=192.0.2.1",
            f"--tls-cert-file={folder / 'apiserver.crt'}",
            f"--tls-private-key-file={folder / 'apiserver.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            f"--service-account-key-file={folder / 'service-account.key'}",
            f"--service-account-signing-key-file={folder / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICE_CIDRS}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            f"--cert-dir={folder / 'certificates'}",
        ]
        if self._audit:
            flags += [
                f"--audit-policy-file={folder / 'audit-policy.yaml'}",
                f"--audit-log-path={self.audit_log_path}",
                "--audit-log-mode=blocking",
            ]
        return [*flags, *self._extra_flags]

    def _is_ready(self) -> bool:
        return self._answers(f"{self.url}/readyz", token=self.admin_token)

    def _answers(self, url: str, token: str = "") -> bool:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=2, context=self._tls) as response:  # noqa: S310
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _free_ports(self) -> tuple[int, int, int]:
        found: list[int] = []
        while len(found) < 3:
            port = self._rng.randint(_FIRST_PORT, _LAST_PORT)
            if port not in found and _is_free(port):
                found.append(port)
        return found[0], found[1], found[2]

    def _end_children(self) -> None:
        servers = [child for child in (self._etcd, self._apiserver) if child is not None]
        for child in reversed(self._children):
            if child not in servers:
                child.stop(_SHUTDOWN_SECONDS)
        for child in reversed(servers):
            child.kill()
        self._children.clear()
        self._apiserver = self._etcd = None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True
