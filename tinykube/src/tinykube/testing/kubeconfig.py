"""Write a kubeconfig for one server and one user, readable only by its owner."""

import base64
from pathlib import Path
from typing import Any

import msgspec

from tinykube.server.certificates.authority import KeyPair
from tinykube.server.certificates.files import write_private


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    certificate_authority: bytes | None = None,
    token: str | None = None,
    client_certificate: KeyPair | None = None,
    user: str = "user",
) -> Path:
    """Write a kubeconfig (JSON, which is YAML) with mode 0600 and inline data; return its path."""
    cluster: dict[str, Any] = {"server": server}
    if certificate_authority is not None:
        cluster["certificate-authority-data"] = _base64(certificate_authority)
    credentials: dict[str, Any] = {}
    if token is not None:
        credentials["token"] = token
    if client_certificate is not None:
        credentials["client-certificate-data"] = _base64(client_certificate.certificate)
        credentials["client-key-data"] = _base64(client_certificate.private_key)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    write_private(path, msgspec.json.format(msgspec.json.encode(config)))
    return path


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
