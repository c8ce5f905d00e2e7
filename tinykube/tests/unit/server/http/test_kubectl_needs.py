"""Requests of kubectl other than for objects, over a real socket."""

import pytest
from tests.unit.server.http.served import a_server
from tests.unit.server.http.test_subresources import DEPLOYMENT, a_deployment

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
GNOSTIC = "application/com.github.proto-openapi.spec.v2{}v1.0+protobuf"


async def test_a_scale_can_be_requested_as_a_table() -> None:
    async with a_server() as api:
        await a_deployment(api)
        table = (await api("GET", f"{DEPLOYMENT}/web/scale", Accept=TABLE)).json()
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name",
            "Desired",
            "Available",
            "Age",
        ]
        assert table["rows"][0]["cells"][:3] == ["web", 2, 0]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_openapi_v2_describes_all_groups_as_json_and_supports_etags() -> None:
    async with a_server() as api:
        answer = await api("GET", "/openapi/v2")
        assert (answer.code, answer.json()["swagger"]) == (200, "2.0")
        assert "/apis/discovery.k8s.io/v1/endpointslices" in answer.json()["paths"]
        again = await api("GET", "/openapi/v2", **{"If-None-Match": answer.headers["Etag"]})
        assert (again.code, again.body) == (304, b"")


@pytest.mark.parametrize("separator", [".", "@"])
async def test_openapi_v2_protobuf_has_a_content_type_that_go_can_parse(separator: str) -> None:
    async with a_server() as api:
        answer = await api("GET", "/openapi/v2", Accept=GNOSTIC.format(separator) + ",application/json")
        assert answer.code == 200
        assert answer.headers["Content-Type"] == GNOSTIC.format(".")
        assert answer.body.startswith(b"\n\x032.0")
        assert b"io.k8s.api.core.v1.Pod" in answer.body
        again = await api(
            "GET",
            "/openapi/v2",
            Accept=GNOSTIC.format(separator),
            **{"If-None-Match": answer.headers["Etag"]},
        )
        assert (again.code, again.body) == (304, b"")


async def test_a_self_subject_review_has_user_groups_and_a_creation_time() -> None:
    async with a_server() as api:
        answer = await api("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert answer.code == 201
        assert answer.json()["metadata"]["creationTimestamp"].endswith("Z")
        assert answer.json()["status"]["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
