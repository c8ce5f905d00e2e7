"""The two compared servers, each started on an empty disk folder, both durable."""

import base64
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, get_args

import msgspec
import yaml

from aiokube.clock import Clock
from benchmarks.embedded_client import Address
from benchmarks.usage import Usage
from tinykube.testing.control_plane import ControlPlane
from tinykube.testing.processes import ChildProcess

ServerName = Literal["etcd + kube-apiserver", "endpointd"]
THEIRS: ServerName = "etcd + kube-apiserver"
OURS: ServerName = "endpointd"
SERVERS: tuple[ServerName, ...] = get_args(ServerName)

_READY_SECONDS = 60.0
_POLL_SECONDS = 0.01
_STOP_SECONDS = 10.0
_NO_SYNC_FLAG = "--unsafe-no-fsync"


class Running(ABC):
    """A server that runs during a ``with`` block. ``start_seconds``: time from start to ready."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.start_seconds = 0.0

    @property
    @abstractmethod
    def address(self) -> Address:
        """The server's address and credentials."""

    @property
    @abstractmethod
    def processes(self) -> Sequence[Usage]:
        """All processes of the server."""

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it is ready. Raises ProcessError."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server."""

    def __enter__(self) -> Self:
        began = self._clock.monotonic()
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = self._clock.monotonic() - began
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all its processes."""
        return sum(process.cpu_seconds() for process in self.processes)

    def resident_mib(self) -> float:
        """Return the resident memory of all its processes."""
        return sum(process.memory().resident_mib for process in self.processes)


class _DurablePlane(ControlPlane):
    """A control plane whose etcd calls fsync."""

    def __init__(self, assets: Path, clock: Clock) -> None:
        super().__init__(assets, clock=clock)
        self.pids: dict[str, int] = {}

    def start_child(
        self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None
    ) -> ChildProcess:
        durable = [part for part in command if part != _NO_SYNC_FLAG]
        child = super().start_child(name, durable, environment=environment)
        self.pids[name] = child.pid
        return child


class RealServer(Running):
    """etcd and kube-apiserver in an empty folder."""

    def __init__(self, assets: Path, clock: Clock) -> None:
        super().__init__(clock)
        self._plane = _DurablePlane(assets, clock)

    @property
    def address(self) -> Address:
        return Address(self._plane.url, self._plane.certificate_authority, self._plane.admin_token)

    @property
    def processes(self) -> Sequence[Usage]:
        return [Usage(pid) for pid in self._plane.pids.values()]

    def start(self) -> None:
        self._plane.start()

    def stop(self) -> None:
        self._plane.stop()


class EmbeddedServer(Running):
    """``endpointd serve`` with an empty data directory."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        super().__init__(clock)
        self._command = tuple(command)
        self._folder = tempfile.TemporaryDirectory(prefix="endpointd-benchmark-")
        self._child: ChildProcess | None = None
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        assert self._address is not None, "started first"
        return self._address

    @property
    def processes(self) -> Sequence[Usage]:
        assert self._child is not None, "started first"
        return [Usage(self._child.pid)]

    def start(self) -> None:
        folder = Path(self._folder.name)
        kubeconfig = folder / "kubeconfig"
        command = [*self._command, f"--data-dir={folder / 'data'}", f"--kubeconfig-out={kubeconfig}"]
        child = self._child = ChildProcess(
            "endpointd", command, log_path=folder / "log", directory=Path.cwd(), clock=self._clock
        )
        wait = {"timeout_seconds": _READY_SECONDS, "poll_seconds": _POLL_SECONDS}
        child.wait_until(kubeconfig.exists, what="writing its kubeconfig", **wait)
        address = self._address = read_address(kubeconfig)
        tls = address.context()
        child.wait_until(lambda: _is_ready(address, tls), what="ready", **wait)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)
        self._folder.cleanup()


def make_server(name: ServerName, assets: Path, command: Sequence[str], clock: Clock) -> Running:
    """Return a server that is not started yet."""
    return RealServer(assets, clock) if name == THEIRS else EmbeddedServer(command, clock)


def read_address(kubeconfig: Path) -> Address:
    """Read a kubeconfig with one cluster and one token."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"])
    return msgspec.convert(
        {"url": cluster["server"], "authority": authority, "token": user["token"]}, Address
    )


def _is_ready(address: Address, tls: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(f"{address.url}/readyz", timeout=2, context=tls) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


OUR_COMMAND = (sys.executable, "-m", "endpointd", "serve")
