"""For any request, the response is a Status or the requested object, never an unexpected 500 or a crash.

Seeded; ``TINYKUBE_FUZZ_REQUESTS`` sets the number of requests, ``TINYKUBE_FUZZ_SEED`` the seed.
"""

import asyncio
import io
import json
import logging
import os
import random
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.server.http.served import ServedApi, a_server

REQUESTS = int(os.environ.get("TINYKUBE_FUZZ_REQUESTS", "1500"))
SEED = int(os.environ.get("TINYKUBE_FUZZ_SEED", "20261121"))

METHODS = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")
RESOURCES = (
    ("/api/v1", "configmaps", "ConfigMap", True),
    ("/api/v1", "services", "Service", True),
    ("/api/v1", "pods", "Pod", True),
    ("/api/v1", "endpoints", "Endpoints", True),
    ("/api/v1", "nodes", "Node", False),
    ("/api/v1", "namespaces", "Namespace", False),
    ("/api/v1", "events", "Event", True),
    ("/api/v1", "secrets", "Secret", True),
    ("/apis/apps/v1", "deployments", "Deployment", True),
    ("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", True),
    ("/apis/coordination.k8s.io/v1", "leases", "Lease", True),
    ("/apis/events.k8s.io/v1", "events", "Event", True),
    ("/apis/nothing/v7", "things", "Thing", True),
)
NAMES = ("a", "b", "default", "kubernetes", "A B", "a/b", "..", "%", "\x00", "ü", "x" * 300, "")
SUBRESOURCES = ("", "", "", "status", "scale", "binding", "eviction", "finalize", "nothing")
PARAMETERS = (
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "dryRun",
    "fieldManager", "fieldValidation", "force", "pretty", "gracePeriodSeconds", "propagationPolicy",
    "orphanDependents", "sendInitialEvents", "allowWatchBookmarks", "includeObject", "watch",
)  # fmt: skip
VALUES = (
    "", "0", "1", "-1", "true", "false", "All", "Exact", "NotOlderThan", "99999999999999999999", "5", "a=b", "a in (b,c)",
    "!a", "metadata.name=a", "a==", "((", "\\", "Strict", "Orphan", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", "ü", "\x00",
    "None", "Object", "1e9", "٣",
)  # fmt: skip
TYPES = (
    "application/json", "application/json", "application/yaml", "application/merge-patch+json",
    "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf", "text/plain", ";;;", "",
)  # fmt: skip
ACCEPTS = (
    "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "*/*", "text/html",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf", ",;=q", "a;q=x",
)  # fmt: skip
LEAVES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 80, 2**31, 2**63, 2**70, 1.5, 1e308, "", "a", "x" * 300, "10.0.0.1", "fd00::1", "500m",
    "2026-01-01T00:00:00Z", "TCP", "None", "\ud800", "\x00", [], {}, [None], {"": None},
)  # fmt: skip
KEYS = (
    "metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "resourceVersion",
    "generateName", "deletionTimestamp", "managedFields", "spec", "status", "data", "ports", "port", "selector",
    "containers", "image", "clusterIP", "clusterIPs", "type", "subsets", "addresses", "endpoints", "addressType",
    "conditions", "template", "replicas", "kind", "apiVersion", "op", "path", "value", "$patch", "$setElementOrder/ports",
    "involvedObject", "target", "preconditions", "gracePeriodSeconds", "propagationPolicy", "items", "finalizers", "",
)  # fmt: skip


def value(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(LEAVES)
    if kind < 0.55:
        return [value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice(KEYS): value(rng, depth - 1) for _ in range(rng.randrange(5))}


def body(rng: random.Random, kind: str) -> bytes:
    style = rng.random()
    if style < 0.08:
        return rng.randbytes(rng.randrange(60))
    if style < 0.1:
        return b"[" * 5000
    if style < 0.12:
        return b"k8s\x00" + rng.randbytes(rng.randrange(60))
    document = value(rng, 4)
    if isinstance(document, dict) and rng.random() < 0.8:
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        document = {**document, "metadata": {**metadata, "name": rng.choice(NAMES[:4])}}
        if rng.random() < 0.5:
            document.pop("kind", None)
            document.pop("apiVersion", None)
        else:
            document["kind"] = kind
    text = json.dumps(document).encode()
    if style > 0.93:
        cut = rng.randrange(len(text) + 1)
        text = text[:cut] + rng.randbytes(1) + text[cut + 1 :]
    return text


def path(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.05:
        return "/" + quote("".join(rng.choice("/apiv1%.?#\x00ü ") for _ in range(rng.randrange(30)))), ""
    root, plural, kind, namespaced = rng.choice(RESOURCES)
    parts = [root]
    if rng.random() < 0.03:
        parts.append("watch")
    if namespaced and rng.random() < 0.9:
        parts += ["namespaces", rng.choice(("default", "default", "default", "missing", ""))]
    parts.append(plural)
    if rng.random() < 0.6:
        parts.append(quote(rng.choice(NAMES), safe=""))
        subresource = rng.choice(SUBRESOURCES)
        if subresource:
            parts.append(subresource)
    query = "&".join(
        f"{rng.choice(PARAMETERS)}={quote(rng.choice(VALUES))}" for _ in range(rng.choice((0, 0, 1, 1, 2, 4)))
    )
    return "/".join(parts) + (f"?{query}" if query else ""), kind


async def one(api: ServedApi, rng: random.Random) -> None:
    method = rng.choice(METHODS)
    where, kind = path(rng)
    # No watch may outlast the test, nor a wait for a future version.
    where += ("&" if "?" in where else "?") + "timeoutSeconds=1"
    sent = body(rng, kind) if rng.random() < 0.8 else b""
    headers = {"Content-Type": rng.choice(TYPES), "Accept": rng.choice(ACCEPTS)}
    description = f"{method} {where} {headers} {sent!r}"
    async with api.session.request(
        method, aiohttp_url(api, where), data=io.BytesIO(sent), headers=headers
    ) as response:
        code = response.status
        if "watch" in where and code == 200:
            return  # the stream stays open: the response has started, and disconnecting is part of the test
        answer = await response.read()
    # kube-apiserver responds to non-numeric and forbidden versions with 500 without a reason.
    expected = (
        code < 500 or code in (501, 504) or b'"reason":"InternalError"' not in answer.replace(b" ", b"")
    )
    assert expected, f"{code} {answer!r} for {description}"
    if code >= 400 and method != "HEAD" and response.headers["Content-Type"] == "application/json":
        status = json.loads(answer)
        assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code), description


def aiohttp_url(api: ServedApi, where: str) -> Any:
    from yarl import URL

    return URL(api.server.url + where, encoded=True)


@pytest.mark.slow
async def test_random_requests_never_cause_an_internal_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinykube.server.verbs.read._FRESHNESS_SECONDS", 0.0)
    caplog.set_level(logging.ERROR)
    rng = random.Random(SEED)
    async with a_server() as api:
        for _ in range(REQUESTS):
            await one(api, rng)
        assert (await api("GET", "/readyz")).code == 200
        assert (await api("GET", "/api/v1/namespaces/default")).code == 200
    assert not caplog.records, f"seed {SEED}: {caplog.records[0].getMessage()}"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET " + b"/x" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n"
        + b"".join(b"H%d: v\r\n" % number for number in range(1000))
        + b"\r\n",
        b"\x00\x01\x02 nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://other/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_malformed_http_is_rejected_and_the_server_keeps_serving(sent: bytes) -> None:
    async with a_server() as api:
        import ssl

        tls = ssl.create_default_context(cadata=api.server.authority.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port, ssl=tls)
        try:
            writer.write(sent)
            await writer.drain()
            head = await reader.readline()
            assert head.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 2")), head
        finally:
            writer.close()
        assert (await api("GET", "/healthz")).code == 200
