"""How a server is to run."""

import ipaddress
from pathlib import Path

import msgspec

from tinykube.server.storage.model import StorageSettings

_SHORTEST_TOKEN = 16


class SettingsError(ValueError):
    """Settings that cannot be; one line that says which, and what to do."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection may take before it is closed, and how many there may be."""

    head_seconds: float = 30.0
    """For the TLS handshake, and for the first request's head to arrive."""
    idle_seconds: float = 120.0
    """Between two requests of a connection, the head of the second included."""
    write_seconds: float = 60.0
    """For a client to take what was written to it: one that does not read holds memory."""
    max_connections: int | None = None
    """None: as many as the process may have open files, less a reserve."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, where it keeps its data, and what it is called.

    ``data_dir`` None keeps everything in memory. ``token`` None draws one (kept in the data directory). Port 0 takes a free
    one. Anything but loopback needs ``allow_remote``: whoever has the token may do everything.
    """

    host: str = "127.0.0.1"
    port: int = 0
    allow_remote: bool = False
    data_dir: Path | None = None
    token: str | None = None
    user: str = "tinykube-admin"
    cluster_name: str = "tinykube"
    service_ip: str = "10.96.0.1"
    """The cluster IP of the service ``kubernetes``: the first of the registry's service addresses. ``""``: no service."""
    storage: StorageSettings = StorageSettings()
    """How much history is kept for those who watch and page."""
    lifecycle: bool = True
    """Whether the server does what a control plane does by itself: namespaces that go, owned objects, events that expire."""
    namespace_defaults: bool = False
    """Whether every namespace gets the ServiceAccount ``default`` and the ConfigMap ``kube-root-ca.crt``, as in a cluster. A
    kube-apiserver alone does not create them. Needs ``lifecycle``."""
    finish_graceful_deletions: bool = False
    """Whether pods that are being deleted are removed after their grace period, though their node is there."""
    connections: ConnectionLimits = ConnectionLimits()
    shutdown_seconds: float = 5.0
    """For how long requests under way are waited for at the end."""

    def __repr__(self) -> str:
        """Return what may be printed: no token."""
        return f"ServerSettings(host={self.host!r}, port={self.port}, data_dir={self.data_dir})"

    def check(self) -> None:
        """Raise :class:`SettingsError` for what cannot be."""
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"the port is {self.port}: 0 (any free one) to 65535 is right")
        if not self.allow_remote and not is_loopback(self.host):
            raise SettingsError(
                f"the server would listen on {self.host}, for others than this machine: "
                "use 127.0.0.1, or allow it explicitly"
            )
        if self.token is not None and not is_token(self.token):
            raise SettingsError("the token must be at least 16 letters and digits")


def is_token(text: str) -> bool:
    """Return whether a text can be a token."""
    return len(text) >= _SHORTEST_TOKEN and text.isalnum()


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine alone. A name other than localhost is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
