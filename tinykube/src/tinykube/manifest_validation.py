"""Validate manifests without a server: unknown fields, invalid values and misspelt kinds.

The API server's own rules apply: a manifest that is rejected here is rejected by ``tinykube up``.
"""

import asyncio
import difflib
import random
from collections.abc import Sequence
from typing import Any

from aiokube.client.manifests import Manifest, ManifestError
from aiokube.clock import SystemClock
from tinykube.server.errors import StatusError
from tinykube.server.objects import StorageKey
from tinykube.server.patch.service import TypedPatches
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import UserInfo
from tinykube.server.schema.service import TypeSchema
from tinykube.server.storage.store import open_storage
from tinykube.server.verbs.context import Backend, Caller, Target, copied, new_request
from tinykube.server.verbs.namespaces import NAMESPACES
from tinykube.server.verbs.options import WriteOptions
from tinykube.server.verbs.write import create

_SERVER_SET = (
    "resourceVersion", "uid", "creationTimestamp", "managedFields", "selfLink", "generation",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_OTHER_KINDS = (
    "Binding", "ClusterRole", "ClusterRoleBinding", "ComponentStatus", "CronJob", "CSIDriver", "CSINode",
    "CustomResourceDefinition", "HorizontalPodAutoscaler", "Ingress", "IngressClass", "Job", "LimitRange",
    "MutatingWebhookConfiguration", "NetworkPolicy", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget",
    "PodTemplate", "PriorityClass", "ReplicationController", "ResourceQuota", "Role", "RoleBinding", "RuntimeClass",
    "StorageClass", "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration", "VolumeAttachment",
)  # fmt: skip
_BUILT_IN_GROUPS = ("apps", "autoscaling", "batch", "extensions", "policy")
_SIMILAR = 0.75


def check_manifests(manifests: Sequence[Manifest], default_namespace: str) -> None:
    """Raise :class:`ManifestError` with one line per manifest that the API server would reject.

    Fields that the server sets or allocates are ignored, so the output of ``kubectl get -o yaml`` passes.
    Kinds that the server does not serve are skipped, unless they look like a misspelt known kind.
    """
    problems = asyncio.run(_problems(manifests, default_namespace))
    if problems:
        raise ManifestError("\n".join(problems))


async def _problems(manifests: Sequence[Manifest], default_namespace: str) -> list[str]:
    clock = SystemClock()
    registry = builtin_registry()
    storage = open_storage(None, describe=registry.describe, clock=clock)
    try:
        backend = Backend(
            storage=storage,
            registry=registry,
            schema=TypeSchema(),
            patches=TypedPatches(),
            clock=clock,
            rng=random.Random(0),  # noqa: S311 - nothing is stored
        )
        definitions = {(one.api_version, one.kind): one for one in registry.all()}
        known = sorted({kind for _, kind in definitions} | set(_OTHER_KINDS))
        problems = []
        for manifest in manifests:
            definition = definitions.get((manifest.api_version, manifest.kind))
            problem = (
                _unknown_kind(
                    manifest, known, [version for version, kind in definitions if kind == manifest.kind]
                )
                if definition is None
                else await _refusal(backend, definition, manifest, default_namespace)
            )
            if problem:
                name = manifest.name or manifest.document["metadata"].get("generateName", "")
                problems.append(f"{manifest.place}: {manifest.kind} {name}: {problem}")
        return problems
    finally:
        await storage.aclose()


def _unknown_kind(manifest: Manifest, known: Sequence[str], versions: Sequence[str]) -> str:
    group = manifest.api_version.rpartition("/")[0]
    if group and group not in _BUILT_IN_GROUPS and not group.endswith(".k8s.io"):
        return ""  # a custom resource
    if versions:
        return f"apiVersion {manifest.api_version} has no such kind; did you mean {', '.join(versions)}?"
    if manifest.kind in known:
        return ""
    close = difflib.get_close_matches(manifest.kind, known, n=1, cutoff=_SIMILAR)
    return f"unknown kind; did you mean {close[0]}?" if close else ""


async def _refusal(backend: Backend, definition: Any, manifest: Manifest, default_namespace: str) -> str:
    body = copied(manifest.document)
    metadata = body["metadata"]
    for field in _SERVER_SET:
        metadata.pop(field, None)
    spec = body.get("spec")
    if manifest.kind == "Service" and isinstance(spec, dict):
        for field in _ALLOCATED:
            if spec.get(field) not in ("None", ["None"]):
                spec.pop(field, None)
        ports = spec.get("ports")
        for port in ports if isinstance(ports, list) else ():
            if isinstance(port, dict):
                port.pop("nodePort", None)
    namespace = (manifest.namespace or default_namespace) if definition.namespaced else ""
    target = Target(definition, namespace)
    request = new_request(backend, Caller(UserInfo("tinykube")), dry_run=True)
    options = WriteOptions(dry_run=("All",), field_validation="Strict")
    try:
        if namespace and backend.storage.head(StorageKey(NAMESPACES, "", namespace)) is None:
            await _create_namespace(backend, namespace)
        await create(backend, target, request, options, body)
    except StatusError as error:
        return _plain(error.message)
    return ""


async def _create_namespace(backend: Backend, name: str) -> None:
    definition = next(one for one in backend.registry.all() if one.kind == "Namespace")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    request = new_request(backend, Caller(UserInfo("tinykube")), dry_run=False)
    await create(backend, Target(definition), request, WriteOptions(), body)


def _plain(message: str) -> str:
    """Strip the prefix that repeats the object's name."""
    for words in ("strict decoding error: ", "is invalid: "):
        _, found, rest = message.partition(words)
        if found:
            return rest
    return message
