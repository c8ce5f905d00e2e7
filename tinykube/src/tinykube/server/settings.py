"""The settings of a server."""

import ipaddress
from pathlib import Path

import msgspec

from tinykube.server.storage.model import StorageSettings

_SHORTEST_TOKEN = 16


class SettingsError(ValueError):
    """Invalid settings; one line that names the setting and the fix."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts of a connection, and the maximum number of connections."""

    head_seconds: float = 30.0
    """Timeout of the TLS handshake, and of the first request's headers."""
    idle_seconds: float = 120.0
    """Timeout between two requests of a connection, including the second one's headers."""
    write_seconds: float = 60.0
    """Timeout of a write to a client: slow readers hold memory."""
    safe_seconds: float = 1.0
    """A connection without a request is not closed to make room for another before this age."""
    max_unread: int = 512
    """Limit of connections whose clients stop reading for 5 s or more; beyond it the longest unread is closed. Each holds up to about 1 MiB."""
    max_connections: int | None = None
    """None: the process's limit of open files, less a reserve."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The address, storage and names of a server.

    If ``data_dir`` is None, all data is in memory. If ``token`` is None, one is generated (and kept in the
    data directory). Port 0 picks a free one. Any address except loopback needs ``allow_remote``: the token
    grants full access.
    """

    host: str = "127.0.0.1"
    port: int = 0
    allow_remote: bool = False
    data_dir: Path | None = None
    token: str | None = None
    user: str = "tinykube-admin"
    cluster_name: str = "tinykube"
    service_ip: str = "10.96.0.1"
    """The cluster IP of the service ``kubernetes``: the first address of the registry's service range. ``""``: no service."""
    storage: StorageSettings = StorageSettings()
    """How much history is kept for watches and paging."""
    lifecycle: bool = True
    """Whether the background controllers run: namespace deletion, garbage collection, event expiry."""
    namespace_defaults: bool = False
    """Whether every namespace gets the ServiceAccount ``default`` and the ConfigMap ``kube-root-ca.crt``, as in a
    cluster with kube-controller-manager. Needs ``lifecycle``."""
    finish_graceful_deletions: bool = False
    """Whether terminating pods are removed after their grace period although their node exists."""
    connections: ConnectionLimits = ConnectionLimits()
    shutdown_seconds: float = 5.0
    """How long shutdown waits for open requests."""

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"ServerSettings(host={self.host!r}, port={self.port}, data_dir={self.data_dir})"

    def check(self) -> None:
        """Raise :class:`SettingsError` for invalid settings."""
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"the port is {self.port}, but must be 0 (any free port) to 65535")
        if not self.allow_remote and not is_loopback(self.host):
            raise SettingsError(
                f"the server would listen on {self.host}, reachable from other machines: "
                "use 127.0.0.1, or set allow_remote"
            )
        if self.token is not None and not is_token(self.token):
            raise SettingsError("the token must be at least 16 letters and digits")


def is_token(text: str) -> bool:
    """Return whether a text is a valid token."""
    return len(text) >= _SHORTEST_TOKEN and text.isalnum()


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
