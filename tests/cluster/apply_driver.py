"""The real and the embedded server, driven by the same random or selected writes, and the comparison of their answers."""

import io
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from tinykube.server.api_server import ApiServer
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.settings import ServerSettings
from tinykube.testing.control_plane import ControlPlane

_TOKEN = "parityparityparity"
APPLY = "application/apply-patch+yaml"
PATCHES = {
    "apply": APPLY,
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
COLLECTIONS = {
    "ConfigMap": "/api/v1/namespaces/{ns}/configmaps",
    "Service": "/api/v1/namespaces/{ns}/services",
    "Pod": "/api/v1/namespaces/{ns}/pods",
    "Event": "/api/v1/namespaces/{ns}/events",
    "NewEvent": "/apis/events.k8s.io/v1/namespaces/{ns}/events",
    "Deployment": "/apis/apps/v1/namespaces/{ns}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{ns}/statefulsets",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
    "ServiceAccount": "/api/v1/namespaces/{ns}/serviceaccounts",
    "Endpoints": "/api/v1/namespaces/{ns}/endpoints",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
}
API_VERSIONS = {
    "Deployment": "apps/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "NewEvent": "events.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
}
Change = Callable[[dict[str, Any]], None]


class Write(msgspec.Struct, frozen=True):
    """One write. ``how``: ``post``, ``put``, ``apply``, ``json``, ``merge``, ``strategic``, ``get``, ``delete``.

    ``kind`` is one of :data:`COLLECTIONS`, or a path.
    """

    how: str
    kind: str
    name: str
    body: Any = None
    manager: str = ""
    force: bool = False
    subresource: str = ""
    change: Change | None = None
    """Applied to the server's current object, which is then sent as the body."""
    query: str = ""
    words: bool = True
    """Whether error messages are compared as well."""
    agent: str = "tester/1"


class Side:
    """One server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def write(self, write: Write, namespace: str) -> tuple[int, Any]:
        """Send a write; return the status code and the comparable part of the response."""
        path = COLLECTIONS.get(write.kind, write.kind).format(ns=namespace)
        if write.how != "post":
            path += f"/{write.name}"
        body = write.body
        if write.change is not None:
            code, body = await self._send("GET", path, None, "application/json", write.agent)
            if code != 200:
                return code, comparable(body, words=write.words)
            write.change(body)
        path += f"/{write.subresource}" if write.subresource else ""
        asked = [f"fieldManager={write.manager}"] if write.manager else []
        asked += ["force=true"] if write.force else []
        asked += [write.query] if write.query else []
        path += "?" + "&".join(asked)
        method = {"post": "POST", "put": "PUT", "get": "GET", "delete": "DELETE"}.get(write.how, "PATCH")
        kind = PATCHES.get(write.how, "application/json")
        code, answer = await self._send(method, path, body, kind, write.agent)
        return code, comparable(answer, words=write.words)

    async def read(self, path: str, headers: dict[str, str]) -> dict[str, Any]:
        """Return the response of a path in the form requested by the headers; empty for an error."""
        headers = {"Authorization": f"Bearer {self._token}", **headers}
        async with self._session.get(self._url + path, headers=headers) as response:
            answer: dict[str, Any] = await response.json(content_type=None) if response.status == 200 else {}
            return answer

    async def _send(self, method: str, path: str, body: Any, kind: str, agent: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "User-Agent": agent}
        data = None
        if body is not None:
            data = io.BytesIO(body.encode() if isinstance(body, str) else json.dumps(body).encode())
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            return response.status, await response.json(content_type=None)


_DRAWN = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")


def comparable(answer: Any, *, words: bool = True) -> Any:
    """Return a response without generated and time-dependent values, with managed fields in canonical order."""
    if not isinstance(answer, dict):
        return answer
    if answer.get("kind") == "Status":
        return _refusal(answer, words=words)
    metadata = answer.get("metadata", {})
    for name in _DRAWN:
        metadata.pop(name, None)
    entries = metadata.get("managedFields")
    if entries is not None:
        for entry in entries:
            entry["time"] = "time" in entry
        entries.sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    spec = answer.get("spec")
    if answer.get("kind") == "Service" and isinstance(spec, dict):
        if spec.get("clusterIP", "None") != "None":
            spec["clusterIP"], spec["clusterIPs"] = "drawn", len(spec["clusterIPs"])
        for port in spec.get("ports", ()):
            if "nodePort" in port:
                port["nodePort"] = "drawn"
    return answer


def _refusal(status: dict[str, Any], *, words: bool) -> Any:
    told = {name: status.get(name) for name in ("status", "reason", "code")}
    if not words or status.get("code") == 422:
        return told  # messages of a kind's validation are compared by other tests
    details = status.get("details") or {}
    causes = sorted(json.dumps(cause, sort_keys=True) for cause in details.get("causes", ()))
    return {**told, "message": sorted(str(status.get("message")).split("\n")), "causes": causes}


async def same(
    sides: tuple[Side, Side], write: Write, namespace: str, *, any_problem: bool = False
) -> tuple[int, Any]:
    """Send a write to both servers; fail if the responses differ. Return the real server's response.

    With ``any_problem``, both must reject the body, with any message: the real server visits members in random order and
    stops at the first unknown one.
    """
    real = await sides[0].write(write, namespace)
    ours = await sides[1].write(write, namespace)
    if any_problem and _is_untyped(real) and _is_untyped(ours):
        return real
    assert ours == real, f"{write}\nreal {json.dumps(real)}\nours {json.dumps(ours)}"
    return real


def _is_untyped(answer: tuple[int, Any]) -> bool:
    return answer[0] == 500 and "failed to create typed patch object" in json.dumps(answer[1])


# ------------------------------------------------------------------------------- random documents and writes

_LETTERS = "abc"


def text_map(rng: random.Random, most: int = 3) -> dict[str, str]:
    return {rng.choice(_LETTERS): rng.choice("123") for _ in range(rng.randrange(most + 1))}


def some(rng: random.Random, fields: dict[str, Callable[[], Any]], chance: float = 0.5) -> dict[str, Any]:
    return {name: make() for name, make in fields.items() if rng.random() < chance}


def one_each(
    rng: random.Random, key: str, values: list[Any], make: Callable[[], dict[str, Any]]
) -> list[Any]:
    chosen = rng.sample(values, rng.randrange(1, len(values) + 1))
    return [{key: value, **make()} for value in chosen]


def container(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Callable[[], Any]] = {
        "env": lambda: one_each(rng, "name", ["X", "Y", "Z"], lambda: {"value": rng.choice("12")}),
        "args": lambda: rng.sample(_LETTERS, 2),
        "ports": lambda: one_each(
            rng,
            "containerPort",
            [80, 81],
            lambda: some(
                rng, {"protocol": lambda: rng.choice(["TCP", "UDP"]), "name": lambda: "p" + rng.choice("12")}
            ),
        ),
        "resources": lambda: {"limits": {"cpu": rng.choice(["500m", "1"]), "memory": "1Gi"}},
        "livenessProbe": lambda: {"httpGet": {"port": 80}},
        "imagePullPolicy": lambda: rng.choice(["Always", "Never"]),
        "volumeMounts": lambda: one_each(rng, "mountPath", ["/a", "/b"], lambda: {"name": "v"}),
        "securityContext": lambda: some(rng, {"runAsUser": lambda: 1, "privileged": lambda: True}),
    }
    return {"image": f"i:{rng.choice('12')}", **some(rng, fields, 0.3)}


def pod_spec(rng: random.Random, *, whole: bool) -> dict[str, Any]:
    fields: dict[str, Callable[[], Any]] = {
        "nodeSelector": lambda: text_map(rng),
        "terminationGracePeriodSeconds": lambda: rng.choice([5, 30]),
        "tolerations": lambda: [{"key": rng.choice(_LETTERS), "operator": "Exists"}],
        "imagePullSecrets": lambda: one_each(rng, "name", ["x", "y"], dict),
        "hostAliases": lambda: one_each(rng, "ip", ["10.0.0.1", "10.0.0.2"], lambda: {"hostnames": ["h"]}),
        "securityContext": lambda: some(rng, {"runAsUser": lambda: 1}),
        "affinity": lambda: {"podAntiAffinity": {}},
    }
    made = some(rng, fields, 0.25)
    if whole or rng.random() < 0.7:
        made["containers"] = one_each(rng, "name", ["c", "d"], lambda: container(rng))
    made["volumes"] = [{"name": "v", **rng.choice([{"emptyDir": {}}, {"configMap": {"name": "m"}}])}]
    return made


def port(rng: random.Random) -> list[Any]:
    ports = one_each(
        rng,
        "port",
        [80, 81, 82],
        lambda: some(
            rng,
            {"targetPort": lambda: rng.choice([8080, "web"]), "protocol": lambda: rng.choice(["TCP", "UDP"])},
        ),
    )
    return [{"name": f"p{one['port']}", **one} for one in ports]


def metadata(rng: random.Random) -> dict[str, Any]:
    return some(
        rng,
        {
            "labels": lambda: text_map(rng),
            "annotations": lambda: text_map(rng),
            "finalizers": lambda: [f"x/{one}" for one in rng.sample(_LETTERS, rng.randrange(1, 3))],
            "ownerReferences": lambda: [
                {"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": f"u{one}"}
                for one in rng.sample("12", rng.randrange(1, 3))
            ],
        },
        0.4,
    )


def content(rng: random.Random, kind: str, *, whole: bool) -> dict[str, Any]:
    """Return the content of a document except its name; with ``whole`` it is valid on its own."""
    if kind == "ConfigMap":
        return some(rng, {"data": lambda: text_map(rng), "binaryData": lambda: {"x": "YQ=="}}, 0.8)
    if kind == "Service":
        fields: dict[str, Callable[[], Any]] = {
            "selector": lambda: text_map(rng),
            "sessionAffinity": lambda: rng.choice(["None", "ClientIP"]),
            "type": lambda: rng.choice(["ClusterIP", "NodePort"]),
            "externalIPs": lambda: ["1.2.3.4"],
            "publishNotReadyAddresses": lambda: rng.choice([True, False]),
            "internalTrafficPolicy": lambda: "Cluster",
        }
        made = some(rng, fields, 0.4)
        if whole or rng.random() < 0.7:
            made["ports"] = port(rng)
        return {"spec": made}
    if kind == "EndpointSlice":
        made = {"addressType": "IPv4"} if whole or rng.random() < 0.8 else {}
        made["endpoints"] = [
            {"addresses": [f"10.0.0.{rng.randrange(1, 5)}"], **some(rng, {"nodeName": lambda: "n"})}
            for _ in range(rng.randrange(3))
        ]
        return {**made, **some(rng, {"ports": lambda: [{"name": "p", "port": rng.choice([80, 81])}]})}
    if kind == "Pod":
        return {"spec": pod_spec(rng, whole=True)} if whole else {"spec": _pod_update(rng)}
    made = some(
        rng,
        {
            "replicas": lambda: rng.choice([0, 1, 2]),
            "minReadySeconds": lambda: rng.choice([0, 1]),
            "paused": lambda: rng.choice([True, False]),
            "strategy": lambda: rng.choice(
                [{"type": "Recreate"}, {"rollingUpdate": {"maxSurge": rng.choice([1, "10%"])}}]
            ),
        },
        0.4,
    )
    if whole or rng.random() < 0.6:
        made["selector"] = {"matchLabels": {"app": "a"}}
    if whole or rng.random() < 0.8:
        template_labels = {"app": "a", **text_map(rng, 1)}
        made["template"] = {"metadata": {"labels": template_labels}, "spec": pod_spec(rng, whole=whole)}
    return {"spec": made}


def _pod_update(rng: random.Random) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": f"i:{rng.choice('123')}"}]}


def document(rng: random.Random, kind: str, name: str, *, whole: bool) -> dict[str, Any]:
    """Return a random document."""
    return {
        "apiVersion": API_VERSIONS.get(kind, "v1"),
        "kind": kind,
        "metadata": {"name": name, **metadata(rng)},
        **content(rng, kind, whole=whole),
    }


def status_of(rng: random.Random, kind: str) -> dict[str, Any]:
    if kind == "Service":
        return (
            {"loadBalancer": {"ingress": [{"ip": f"1.1.1.{rng.choice('12')}"}]}}
            if rng.random() < 0.5
            else {"conditions": [_condition(rng)]}
        )
    if kind == "Pod":
        return {"phase": rng.choice(["Running", "Pending"]), "conditions": [_condition(rng)]}
    return {"observedGeneration": 1, "conditions": [_condition(rng)]}


def _condition(rng: random.Random) -> dict[str, Any]:
    return {
        "type": rng.choice(["A", "B"]),
        "status": rng.choice(["True", "False"]),
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def random_write(rng: random.Random, kind: str, name: str) -> Write:
    """Return a random write to an object."""
    manager = rng.choice(["m1", "m2", "m3"])
    roll = rng.random()
    has_status = kind in ("Service", "Pod", "Deployment")
    if has_status and roll < 0.12:
        how = rng.choice(["apply", "merge"])
        status: dict[str, Any] = {"status": status_of(rng, kind)}
        if how == "merge":
            return Write(how, kind, name, status, manager, subresource="status", words=False)
        status |= {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": {"name": name}}
        return Write(how, kind, name, status, manager, rng.random() < 0.5, "status", words=False)
    if roll < 0.6:
        body = document(rng, kind, name, whole=rng.random() < 0.5)
        return Write("apply", kind, name, body, manager, rng.random() < 0.4)
    if roll < 0.7:
        body = document(rng, kind, name, whole=True)
        return Write("put", kind, name, body, manager, words=False)
    if roll < 0.78:
        fresh = document(rng, kind, name, whole=False)

        def change(obj: dict[str, Any]) -> None:
            for part in ("labels", "annotations"):
                if part in fresh["metadata"]:
                    obj["metadata"][part] = fresh["metadata"][part]

        return Write("put", kind, name, None, manager, change=change, words=False)
    if roll < 0.95:
        body = document(rng, kind, name, whole=False)
        if rng.random() < 0.3:
            body["metadata"]["labels"] = None
        return Write(rng.choice(["merge", "strategic"]), kind, name, body, manager, words=False)
    path = rng.choice(["/metadata/labels", "/metadata/annotations", "/data", "/spec/selector"])
    return Write(
        "json",
        kind,
        name,
        [{"op": rng.choice(["add", "remove"]), "path": path, "value": text_map(rng)}],
        manager,
        words=False,
    )


@asynccontextmanager
async def both_sides(plane: ControlPlane) -> AsyncIterator[tuple[Side, Side]]:
    """Yield the real server and an embedded one that runs during the block."""
    settings = ServerSettings(token=_TOKEN, lifecycle=False, shutdown_seconds=1.0)
    async with ApiServer(settings, builtin_registry()) as server:
        there = ssl.create_default_context(cadata=plane.certificate_authority.decode())
        here = ssl.create_default_context(cadata=server.authority.decode())
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=there)) as real,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=here)) as ours,
        ):
            yield Side(real, plane.url, plane.admin_token), Side(ours, server.url, _TOKEN)
