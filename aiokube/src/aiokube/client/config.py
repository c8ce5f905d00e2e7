"""Which server, how to trust it, and as whom: what a client is made from. No repr here shows a secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiokube.client.credentials import ANONYMOUS, Credentials


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How to trust the server.

    ``ca_data`` (PEM) comes before ``ca_file``; with neither, the system's authorities count. ``server_name`` is the
    name that the certificate must be for, where it is not the host in the URL. ``insecure`` trusts anyone.
    """

    ca_file: Path | None = None
    ca_data: bytes | None = field(default=None, repr=False)
    server_name: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Impersonation:
    """As whom to act, where that is not who we are; needs the right to impersonate."""

    user: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """All that is needed to reach one API server.

    ``server`` is its URL, with a path where it has one, without a slash at the end. ``proxy_url`` is the HTTP proxy
    to go through, ``""`` for none: the environment has been looked at already. ``namespace`` is the one to act in
    when none is named. ``compression`` lets lists come gzipped. ``origin`` says in words where all this was found, for messages and logs;
    ``identity`` whose credentials these are, and in which file, for a 401.
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
