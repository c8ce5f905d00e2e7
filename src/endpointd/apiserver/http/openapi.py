"""``/openapi``: the documents are made from the schema; here is how they are found, and kept by clients."""

import hashlib
from typing import Protocol

from aiohttp import web

from endpointd.apiserver.http.answers import respond, text
from endpointd.apiserver.http.asked import Asked
from endpointd.apiserver.http.codec import encode_json
from endpointd.apiserver.http.query import first
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.registry.definition import Registry
from endpointd.apiserver.schema.openapi_v2 import swagger

_V2_PROTOBUF = b"\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1B\x00"
"""The same as gnostic's ``Document``: swagger (1), info (2) with title (1) and version (2), paths (8)."""
_V2_PROTOBUF_TYPES = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
"""The former is what it is called in answers: clients asking by the latter, older name cannot parse it themselves."""
_V2_PROTOBUF_DIGEST = hashlib.sha256(_V2_PROTOBUF).hexdigest().upper()
_V2 = "v2"


class OpenApiSource(Protocol):
    """Makes the OpenAPI v3 document of a group version."""

    def document(self, registry: Registry, group: str, version: str) -> JsonObject:
        """Return the document: types, and the paths of what the registry has."""
        ...


class OpenApi:
    """Serves the documents; each is made when first asked for, and made again when the registry has changed."""

    def __init__(self, registry: Registry, source: OpenApiSource) -> None:
        self._registry = registry
        self._source = source
        self._revision = -1
        self._bodies: dict[str, tuple[bytes, str]] = {}

    def answer(self, asked: Asked, rest: list[str]) -> web.Response:
        """Return the index, or one document."""
        self._forget_what_is_old()
        if not [part for part in rest if part]:
            return self._index(asked)
        found = self._document("/".join(rest))
        if found is None:
            return text(404, "404 page not found\n", audit_id=asked.audit_id)
        body, digest = found
        cache_control = "public, immutable" if first(asked.query, "hash") == digest else "no-cache, private"
        return self._kept(asked, body, digest, "application/json", cache_control)

    def answer_v2(self, asked: Asked) -> web.Response:
        """Return the document of version 2: all groups in one, as JSON.

        In protobuf it describes nothing. kubectl falls back to that for kinds that version 3 does not know (a ``List``,
        say, or one that is misspelt): it then leaves their validation to the server, where a 404 would be the end of the
        command.
        """
        for media_range in asked.request.headers.get("Accept", "").split(","):
            media_type = media_range.partition(";")[0].strip()
            if media_type in _V2_PROTOBUF_TYPES:
                return self._kept(
                    asked, _V2_PROTOBUF, _V2_PROTOBUF_DIGEST, _V2_PROTOBUF_TYPES[0], "no-cache, private"
                )
        self._forget_what_is_old()
        if _V2 not in self._bodies:
            documents = (
                self._source.document(self._registry, group, version)
                for group, versions in self._registry.versions().items()
                for version in versions
            )
            body = encode_json(swagger(documents))
            self._bodies[_V2] = (body, hashlib.sha256(body).hexdigest().upper())
        return self._kept(asked, *self._bodies[_V2], "application/json", "no-cache, private")

    def _forget_what_is_old(self) -> None:
        if self._revision != self._registry.revision:
            self._bodies.clear()
            self._revision = self._registry.revision

    def _index(self, asked: Asked) -> web.Response:
        paths = {}
        for group, versions in self._registry.versions().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                found = self._document(name)
                if found is not None:
                    paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={found[1]}"}
        body = encode_json({"paths": paths})
        digest = hashlib.sha256(body).hexdigest().upper()
        return self._kept(asked, body, digest, "text/plain; charset=utf-8", "no-cache, private")

    def _document(self, name: str) -> tuple[bytes, str] | None:
        found = self._bodies.get(name)
        if found is not None:
            return found
        match name.split("/"):
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                return None
        if version not in self._registry.versions().get(group, ()):
            return None
        body = encode_json(self._source.document(self._registry, group, version))
        made = self._bodies[name] = (body, hashlib.sha256(body).hexdigest().upper())
        return made

    def _kept(
        self, asked: Asked, body: bytes, digest: str, content_type: str, cache_control: str
    ) -> web.Response:
        etag = f'"{digest}"'
        headers = {"Etag": etag, "Vary": "Accept"}
        code = 200
        if asked.request.headers.get("If-None-Match", "") == etag:
            code, body = 304, b""
        return respond(
            code, body, content_type, audit_id=asked.audit_id, headers=headers, cache_control=cache_control
        )
