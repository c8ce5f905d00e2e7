"""In-cluster configuration from the pod's service account."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from aiokube.client.config import ClusterConfig, TlsConfig
from aiokube.client.credentials import TokenFile
from aiokube.client.errors import ConfigError
from aiokube.client.proxy import proxy_from_environment
from aiokube.clock import Clock

log = logging.getLogger(__name__)

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT_FOLDER) -> bool:
    """Return whether this process runs in a pod with a service account."""
    return bool(
        environ.get("KUBERNETES_SERVICE_HOST")
        and environ.get("KUBERNETES_SERVICE_PORT")
        and (folder / "token").is_file()
    )


def in_cluster_config(
    *, clock: Clock, environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT_FOLDER
) -> ClusterConfig:
    """Return the in-cluster configuration. Raises ConfigError outside of a pod.

    The token is read again every minute and on a 401; the authority when its file changes.
    """
    environ = os.environ if environ is None else environ
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
            "name a kubeconfig"
        )
    token = folder / "token"
    if not token.is_file():
        raise ConfigError(
            f"this pod has no service account token in {token}: set automountServiceAccountToken, "
            "or name a kubeconfig"
        )
    authority: Path | None = folder / "ca.crt"
    if authority is not None and not authority.is_file():
        log.warning(
            "service account has no certificate authority, trusting the system's authorities: file=%s",
            authority,
        )
        authority = None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterConfig(
        server=server,
        tls=TlsConfig(ca_file=authority),
        credentials=TokenFile(token, clock=clock, what="the service account token"),
        proxy_url=proxy_from_environment(server, environ),
        namespace=_namespace(folder, environ),
        origin=f"the service account in {folder}",
        identity=f"the service account in {folder}",
    )


def _namespace(folder: Path, environ: Mapping[str, str]) -> str:
    if environ.get("POD_NAMESPACE"):
        return environ["POD_NAMESPACE"]
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
