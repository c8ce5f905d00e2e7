"""kubectl's server-side apply prints and stores the same with the embedded and a real server."""

import asyncio
import os
import re
import secrets
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}], clusterIP: None}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: IMAGE, ports: [{containerPort: 80}]}]}
"""
_DRAWN = re.compile(
    r"(uid|resourceVersion|creationTimestamp|time): \S+|\d{4}-\d\d-\d\dT[0-9:]+Z|(LIVE|MERGED)-\d+|\t\d{4}-.*"
)


def manifest(replicas: int = 2, image: str = "nginx:1") -> str:
    return MANIFEST.replace("REPLICAS", str(replicas)).replace("IMAGE", image)


class Pair:
    """kubectl for both servers."""

    def __init__(self, program: Path, homes: tuple[Path, Path], namespace: str) -> None:
        self._program = program
        self._namespace = namespace
        self._homes = homes

    async def __call__(self, *arguments: str, document: str | None = None) -> str:
        """Run a command on both; fail if output or exit code differ. Return the output."""
        real, ours = await asyncio.gather(*(self._run(home, arguments, document) for home in self._homes))
        assert ours == real, f"kubectl {' '.join(arguments)}\nreal: {real[1]}\nours: {ours[1]}"
        return real[1]

    async def _run(self, home: Path, arguments: tuple[str, ...], document: str | None) -> tuple[int, str]:
        done = await asyncio.to_thread(
            subprocess.run,
            [str(self._program), "-n", self._namespace, *arguments],
            input=document,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, "HOME": str(home), "KUBECONFIG": str(home / "kubeconfig")},
        )
        return done.returncode, _DRAWN.sub("drawn", done.stdout + done.stderr)


@pytest_asyncio.fixture
async def kubectl(control_plane: ControlPlane, assets: Path, tmp_path: Path) -> AsyncIterator[Pair]:
    homes = (tmp_path / "real", tmp_path / "ours")
    for home in homes:
        home.mkdir()
    (homes[0] / "kubeconfig").write_bytes(control_plane.kubeconfig_path.read_bytes())
    settings = ServerSettings(lifecycle=False, shutdown_seconds=1.0)
    async with ApiServer(settings, builtin_registry()) as server:
        server.write_kubeconfig(homes[1] / "kubeconfig")
        namespace = f"apply-{secrets.token_hex(3)}"
        pair = Pair(assets / "kubectl", homes, namespace)
        await pair("create", "namespace", namespace)
        yield pair


async def test_server_side_apply_shows_managers_conflicts_and_diffs_alike(kubectl: Pair) -> None:
    shown = ("get", "service/web", "deployment/web", "-o", "yaml", "--show-managed-fields")
    server_side = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in await kubectl(*server_side, document=manifest())
    assert "f:containers:" in await kubectl(*shown)
    await kubectl(*server_side, document=manifest(3))
    conflict = await kubectl(*server_side, "--field-manager=other", document=manifest(4, "nginx:2"))
    assert "Apply failed with 2 conflicts" in conflict
    await kubectl(*server_side, "--field-manager=other", "--force-conflicts", document=manifest(4, "nginx:2"))
    await kubectl(*shown)
    difference = await kubectl(
        "diff", "--server-side", "--field-manager=other", "-f", "-", document=manifest(5)
    )
    assert "+  replicas: 5" in difference
    await kubectl("scale", "deployment/web", "--replicas=7")
    await kubectl("label", "deployment/web", "a=b")
    await kubectl("set", "image", "deployment/web", "c=nginx:3")
    await kubectl(*shown)
    assert ".spec.replicas" in await kubectl(*server_side, document=manifest(1))


async def test_server_side_apply_takes_over_from_client_side_apply(kubectl: Pair) -> None:
    shown = ("get", "service/web", "deployment/web", "-o", "yaml", "--show-managed-fields")
    await kubectl("apply", "-f", "-", document=manifest())
    await kubectl(*shown)
    await kubectl("apply", "--server-side", "-f", "-", document=manifest(3))
    await kubectl(*shown)
    await kubectl("apply", "-f", "-", document=manifest(4))
    await kubectl(*shown)


async def test_a_misspelt_field_is_rejected_by_the_server(kubectl: Pair) -> None:
    refused = await kubectl(
        "apply", "--server-side", "-f", "-", document=manifest().replace("replicas:", "replcas:")
    )
    assert "field not declared in schema" in refused
