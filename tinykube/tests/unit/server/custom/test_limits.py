"""Expensive definitions: rejected on create, or harmless if already stored."""

from typing import Any

import pytest
from tests.unit.server.custom.test_server import AT, CRDS, cog, crd, serving, version

from tinykube.server.custom.definition_limits import MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES, limit_errors
from tinykube.server.custom.structural_schema import fill_defaults


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def with_schema(schema: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = crd(versions=[{**version(), "schema": {"openAPIV3Schema": schema}}])
    return definition


def found(schema: dict[str, Any]) -> str:
    return " ".join(str(error) for error in limit_errors(with_schema(schema)))


def test_schemas_may_be_as_deep_as_the_limit() -> None:
    assert not found(nested(MAX_SCHEMA_DEPTH))
    assert "nested more than 64 levels deep" in found(nested(MAX_SCHEMA_DEPTH + 1))


def test_nested_schemas_count_towards_the_node_limit() -> None:
    many: dict[str, Any] = {"anyOf": [{"items": {"not": {}}}] * (MAX_SCHEMA_NODES // 3)}
    assert not found({"anyOf": many["anyOf"][:-1]})
    assert "at most 30000 are served" in found(many)


def test_patterns_list_keys_and_versions_are_limited() -> None:
    patterns = {str(index): {"type": "string", "pattern": f"a{index}"} for index in range(501)}
    assert "501 different patterns" in found({"type": "object", "properties": patterns})
    same = {str(index): {"type": "string", "pattern": "a"} for index in range(501)}
    assert not found({"type": "object", "properties": same})
    assert "must have at most 32 items" in found({"x-kubernetes-list-map-keys": ["k"] * 33})
    assert limit_errors(crd(versions=[version()] * 101))


async def test_deep_definitions_are_rejected_and_stored_ones_do_not_break_openapi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as api:
        refusal = await api("POST", CRDS, with_schema(nested(80)), code=422)
        assert "nested more than 64 levels deep" in refusal["message"]
        # As in a data directory from before the limit existed.
        with monkeypatch.context() as without_limit:
            without_limit.setattr(
                "tinykube.server.custom.definition_validation.limit_errors", lambda definition: []
            )
            await api("POST", CRDS, with_schema(nested(90)), code=201)
        for path in ("/openapi/v3", "/openapi/v3/apis/example.com/v1", "/openapi/v2"):
            await api("GET", path)
        proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        async with api.session.get(f"{api.server.url}/openapi/v2", headers={"Accept": proto}) as response:
            assert response.status == 200
        document = await api("GET", "/openapi/v3/apis/example.com/v1")
        assert document["components"]["schemas"]["com.example.v1.Cog"]["x-kubernetes-preserve-unknown-fields"]
        await api("DELETE", f"{CRDS}/cogs.example.com")


def test_defaults_are_not_filled_in_if_the_copies_would_be_too_large() -> None:
    schema = {"items": {"properties": {"a": {"default": "x" * 1_000}}}}
    assert fill_defaults([{} for _ in range(1_000)], schema)
    assert not fill_defaults([{} for _ in range(10_000)], schema)


async def test_an_object_whose_defaults_would_be_too_large_is_rejected() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 1_000}}}
    spec = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    async with serving() as api:
        await api("POST", CRDS, with_schema({"type": "object", "properties": {"spec": spec}}), code=201)
        await api("POST", AT, {**cog(), "spec": {"l": [{}] * 10}}, code=201)
        refusal = await api("POST", AT, {**cog("y"), "spec": {"l": [{}] * 10_000}}, code=413)
        assert "defaults of its schema" in refusal["message"]


async def test_large_objects_are_validated_off_the_event_loop_by_the_same_rules() -> None:
    entry = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    listed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": entry,
    }
    spec = {"type": "object", "properties": {"l": listed}}
    entries = [{"name": f"n{index}"} for index in range(3_000)]
    async with serving() as api:
        await api("POST", CRDS, with_schema({"type": "object", "properties": {"spec": spec}}), code=201)
        await api("POST", AT, {**cog(), "spec": {"l": entries}}, code=201)
        patched = {"spec": {"l": [*entries, {"name": "n0"}]}}
        merge = "application/merge-patch+json"
        refusal = await api("PATCH", f"{AT}/x", patched, code=422, kind=merge)
        assert "Duplicate value" in refusal["message"]
        wrong = {"spec": {"l": [{"name": 1}]}}
        assert (await api("PATCH", f"{AT}/x", wrong, code=422, kind=merge))["reason"] == "Invalid"
        answered = await api("PATCH", f"{AT}/x", {"spec": {"l": entries[1:]}}, kind=merge)
        assert len(answered["spec"]["l"]) == 2_999
