"""The Kubernetes API in one Python process, with simulated nodes, workloads and pods.

Everything in ``__all__`` is public; it is imported when it is first used. The pytest fixtures ``api_server`` and
``api_server_session`` come with the installed package.
"""

TYPE_CHECKING = False  # importing typing costs start-up time
if TYPE_CHECKING:
    from tinykube.manifest_validation import check_manifests
    from tinykube.server.api_server import ApiServer
    from tinykube.server.certificates.authority import CertificateAuthority, KeyPair
    from tinykube.server.http.faults import Fault, FaultRule, Faults
    from tinykube.server.registry.builtin import builtin_registry
    from tinykube.server.settings import ConnectionLimits, ServerSettings, SettingsError
    from tinykube.server.storage.model import StorageOpenError, StorageSettings
    from tinykube.server.verbs.snapshot import Snapshot
    from tinykube.simulate.settings import SimulateSettings
    from tinykube.simulate.simulation import Simulation, run_simulation
    from tinykube.testing.api_server import (
        DEFAULT_SETTINGS,
        FAST_PODS,
        InCluster,
        LoopApiServer,
        ThreadApiServer,
        running_api_server,
    )
    from tinykube.testing.control_plane import AssetsMissingError, ControlPlane, ControlPlaneError
    from tinykube.testing.kubeconfig import write_kubeconfig

__version__ = "0.1.0.dev0"

__all__ = [
    # An API server for a block of code, and for pytest
    "running_api_server",
    "ThreadApiServer",
    "LoopApiServer",
    "DEFAULT_SETTINGS",
    "FAST_PODS",
    "InCluster",
    "Snapshot",
    # Faults on purpose, as api_server.faults
    "Faults",
    "FaultRule",
    "Fault",
    # Simulated nodes, workloads and pods, on any API server
    "SimulateSettings",
    "run_simulation",
    "Simulation",
    # The server as part of a program
    "ApiServer",
    "ServerSettings",
    "ConnectionLimits",
    "StorageSettings",
    "builtin_registry",
    "SettingsError",
    "StorageOpenError",
    # Manifests checked by the server's rules, without a server
    "check_manifests",
    # A real control plane (etcd and kube-apiserver), for comparison
    "ControlPlane",
    "ControlPlaneError",
    "AssetsMissingError",
    "CertificateAuthority",
    "KeyPair",
    "write_kubeconfig",
    "__version__",
]

_MODULES = {
    "running_api_server": "testing.api_server",
    "ThreadApiServer": "testing.api_server",
    "LoopApiServer": "testing.api_server",
    "DEFAULT_SETTINGS": "testing.api_server",
    "FAST_PODS": "testing.api_server",
    "InCluster": "testing.api_server",
    "Snapshot": "server.verbs.snapshot",
    "Faults": "server.http.faults",
    "FaultRule": "server.http.faults",
    "Fault": "server.http.faults",
    "SimulateSettings": "simulate.settings",
    "run_simulation": "simulate.simulation",
    "Simulation": "simulate.simulation",
    "ApiServer": "server.api_server",
    "ServerSettings": "server.settings",
    "ConnectionLimits": "server.settings",
    "StorageSettings": "server.storage.model",
    "builtin_registry": "server.registry.builtin",
    "SettingsError": "server.settings",
    "StorageOpenError": "server.storage.model",
    "check_manifests": "manifest_validation",
    "ControlPlane": "testing.control_plane",
    "ControlPlaneError": "testing.control_plane",
    "AssetsMissingError": "testing.control_plane",
    "CertificateAuthority": "server.certificates.authority",
    "KeyPair": "server.certificates.authority",
    "write_kubeconfig": "testing.kubeconfig",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'tinykube' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"tinykube.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
