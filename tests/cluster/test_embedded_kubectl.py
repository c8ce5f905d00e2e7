"""Everyday kubectl against the embedded server. Needs only the kubectl binary."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import AssetsMissingError, find_assets

pytestmark = pytest.mark.cluster

MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
"""


class Kubectl:
    """Runs kubectl with a server's kubeconfig and a separate home folder."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._home = home

    async def __call__(self, *arguments: str, document: str | None = None, code: int = 0) -> str:
        """Return the output. Fails on an unexpected exit code."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(self._program), *arguments],
            input=document,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, "HOME": str(self._home), "KUBECONFIG": str(self._home / "kubeconfig")},
        )
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command with piped output."""
        return await asyncio.create_subprocess_exec(
            str(self._program),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(self._home), "KUBECONFIG": str(self._home / "kubeconfig")},
        )


@pytest_asyncio.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    try:
        program = find_assets() / "kubectl"
    except AssetsMissingError as error:
        pytest.skip(str(error))
    async with ApiServer(ServerSettings(shutdown_seconds=1.0), builtin_registry()) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield Kubectl(program, tmp_path)


async def test_create_label_get_and_delete(kubectl: Kubectl) -> None:
    assert await kubectl("create", "configmap", "a", "--from-literal=x=y") == "configmap/a created\n"
    assert "labeled" in await kubectl("label", "configmap", "a", "tier=front")
    table = await kubectl("get", "configmaps", "-l", "tier=front", "--no-headers")
    assert table.split()[:2] == ["a", "1"]
    assert (
        await kubectl("get", "configmap", "a", "-o", "jsonpath={.data.x}{.metadata.labels.tier}") == "yfront"
    )
    assert "deleted" in await kubectl("delete", "configmap", "a")
    assert "(NotFound)" in await kubectl("get", "configmap", "a", code=1)


async def test_a_manifest_is_applied_changed_and_applied_again(kubectl: Kubectl) -> None:
    manifest = MANIFEST.replace("REPLICAS", "2")
    assert (
        await kubectl("apply", "-f", "-", document=manifest)
        == "service/web created\ndeployment.apps/web created\n"
    )
    again = await kubectl("apply", "-f", "-", document=manifest)
    assert again == "service/web unchanged\ndeployment.apps/web unchanged\n"
    changed = await kubectl("apply", "-f", "-", document=MANIFEST.replace("REPLICAS", "3"))
    assert changed == "service/web unchanged\ndeployment.apps/web configured\n"
    assert await kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    await kubectl("scale", "deployment", "web", "--replicas=5")
    difference = await kubectl("diff", "-f", "-", document=MANIFEST.replace("REPLICAS", "3"), code=1)
    assert "-  replicas: 5" in difference
    assert "+  replicas: 3" in difference
    described = await kubectl("describe", "service", "web")
    assert "Selector:                 app=web" in described
    assert "deleted" in await kubectl("delete", "-f", "-", document=manifest)


async def test_a_misspelt_field_is_rejected_before_anything_is_created(kubectl: Kubectl) -> None:
    refused = await kubectl(
        "apply", "-f", "-", document=MANIFEST.replace("REPLICAS", "1\n  replcas: 2"), code=1
    )
    assert 'unknown field "spec.replcas"' in refused


async def test_wait_returns_when_the_condition_is_met(kubectl: Kubectl) -> None:
    await kubectl("run", "p", "--image=nginx")
    waiting = await kubectl.begin("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    status = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "pod", "p", "--subresource=status", "-p", status)
    printed, _ = await waiting.communicate()
    assert (waiting.returncode, printed) == (0, b"pod/p condition met\n")


async def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "a")
    watching = await kubectl.begin(
        "get", "configmaps", "-w", "--no-headers", "-o", "custom-columns=N:.metadata.name,X:.data.x"
    )
    assert watching.stdout is not None
    try:
        assert (await watching.stdout.readline()).split() == [b"a", b"<none>"]
        await kubectl("patch", "configmap", "a", "-p", '{"data":{"x":"1"}}')
        assert (await watching.stdout.readline()).split() == [b"a", b"1"]
        await kubectl("create", "configmap", "b", "--from-literal=x=2")
        assert (await watching.stdout.readline()).split() == [b"b", b"2"]
    finally:
        watching.terminate()
        await watching.wait()


async def test_deleting_a_namespace_deletes_its_contents(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "shop")
    await kubectl("create", "configmap", "a", "-n", "shop")
    assert "deleted" in await kubectl("delete", "namespace", "shop", "--timeout=20s")
    assert "(NotFound)" in await kubectl("get", "namespace", "shop", code=1)


async def test_discovery_explain_and_access_review_commands_work(kubectl: Kubectl) -> None:
    resources = await kubectl("api-resources", "-o", "name")
    assert {"pods", "services", "deployments.apps", "endpointslices.discovery.k8s.io"} <= set(
        resources.split()
    )
    assert "targetPort\t<IntOrString>" in await kubectl("explain", "service.spec.ports")
    assert "yes" in await kubectl("auth", "can-i", "create", "pods")
    assert "running at https://127.0.0.1" in await kubectl("cluster-info")
