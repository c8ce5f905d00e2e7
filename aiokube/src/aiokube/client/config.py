"""The configuration of a client: server, trust and credentials. No repr here shows a secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiokube.client.credentials import ANONYMOUS, Credentials


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How to verify the server.

    ``ca_data`` (PEM) takes precedence over ``ca_file``; without either, the system's authorities are used.
    ``server_name`` is the name in the certificate if it differs from the host in the URL. ``insecure``
    disables verification.
    """

    ca_file: Path | None = None
    ca_data: bytes | None = field(default=None, repr=False)
    server_name: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to impersonate; requires the ``impersonate`` permission."""

    user: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Everything needed to connect to one API server.

    ``server`` is its URL without a trailing slash. ``proxy_url`` is the HTTP proxy, ``""`` for none (the
    environment has already been read). ``namespace`` is the default namespace. ``compression`` allows
    gzipped lists. ``origin`` describes the source of the configuration, for messages and logs; ``identity``
    describes whose credentials these are and their file, for 401 errors.
    """

    server: str
    tls: TlsConfig = TlsConfig()
    credentials: Credentials = ANONYMOUS
    impersonation: Impersonation | None = None
    proxy_url: str = field(default="", repr=False)  # may carry a password
    namespace: str = "default"
    compression: bool = True
    origin: str = ""
    identity: str = ""
