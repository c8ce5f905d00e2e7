"""Objects on an API server under test, as plain dicts: apply, read, wait, delete, and set the status of pods."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiokube.client.api_resources import ApiResource, Discovery, object_path
from aiokube.client.errors import AlreadyExistsError, NotFoundError
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock

Json = dict[str, Any]
Manifests = Mapping[str, Any] | str | Path
"""An object, a text with YAML documents, or a path to one."""

_MERGE = "application/merge-patch+json"
_STATUS_SUBRESOURCES = frozenset(
    {"Pod", "Node", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
)
_POLL_SECONDS = 0.02
_STARTED = "2024-01-01T00:00:00Z"


class Objects:
    """Reads and writes by apiVersion, kind and name. All methods raise :class:`aiokube.client.errors.ApiError`."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._discovery = Discovery(client)
        self._addresses = _addresses()

    async def apply(self, *manifests: Manifests) -> list[Json]:
        """Create each object, or merge it into the existing one; return the stored objects in the same order.

        A manifest's status is written too, as a kubelet or controller would, so pods can be applied with
        their addresses. Objects without a namespace go to ``default``.
        """
        return [await self._apply(document) for one in manifests for document in documents_of(one)]

    async def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Json:
        """Return an object. Raises NotFoundError."""
        return await self._send("GET", await self._path(api_version, kind, namespace, name))

    async def wait_for(
        self,
        api_version: str,
        kind: str,
        name: str,
        condition: Callable[[Json], object],
        *,
        namespace: str = "default",
        timeout_seconds: float = 30.0,
    ) -> Json:
        """Return the object once ``condition`` is true for it; it need not exist yet. Raises TimeoutError."""
        deadline = self._clock.monotonic() + timeout_seconds
        while True:
            try:
                found: Json | None = await self.get(api_version, kind, name, namespace)
            except NotFoundError:
                found = None
            if found is not None and condition(found):
                return found
            if self._clock.monotonic() >= deadline:
                state = "it does not exist" if found is None else f"its status is {found.get('status')}"
                where = f"{namespace}/{name}" if namespace else name
                raise TimeoutError(
                    f"{kind} {where} did not meet the condition within {timeout_seconds:g} s: {state}"
                )
            await self._clock.sleep(_POLL_SECONDS)

    async def list_all(self, api_version: str, kind: str, namespace: str = "") -> list[Json]:
        """Return the objects of a kind in a namespace, or in all namespaces."""
        resource = await self._discovery.find(api_version, kind)
        answer = await self._send("GET", object_path(api_version, resource, namespace))
        return list(answer["items"])

    async def delete(self, api_version: str, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object without a grace period."""
        path = await self._path(api_version, kind, namespace, name)
        await self._send("DELETE", path, {"gracePeriodSeconds": 0})

    async def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace with a unique name; return the name."""
        body = {"metadata": {"generateName": f"{prefix}-"}}
        return str((await self._send("POST", "/api/v1/namespaces", body))["metadata"]["name"])

    async def run_pod(
        self,
        name: str,
        namespace: str = "default",
        *,
        ip: str = "",
        ready: bool = True,
        phase: str = "Running",
        node: str = "",
    ) -> Json:
        """Set the status of a pod as a kubelet would: running, or in another phase; return the pod.

        Without ``ip``, the pod keeps its address or gets the next one of 10.244.0.0/16. ``node`` binds the
        pod first if it is not bound yet.
        """
        path = await self._path("v1", "Pod", namespace, name)
        pod = await self._send("GET", path)
        if node and not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            await self._send("POST", f"{path}/binding", {"metadata": {"name": name}, "target": target})
        address = ip or pod["status"].get("podIP") or next(self._addresses)
        said = "True" if ready else "False"
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "started": phase == "Running",
                "state": {"running": {"startedAt": _STARTED}} if phase == "Running" else {},
            }
            for container in pod["spec"]["containers"]
        ]
        status = {
            "phase": phase,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": said, "lastTransitionTime": _STARTED}
                for kind in ("Ready", "ContainersReady")
            ],
            "containerStatuses": containers,
        }
        return await self._patch(f"{path}/status", {"status": status})

    async def service_account_token(
        self, name: str, namespace: str, audiences: Sequence[str], lifetime_seconds: int
    ) -> str:
        """Return a new token of a service account, which is created if it does not exist."""
        collection = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with contextlib.suppress(AlreadyExistsError):
            await self._send("POST", collection, {"metadata": {"name": name}})
        spec = {"audiences": list(audiences), "expirationSeconds": lifetime_seconds}
        answer = await self._send("POST", f"{collection}/{name}/token", {"spec": spec})
        return str(answer["status"]["token"])

    # ----------------------------------------------------------------------------------------------- internals

    async def _apply(self, document: Json) -> Json:
        api_version, kind = str(document["apiVersion"]), str(document["kind"])
        resource = await self._discovery.find(api_version, kind)
        metadata = document.get("metadata") or {}
        namespace = str(metadata.get("namespace") or "default")
        collection = object_path(api_version, resource, namespace)
        name = str(metadata.get("name") or "")
        if name and await self._is_there(f"{collection}/{name}"):
            made = await self._patch(f"{collection}/{name}", document)
        else:
            made = await self._send("POST", collection, document)
            name = made["metadata"]["name"]
        if "status" in document and kind in _STATUS_SUBRESOURCES:
            made = await self._patch(f"{collection}/{name}/status", {"status": document["status"]})
        return made

    async def _is_there(self, path: str) -> bool:
        try:
            await self._send("GET", path)
        except NotFoundError:
            return False
        return True

    async def _path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        resource: ApiResource = await self._discovery.find(api_version, kind)
        return object_path(api_version, resource, namespace, name)

    async def _patch(self, path: str, patch: Json) -> Json:
        answer = await self._client.request(
            "PATCH", path, body=msgspec.json.encode(patch), content_type=_MERGE
        )
        return _decoded(answer)

    async def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        data = None if body is None else msgspec.json.encode(body)
        return _decoded(await self._client.request(method, path, body=data))


def documents_of(manifests: Manifests) -> Sequence[Json]:
    """Return the objects of some manifests. Raises ValueError with one line for invalid ones."""
    if isinstance(manifests, Mapping):
        return [dict(manifests)]
    from aiokube.yaml_reader import YamlError, read_documents

    source, text = "the text", manifests
    if isinstance(manifests, Path):
        source, text = str(manifests), manifests.read_text()
    try:
        found = [document.value for document in read_documents(str(text)) if document.value is not None]
    except YamlError as error:
        raise ValueError(f"{source} is not valid YAML: {error}") from error
    for document in found:
        if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
            raise ValueError(
                f"{source} contains a document without apiVersion and kind: it is not a manifest"
            )
    return found


def _decoded(body: bytes) -> Json:
    document: Json = msgspec.json.decode(body)
    return document


def _addresses() -> Iterator[str]:
    return (f"10.244.{number // 250}.{number % 250 + 1}" for number in range(60_000))
