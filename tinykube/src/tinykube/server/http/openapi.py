"""``/openapi``: routing and caching of documents, which the schema package creates."""

import hashlib
import zlib
from collections.abc import Callable
from typing import Protocol

import msgspec
from aiohttp import web

from tinykube.server.http.codec import encode_json
from tinykube.server.http.query import first
from tinykube.server.http.request_info import RequestInfo
from tinykube.server.http.responses import NOT_CACHED, respond, text
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Registry
from tinykube.server.schema.openapi_v2 import swagger
from tinykube.server.schema.openapi_v2_protobuf import swagger_protobuf

_V2_PROTOBUF_TYPES = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
"""Responses use the former; clients that request the latter, older name cannot parse it themselves."""
_V2, _V2_PROTOBUF = "v2", "v2 protobuf"
_GZIP_LEVEL, _GZIP = 4, 31
"""zlib's number for its largest window, in gzip's frame."""


class _Document(msgspec.Struct, frozen=True):
    """A cached document: compressed to a fifth or less, decompressed only for clients without gzip."""

    packed: bytes
    digest: str


class OpenApiSource(Protocol):
    """Creates the OpenAPI v3 document of a group version."""

    def document(self, registry: Registry, group: str, version: str) -> JsonObject:
        """Return the document: types and the paths of registered resources."""
        ...


class OpenApi:
    """Serves the documents; each is created on first use, and again after the registry has changed."""

    def __init__(self, registry: Registry, source: OpenApiSource) -> None:
        self._registry = registry
        self._source = source
        self._revision = -1
        self._documents: dict[str, _Document] = {}

    def answer(self, info: RequestInfo, rest: list[str]) -> web.StreamResponse:
        """Return the index, or one document."""
        self._forget_what_is_old()
        if not [part for part in rest if part]:
            return self._index(info)
        found = self._document("/".join(rest))
        if found is None:
            return text(404, "404 page not found\n", audit_id=info.audit_id)
        is_named = first(info.query, "hash") == found.digest
        cache_control = "public, immutable" if is_named else NOT_CACHED
        return _kept(info, found, "application/json", cache_control)

    def answer_v2(self, info: RequestInfo) -> web.StreamResponse:
        """Return the document of version 2: all groups in one, as JSON or protobuf.

        kubectl requests protobuf for kinds missing in version 3 (a ``List``, or a misspelt kind) and for
        ``explain --output=plaintext-openapiv2``.
        """
        self._forget_what_is_old()
        for media_range in info.request.headers.get("Accept", "").split(","):
            if media_range.partition(";")[0].strip() in _V2_PROTOBUF_TYPES:
                found = self._made(_V2_PROTOBUF, lambda: swagger_protobuf(self._swagger()))
                return _kept(info, found, _V2_PROTOBUF_TYPES[0], NOT_CACHED)
        found = self._made(_V2, lambda: encode_json(self._swagger()))
        return _kept(info, found, "application/json", NOT_CACHED)

    def _swagger(self) -> JsonObject:
        return swagger(
            self._source.document(self._registry, group, version)
            for group, versions in self._registry.versions().items()
            for version in versions
        )

    def _forget_what_is_old(self) -> None:
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision

    def _index(self, info: RequestInfo) -> web.StreamResponse:
        paths = {}
        for group, versions in self._registry.versions().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                found = self._document(name)
                if found is not None:
                    paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={found.digest}"}
        return _kept(info, _packed(encode_json({"paths": paths})), "text/plain; charset=utf-8", NOT_CACHED)

    def _document(self, name: str) -> _Document | None:
        """Return the document of a group version, named as in its URL; ``None`` for an unknown one."""
        match name.split("/"):
            case ["api", version]:
                group = ""
            case ["apis", group, version]:
                pass
            case _:
                return None
        if version not in self._registry.versions().get(group, ()):
            return None
        return self._made(name, lambda: encode_json(self._source.document(self._registry, group, version)))

    def _made(self, name: str, make: Callable[[], bytes]) -> _Document:
        found = self._documents.get(name)
        if found is None:
            found = self._documents[name] = _packed(make())
        return found


def _packed(body: bytes) -> _Document:
    digest = hashlib.sha256(body).hexdigest().upper()
    return _Document(zlib.compress(body, _GZIP_LEVEL, wbits=_GZIP), digest)


def _kept(
    info: RequestInfo, document: _Document, content_type: str, cache_control: str
) -> web.StreamResponse:
    etag = f'"{document.digest}"'
    headers = {"Etag": etag, "Vary": "Accept, Accept-Encoding"}
    code, body = 200, b""
    if info.request.headers.get("If-None-Match", "") == etag:
        code = 304
    elif takes_gzip(info.request.headers.get("Accept-Encoding", "")):
        body = document.packed
        headers["Content-Encoding"] = "gzip"
    else:
        body = zlib.decompress(document.packed, wbits=_GZIP)
    return respond(
        code, body, content_type, audit_id=info.audit_id, headers=headers, cache_control=cache_control
    )


def takes_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header accepts gzip: by name or ``*``, with a weight above 0."""
    weights: dict[str, float] = {}
    for one in accept_encoding.split(","):
        name, *parameters = (part.strip().lower() for part in one.split(";"))
        weight = next((value[2:] for value in parameters if value.startswith("q=")), "1")
        try:
            weights[name] = float(weight)
        except ValueError:
            weights[name] = 0.0  # invalid weight: do not compress
    return weights.get("gzip", weights.get("*", 0.0)) > 0
