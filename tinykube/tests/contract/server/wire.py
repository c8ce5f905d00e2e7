"""A plain HTTP client for API servers that hides nothing."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_PATIENCE_SECONDS = 8.0


class Answer(NamedTuple):
    """An HTTP response."""

    code: int
    headers: Mapping[str, str]
    warnings: list[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Watching:
    """The events of a watch as they arrive."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Any:
        """Return the next event; fail after a timeout or at the end of the stream."""
        line = await self._line()
        assert line, "the watch has ended"
        return json.loads(line)

    async def take(self, count: int) -> list[Any]:
        return [await self.next() for _ in range(count)]

    async def told(self, count: int) -> list[tuple[str, str]]:
        """Return types and names of the next events."""
        return [
            (event["type"], event["object"]["metadata"].get("name", "")) for event in await self.take(count)
        ]

    async def rest(self) -> list[Any]:
        """Return the remaining events of the stream."""
        found = []
        while line := await self._line():
            found.append(json.loads(line))
        return found

    async def _line(self) -> bytes:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self.response.content.readline()


class Api:
    """A server and a namespace for one test. ``{ns}`` in a path is replaced by that namespace."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        ns: str,
        *,
        embedded: bool,
        compact: Callable[["Api"], Awaitable[None]],
    ) -> None:
        self.session = session
        self.ns = ns
        self.is_embedded = embedded
        self._compact = compact

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        content_type: str | None = "application/json",
        accept: str | None = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; bodies other than bytes are encoded as JSON."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        data = None if raw is None else io.BytesIO(raw)
        sent = dict(headers or {})
        if data is not None and content_type is not None:
            sent["Content-Type"] = content_type
        if accept is not None:
            sent["Accept"] = accept
        async with self.session.request(
            method,
            self._path(path, query),
            data=data,
            headers=sent,
            skip_auto_headers=("Accept", "Content-Type", "User-Agent"),
        ) as response:
            warnings = list(response.headers.getall("Warning", []))
            return Answer(response.status, response.headers, warnings, await response.read())

    async def get(self, path: str, **options: Any) -> Any:
        return await self._good("GET", path, None, 200, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        return await self._good("POST", path, body, 201, **options)

    async def put(self, path: str, body: Any, *, code: int = 200, **options: Any) -> Any:
        return await self._good("PUT", path, body, code, **options)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **options: Any) -> Any:
        return await self._good("PATCH", path, body, 200, content_type=content_type, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self._good("DELETE", path, body, 200, **options)

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> "Refusal":
        """Send a request that must be rejected with a Status; return the Status."""
        answer = await self(method, path, body, **options)
        assert answer.code >= 400, (answer.code, answer.text)
        status = answer.json
        assert status["kind"] == "Status"
        assert status["apiVersion"] == "v1"
        assert status["status"] == "Failure"
        assert status["code"] == answer.code
        assert answer.headers["Content-Type"] == "application/json"
        return Refusal(answer.code, status.get("reason"), status.get("message"), status.get("details"))

    @asynccontextmanager
    async def watch(
        self, path: str, *, accept: str = "application/json", **query: Any
    ) -> AsyncIterator[Watching]:
        """Watch a collection."""
        query.setdefault("watch", "true")
        async with self.session.get(self._path(path, query), headers={"Accept": accept}) as response:
            assert response.status == 200, await response.text()
            yield Watching(response)

    async def config_map(self, name: str, labels: Mapping[str, str] | None = None, **data: str) -> Any:
        """Create a ConfigMap."""
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        return await self.post("/api/v1/namespaces/{ns}/configmaps", {"metadata": metadata, "data": data})

    async def compact(self) -> None:
        """Make the server compact its history of ConfigMaps up to now."""
        await self._compact(self)

    def _path(self, path: str, query: Mapping[str, Any] | None) -> Any:
        import yarl

        path = path.replace("{ns}", self.ns)
        if query:
            path += ("&" if "?" in path else "?") + urlencode(query, doseq=True)
        return yarl.URL(str(self.session._base_url).rstrip("/") + path, encoded=True)

    async def _good(self, method: str, path: str, body: Any, code: int, **options: Any) -> Any:
        answer = await self(method, path, body, **options)
        assert answer.code == code, (answer.code, answer.text)
        return answer.json


class Refusal(NamedTuple):
    """The summary of an error Status."""

    code: int
    reason: str | None
    message: str | None
    details: Any

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """Reason, field and message of each cause."""
        return [
            (cause.get("reason", ""), cause.get("field", ""), cause.get("message", ""))
            for cause in (self.details or {}).get("causes", [])
        ]


def version(obj: Any) -> int:
    """Return the resource version of an object or a list."""
    return int(obj["metadata"]["resourceVersion"])


def names(listed: Any) -> list[str]:
    """Return the names in a list."""
    return [item["metadata"]["name"] for item in listed["items"]]


CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
SERVICES = "/api/v1/namespaces/{ns}/services"
ENDPOINTS = "/api/v1/namespaces/{ns}/endpoints"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
EVENTS = "/api/v1/namespaces/{ns}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod to create."""
    containers = [{"name": "c", "image": "registry.invalid/none"}]
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": containers, **spec},
    }


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    """Return a Deployment to create."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def endpoint_slice(name: str, labels: Mapping[str, str] | None = None, *addresses: str) -> dict[str, Any]:
    """Return an EndpointSlice to create."""
    endpoints = [{"addresses": [address]} for address in addresses]
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "addressType": "IPv4",
        "endpoints": endpoints,
    }


def service(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Service to create."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
