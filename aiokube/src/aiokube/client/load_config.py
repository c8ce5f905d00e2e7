"""Selection of the client configuration, like kubectl's."""

import os
from collections.abc import Mapping
from pathlib import Path

from aiokube.client.config import ClusterConfig
from aiokube.client.errors import ConfigError
from aiokube.client.incluster import SERVICE_ACCOUNT_FOLDER, in_cluster_config, is_in_cluster
from aiokube.client.kubeconfig import config_of, kubeconfig_paths
from aiokube.client.kubeconfig_file import merge, read_kubeconfig
from aiokube.clock import Clock


def load_config(
    kubeconfig: str | Path = "",
    context: str = "",
    *,
    clock: Clock,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
) -> ClusterConfig:
    """Return the configuration from the first source that exists.

    1. the file ``kubeconfig``, which must exist; 2. the merged files of $KUBECONFIG (missing files are
    skipped, unless all are missing); 3. ``~/.kube/config``; 4. the service account of this pod. ``context``
    selects a context of a kubeconfig; it excludes the service account.

    Raises ConfigError, which lists the sources and the remedy.
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return config_of(read_kubeconfig(Path(kubeconfig)), clock=clock, context=context, environ=environ)
    listed = kubeconfig_paths(environ)
    if listed:
        there = [path for path in listed if path.exists()]
        if not there:
            names = ", ".join(map(str, listed))
            raise ConfigError(f"KUBECONFIG lists {names}, but no such file exists: fix or unset it")
        merged = merge([read_kubeconfig(path) for path in there])
        return config_of(merged, clock=clock, context=context, environ=environ)
    standard = (home or _home(environ)) / ".kube" / "config"
    if standard.exists():
        return config_of(read_kubeconfig(standard), clock=clock, context=context, environ=environ)
    if not context and is_in_cluster(environ, service_account_folder):
        return in_cluster_config(clock=clock, environ=environ, folder=service_account_folder)
    raise ConfigError(
        f"no API server is configured: there is no --kubeconfig, no $KUBECONFIG, no {standard}, and "
        f"{'a context was named' if context else 'this is not a pod with a service account'}; name a kubeconfig"
    )


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
