"""Serving of OpenAPI documents: created once, compressed on request, cached by ETag."""

import gzip
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from tests.unit.server.http.served import a_server

from tinykube.server.http.openapi import OpenApi, takes_gzip
from tinykube.server.http.query import parse_query
from tinykube.server.http.request_info import RequestInfo
from tinykube.server.http.responses import LargeAnswer
from tinykube.server.objects import JsonObject
from tinykube.server.registry.builtin import builtin_registry
from tinykube.server.registry.definition import Registry, UserInfo
from tinykube.server.registry.openapi import TypeOpenApi
from tinykube.server.verbs.context import Caller

GNOSTIC = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2 = "v2"
APPS = "apis/apps/v1"


class Counting:
    """Creates the real documents, and counts them."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def document(self, registry: Registry, group: str, version: str) -> JsonObject:
        self.made.append(group)
        return TypeOpenApi().document(registry, group, version)


def ask(openapi: OpenApi, path: str, **headers: str) -> web.StreamResponse:
    request: Any = make_mocked_request(
        "GET", "/", {name.replace("_", "-"): value for name, value in headers.items()}
    )
    asked = RequestInfo(
        request=request,
        method="GET",
        path=path,
        query=parse_query(""),
        caller=Caller(user=UserInfo("a"), user_agent="b"),
        audit_id="c",
        warnings=[],
    )
    return openapi.answer_v2(asked) if path == V2 else openapi.answer(asked, path.split("/"))


def body(response: web.StreamResponse) -> bytes:
    if isinstance(response, LargeAnswer):
        return b"".join(response.pieces)
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    return response.body


@pytest.mark.parametrize(("path", "accept"), [(V2, "*/*"), (V2, GNOSTIC), (APPS, "*/*"), ("", "*/*")])
def test_documents_are_compressed_only_on_request_with_equal_content(path: str, accept: str) -> None:
    openapi = OpenApi(builtin_registry(), TypeOpenApi())
    plain = ask(openapi, path, Accept=accept)
    packed = ask(openapi, path, Accept=accept, Accept_Encoding="br, gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body(packed)) == body(plain)
    assert len(body(plain)) < 3000 or len(body(packed)) < len(body(plain)) / 4
    assert packed.headers["Etag"] == plain.headers["Etag"]
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize(("path", "accept"), [(V2, "*/*"), (V2, GNOSTIC), (APPS, "*/*"), ("", "*/*")])
def test_a_client_with_a_cached_document_gets_304(path: str, accept: str) -> None:
    openapi = OpenApi(builtin_registry(), TypeOpenApi())
    tag = ask(openapi, path, Accept=accept).headers["Etag"]
    again = ask(openapi, path, Accept=accept, If_None_Match=tag, Accept_Encoding="gzip")
    assert (again.status, body(again), again.headers["Etag"]) == (304, b"", tag)
    assert ask(openapi, path, Accept=accept, If_None_Match='"other"').status == 200


def test_json_and_protobuf_have_different_etags() -> None:
    openapi = OpenApi(builtin_registry(), TypeOpenApi())
    assert ask(openapi, V2).headers["Etag"] != ask(openapi, V2, Accept=GNOSTIC).headers["Etag"]


def test_documents_are_built_once_until_the_registry_changes() -> None:
    registry, source = builtin_registry(), Counting()
    openapi, groups = OpenApi(registry, source), len(registry.versions())
    for _ in range(2):
        for accept in ("*/*", GNOSTIC):
            ask(openapi, V2, Accept=accept)
        ask(openapi, APPS)
    assert len(source.made) == 2 * groups + 1
    registry.remove("coordination.k8s.io", "v1", "leases")
    ask(openapi, V2, Accept=GNOSTIC)
    assert len(source.made) == 2 * groups + 1 + (groups - 1)


@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ("gzip", True),
        ("GZIP;q=0.5, identity", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip; q=x", False),
        ("x-gzipped", False),
    ],
)
def test_gzip_is_used_only_where_accepted_with_a_positive_weight(header: str, packed: bool) -> None:
    assert takes_gzip(header) == packed


async def test_a_compressed_document_is_decompressed_transparently_by_a_client() -> None:
    async with a_server() as api:
        plain = await api("GET", "/openapi/v3/apis/apps/v1", **{"Accept-Encoding": "identity"})
        packed = await api("GET", "/openapi/v3/apis/apps/v1", **{"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert packed.json() == plain.json()
