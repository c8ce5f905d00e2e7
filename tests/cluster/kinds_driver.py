"""Drive both servers with the same steps and compare their responses."""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

Change = Callable[[dict[str, Any]], None]

PATHS: Mapping[str, str] = {
    "pods": "/api/v1/namespaces/{ns}/pods",
    "services": "/api/v1/namespaces/{ns}/services",
    "configmaps": "/api/v1/namespaces/{ns}/configmaps",
    "secrets": "/api/v1/namespaces/{ns}/secrets",
    "serviceaccounts": "/api/v1/namespaces/{ns}/serviceaccounts",
    "endpoints": "/api/v1/namespaces/{ns}/endpoints",
    "events": "/api/v1/namespaces/{ns}/events",
    "newevents": "/apis/events.k8s.io/v1/namespaces/{ns}/events",
    "namespaces": "/api/v1/namespaces",
    "nodes": "/api/v1/nodes",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
    "endpointslices": "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
    "deployments": "/apis/apps/v1/namespaces/{ns}/deployments",
    "replicasets": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "statefulsets": "/apis/apps/v1/namespaces/{ns}/statefulsets",
    "daemonsets": "/apis/apps/v1/namespaces/{ns}/daemonsets",
    "controllerrevisions": "/apis/apps/v1/namespaces/{ns}/controllerrevisions",
}
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Step(msgspec.Struct, frozen=True):
    """One request; ``kind`` is one of :data:`PATHS`, or a path.

    ``change`` is applied to the server's object, which is then PUT; without it ``body`` is sent unchanged.
    """

    method: str
    kind: str
    name: str = ""
    subresource: str = ""
    body: Any = None
    change: Change | None = None
    content_type: str = "application/json"
    as_table: bool = False
    query: str = ""
    code_only: bool = False


class Case(msgspec.Struct, frozen=True):
    """Steps in a separate namespace; all responses are compared."""

    title: str
    steps: tuple[Step, ...]


class Answer(msgspec.Struct, frozen=True):
    """The comparable part of a response."""

    code: int
    warnings: tuple[str, ...]
    body: Any


class Server:
    """One of the two servers."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def send(self, step: Step, namespace: str) -> Answer:
        """Send one request; a change is read, applied and PUT."""
        path = PATHS.get(step.kind, step.kind).format(ns=namespace)
        path += f"/{step.name}" if step.name else ""
        body = step.body
        if step.change is not None:
            code, body, warnings = await self._request("GET", path, None, step)
            if code != 200:
                return Answer(code, tuple(sorted(warnings)), comparable(body))
            step.change(body)
        path += f"/{step.subresource}" if step.subresource else ""
        code, answer, warnings = await self._request(step.method, path + step.query, body, step)
        return Answer(code, tuple(sorted(warnings)), None if step.code_only else comparable(answer))

    async def make_namespace(self, name: str) -> None:
        """Create a namespace for a case."""
        step = Step("POST", "namespaces", body={"metadata": {"name": name}})
        code, answer, _ = await self._request("POST", PATHS["namespaces"], step.body, step)
        assert code == 201, answer

    async def _request(self, method: str, path: str, body: Any, step: Step) -> tuple[int, Any, list[str]]:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": step.content_type,
            "Accept": _TABLE if step.as_table else "application/json",
        }
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._url + path, data=data and io.BytesIO(data.encode()), headers=headers
        ) as response:
            text = await response.text()
            return (
                response.status,
                json.loads(text) if text.startswith(("{", "[")) else text,
                response.headers.getall("Warning", []),
            )


# ------------------------------------------------------------------------------------------ comparison

_DRAWN = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"}
_TIMES = {"lastTransitionTime", "deletionTimestamp"}
_DRAWN_IPV4 = re.compile(r"\b10\.96\.(?!0\.)\d+\.\d+\b")  # the first 256 are never allocated
_DRAWN_IPV6 = re.compile(r"\bfd00:10:96::[0-9a-f]{3,4}\b")
_FIRST_DRAWN_PORT = 30_086
_PORTS = {"nodePort", "healthCheckNodePort"}
_DRAWN_PORT_TEXT = re.compile(r":3\d{4}/")
_DRAWN_DUPLICATE = re.compile(r"Duplicate value: 3\d{4}\b")
_AGE = re.compile(r"^\d+s$")


def comparable(value: Any, key: str = "") -> Any:
    """Return a response without random and time-dependent values."""
    if isinstance(value, dict):
        if value.get("kind") == "Status" and value.get("status") == "Failure":
            return _refusal(value)
        if value.get("kind") == "Table":
            return _table(value)
        return {name: comparable(item, name) for name, item in sorted(value.items()) if name not in _DRAWN}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if key in _PORTS and isinstance(value, int) and value >= _FIRST_DRAWN_PORT:
        return "drawn"
    if key in _TIMES and value:
        return "a time"
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    text = _DRAWN_DUPLICATE.sub("Duplicate value: drawn", text)
    return _DRAWN_IPV6.sub("IPv6", _DRAWN_IPV4.sub("IPv4", text))


def _refusal(status: dict[str, Any]) -> Any:
    """Keep the fields that clients read; Go's order of errors is random for maps."""
    details = status.get("details") or {}
    causes = sorted(
        (one.get("reason"), one.get("field"), _first_line(one.get("message", "")))
        for one in details.get("causes", ())
    )
    return {
        "code": status.get("code"),
        "reason": status.get("reason"),
        "message": _message(status.get("message", "")),
        "details": {name: value for name, value in sorted(details.items()) if name not in ("causes", "uid")},
        "causes": causes,
    }


def _first_line(text: str) -> str:
    """Return a message without the diff of specs that the real server prints in Go syntax."""
    return _text(text.partition("\n")[0])


def _message(text: str) -> Any:
    head, bracket, rest = text.partition(" is invalid: [")
    if not bracket:
        return _first_line(text)
    return [head, *sorted(_first_line(part) for part in rest.removesuffix("]").split(", "))]


def _table(table: dict[str, Any]) -> Any:
    """Keep names, types, formats and priorities of the columns, and the cells."""
    columns = [
        (one["name"], one["type"], one.get("format", ""), one.get("priority", 0))
        for one in table["columnDefinitions"]
    ]
    rows = [[_cell(cell) for cell in row["cells"]] for row in table["rows"]]
    return {"columns": columns, "rows": rows}


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    return "age" if _AGE.match(cell) else _DRAWN_PORT_TEXT.sub(":drawn/", _text(cell))


# ------------------------------------------------------------------------------------ writing cases


def create(kind: str, body: Any, query: str = "") -> Step:
    """POST a body to the collection."""
    return Step("POST", kind, body=body, query=query)


def change(kind: str, name: str, make: Change, subresource: str = "") -> Step:
    """Read an object, change it, and PUT it."""
    return Step("PUT", kind, name, subresource, change=make)


def put(kind: str, name: str, body: Any) -> Step:
    """PUT a body unchanged."""
    return Step("PUT", kind, name, body=body)


def patch(kind: str, name: str, body: Any, subresource: str = "") -> Step:
    """Send a merge patch."""
    return Step("PATCH", kind, name, subresource, body=body, content_type="application/merge-patch+json")


def delete(kind: str, name: str, body: Any = None) -> Step:
    """DELETE an object."""
    return Step("DELETE", kind, name, body=body)


def read(kind: str, name: str, subresource: str = "") -> Step:
    """GET an object."""
    return Step("GET", kind, name, subresource)


def table(kind: str, name: str) -> Step:
    """GET an object as a table."""
    return Step("GET", kind, name, as_table=True)


def case(title: str, *steps: Step) -> Case:
    """Return a case."""
    return Case(title, steps)


def readable(differences: Sequence[tuple[str, str, Answer, Answer]]) -> str:
    """Return all differences as text: the case, the step, and the differing values."""
    lines = [f"{len(differences)} answers differ:"]
    for title, step, real, ours in differences:
        lines.append(f"* {title} ({step})")
        lines += [f"    {line}" for line in _differing(_members(real), _members(ours), "")]
    return "\n".join(lines)


def _members(answer: Answer) -> Any:
    return {"code": answer.code, "warnings": list(answer.warnings), "body": answer.body}


def _differing(real: Any, ours: Any, path: str) -> list[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted({*real, *ours})
        return [line for key in keys for line in _differing(real.get(key), ours.get(key), f"{path}.{key}")]
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        pairs = enumerate(zip(real, ours, strict=True))
        return [line for index, (one, other) in pairs for line in _differing(one, other, f"{path}[{index}]")]
    if real == ours:
        return []
    return [f"{path}: real {json.dumps(real)}", f"{path}: ours {json.dumps(ours)}"]
