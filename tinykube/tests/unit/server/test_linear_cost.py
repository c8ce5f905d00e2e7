"""The cost of a request grows linearly with its size: calls are counted at doubling sizes."""

import json
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.unit.server.verbs.world import World, a_world

from aiokube import yaml_reader
from aiokube.client.liststream import ListSplitter
from aiokube.client.watchlines import LineSplitter
from aiokube.clock import SystemClock
from tinykube.server.custom.jsonpath import json_path
from tinykube.server.custom.patterns import go_pattern, search_microseconds
from tinykube.server.custom.values import ValidationBudget, value_errors
from tinykube.server.fields.compare import compare
from tinykube.server.fields.merge import merged
from tinykube.server.fields.nodes import field_set
from tinykube.server.fields.structural import structural_node
from tinykube.server.fields.validate import problems
from tinykube.server.patch.json_patch import apply_json_patch
from tinykube.server.patch.merge_patch import apply_merge_patch
from tinykube.server.patch.strategic_merge import apply_strategic_merge
from tinykube.server.registry.definition import Request, UserInfo
from tinykube.server.schema import yaml_text
from tinykube.server.schema.json_text import decode_json
from tinykube.server.schema.loader import kind_type
from tinykube.server.schema.protobuf import decode_protobuf
from tinykube.server.verbs.metadata import tidy


class Text(str):
    """A string whose comparisons are countable calls."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def calls(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work, including those in C."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def keyed(size: int, value: str) -> list[dict[str, Any]]:
    return [{"name": Text(f"n{index}"), "value": Text(value)} for index in range(size)]


KEYED = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            },
        }
    },
}
NODE = structural_node(KEYED)
POD = kind_type("", "v1", "Pod")
CONFIG_MAP = kind_type("", "v1", "ConfigMap")


def plain(size: int, value: str) -> dict[str, Any]:
    return {"items": [{"name": f"n{index}", "value": value} for index in range(size)]}


def pod(env: list[Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "env": env}]}}


def finalizers(prefix: str, size: int) -> list[str]:
    return [Text(f"{prefix}{index}") for index in range(size)]


def strategic(described: Any, document: Any, patch: Any) -> Callable[[], object]:
    return lambda: apply_strategic_merge(described, document, patch)


def ordering(size: int) -> Callable[[], object]:
    order = [{"name": Text(f"n{index}")} for index in reversed(range(size))]
    container = {"name": "c", "$setElementOrder/env": order}
    return strategic(POD, pod(keyed(size, "a")), {"spec": {"containers": [container]}})


def owners(size: int) -> Callable[[], object]:
    references = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": Text(index)} for index in range(size)]
    request = Request(
        storage=None,  # type: ignore[arg-type] # no lookups
        clock=SystemClock(),
        rng=random.Random(1),
        user=UserInfo(""),
        user_agent="",
        dry_run=False,
    )
    metadata = {"ownerReferences": references + references}
    return lambda: tidy(request, metadata)


def enum(size: int) -> Callable[[], object]:
    schema = {"type": "array", "items": {"enum": [Text(f"e{index}") for index in range(size)]}}
    value = [f"e{index}" for index in range(size)]
    return lambda: value_errors(value, schema)


def duplicates(size: int) -> bytes:
    return b"{" + b",".join(b'"a%d":1,"a%d":2' % (index, index) for index in range(size)) + b"}"


def merge_keys(size: int) -> bytes:
    return "\n".join(["data:", *(f"  <<: {{k{index}: v}}" for index in range(size))]).encode()


def contexts(size: int) -> str:
    return json.dumps(
        {"contexts": [{"name": f"c{index}", "context": {"cluster": "a"}} for index in range(size)]}
    )


def split(splitter: LineSplitter | ListSplitter, size: int) -> None:
    body = (
        b'{"items":[' + b",".join(b'{"metadata":{"name":"n%d"}}' % index for index in range(size)) + b"]}\n"
    )
    for at in range(0, len(body), 16):
        splitter.feed(body[at : at + 16])


CASES: Mapping[str, Callable[[int], Callable[[], object]]] = {
    "a JSON body with repeated keys": lambda size: lambda: decode_json(duplicates(size)),
    "a YAML body": lambda size: lambda: yaml_text.decode_yaml(json.dumps(plain(size, "a")).encode()),
    "a protobuf body": lambda size: lambda: decode_protobuf(
        b"k8s\x00\x12" + varint(4 * size) + b"\x12\x02\x0a\x00" * size, "", "v1", "ConfigMap"
    ),
    "a merge patch": lambda size: lambda: apply_merge_patch(plain(size, "a"), plain(size, "b")),
    "a JSON patch": lambda size: lambda: apply_json_patch(
        {"l": []}, [{"op": "add", "path": "/l/0", "value": index} for index in range(size)]
    ),
    "a strategic merge of a list by key": lambda size: strategic(
        POD, pod(keyed(size, "a")), pod(keyed(size, "b"))
    ),
    "a strategic merge of new items": lambda size: strategic(POD, pod([]), pod(keyed(size, "b"))),
    "a strategic merge that sets an order": ordering,
    "a strategic merge that deletes items": lambda size: strategic(
        POD, pod(keyed(size, "a")), pod([{**one, "$patch": "delete"} for one in keyed(size, "a")])
    ),
    "a strategic merge of a list of strings": lambda size: strategic(
        CONFIG_MAP,
        {"metadata": {"finalizers": finalizers("a", size)}},
        {"metadata": {"finalizers": finalizers("b", size)}},
    ),
    "a strategic merge that deletes strings": lambda size: strategic(
        CONFIG_MAP,
        {"metadata": {"finalizers": finalizers("a", size)}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers("b", size)}},
    ),
    "validation of a list by key": lambda size: lambda: value_errors(
        plain(size, "b"), KEYED, old=plain(size, "a"), budget=ValidationBudget(10**9)
    ),
    "validation against a long enum": enum,
    "the merge of an apply": lambda size: lambda: merged(NODE, plain(size, "a"), plain(size, "b")),
    "the fields of an apply": lambda size: lambda: field_set(NODE, plain(size, "a")),
    "the type check of an apply": lambda size: lambda: problems(NODE, plain(size, "a")),
    "the comparison of an update": lambda size: lambda: compare(NODE, plain(size, "a"), plain(size, "b")),
    "owner references": owners,
    "YAML merge keys": lambda size: lambda: yaml_text.decode_yaml(merge_keys(size)),
    "a kubeconfig": lambda size: lambda: yaml_reader.read_document(contexts(size)),
    "lines of a watch in small chunks": lambda size: lambda: split(LineSplitter(), size),
    "a list that arrives in small chunks": lambda size: lambda: split(ListSplitter(1024), size),
}  # fmt: skip


def varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return encoded + bytes((value,))


@pytest.mark.parametrize("case", CASES)
def test_doubling_the_size_doubles_the_calls(case: str) -> None:
    make = CASES[case]
    make(8)()  # tables created on first use
    once, twice = calls(make(200)), calls(make(400))
    assert once > 10
    assert twice < 2.3 * once, f"{case}: {once} calls, then {twice}"


def test_yaml_merge_keys_are_merged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = 0
    merge = yaml_reader._merge

    def counted(into: dict[str, Any], value: Any, line: int) -> None:
        nonlocal joined
        joined += len(value)
        merge(into, value, line)

    monkeypatch.setattr(yaml_reader, "_merge", counted)
    body = "\n".join(["data:", *(f"  <<: {{k{index}: v}}" for index in range(500))]).encode()
    value, _ = yaml_text.decode_yaml(body)
    assert len(value["data"]) == 500
    assert joined == 500


def test_the_last_of_several_yaml_merges_wins_and_the_first_mapping_of_a_list() -> None:
    value, _ = yaml_text.decode_yaml(b"a: {<<: [{k: 1, l: 1}, {k: 2, m: 2}], <<: {m: 3, o: 3}, o: 4}")
    assert value == {"a": {"k": 1, "l": 1, "m": 3, "o": 4}}


def test_a_yaml_body_with_too_many_values_is_rejected() -> None:
    with pytest.raises(yaml_text.YamlProblemError, match="there are more than 250000 values"):
        yaml_text.decode_yaml(b"[" + b"1," * 250_001 + b"]")


# ------------------------------------------------------------------------------------------ definitions


def test_a_pattern_with_nested_repetition_takes_linear_time() -> None:
    """With a backtracking engine this would not terminate."""
    assert go_pattern("^(a+)+$").search("a" * 100_000 + "!") is None


def test_expensive_patterns_are_rejected_for_long_texts() -> None:
    pattern, text = "(([a-z]{0,9}){0,9}){0,9}!", "ab" * 100_000
    assert search_microseconds(go_pattern(pattern), text) > 2_000_000
    (error,) = value_errors(text, {"type": "string", "pattern": pattern}, field="spec.s")
    assert "takes more than 2000000 steps" in error.message


def test_multiplying_alternatives_are_rejected_when_the_budget_is_exhausted() -> None:
    schema: dict[str, Any] = {"minimum": 5}
    for _ in range(6):
        schema = {"anyOf": [schema] * 12}
    (error,) = value_errors(1, schema)
    assert "takes more than 2000000 steps" in error.message


def test_validation_errors_are_limited_to_a_thousand() -> None:
    assert len(value_errors([""] * 5_000, {"items": {"type": "integer"}})) == 1_000


def test_repeated_recursive_descent_visits_each_value_once_per_step() -> None:
    document: dict[str, Any] = {}
    for _ in range(30):
        document = {"a": document, "b": 1}
    path = json_path("$" + "..*" * 6)
    assert path.first(document) == document["a"]["a"]["a"]["a"]["a"]["a"]
    assert calls(lambda: path.find(document)) < 20_000


def test_a_path_that_visits_too_many_values_finds_nothing() -> None:
    assert json_path("$..*").find({"a": list(range(3_000))}) == []
    assert len(json_path("$..*").find({"a": list(range(500))})) == 501


# ------------------------------------------------------------------------------------------ whole requests

Write = Callable[[World, int], Awaitable[object]]


def owned(size: int) -> dict[str, Any]:
    references = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": f"u{index}"} for index in range(size)]
    return {"metadata": {"name": "written", "ownerReferences": references}}


def env_pod(size: int, value: str) -> dict[str, Any]:
    env = [{"name": f"N{index}", "value": value} for index in range(size)]
    return {
        "metadata": {"name": "written"},
        "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
    }


async def patched_env(world: World, size: int) -> object:
    containers = [{"name": "c", "env": env_pod(size, "b")["spec"]["containers"][0]["env"]}]
    document = {"spec": {"template": {"spec": {"containers": containers}}}}
    return await world.patch("written", document, "strategic", "deployments", group="apps")


def deployment(size: int) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": env_pod(size, "a")["spec"]}
    return {
        "metadata": {"name": "written"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def many(size: int, value: str) -> dict[str, Any]:
    return {"metadata": {"name": "written"}, "data": {f"k{index}": value for index in range(size)}}


REQUESTS: Mapping[str, tuple[Write | None, Write]] = {
    "create with owner references": (None, lambda world, size: world.create(owned(size))),
    "create a pod with many variables": (None, lambda world, size: world.create(env_pod(size, "a"), "pods")),
    "strategic merge of many variables": (
        lambda world, size: world.create(deployment(size), "deployments", group="apps"),
        patched_env,
    ),
    "update of many keys": (
        lambda world, size: world.create(many(size, "a")),
        lambda world, size: world.update("written", many(size, "b")),
    ),
    "merge patch of many keys": (
        lambda world, size: world.create(many(size, "a")),
        lambda world, size: world.patch("written", {"data": many(size, "b")["data"]}),
    ),
    "JSON patch of many keys": (
        lambda world, size: world.create(many(size, "a")),
        lambda world, size: world.patch(
            "written",
            [{"op": "replace", "path": f"/data/k{index}", "value": "b"} for index in range(size)],
            "json",
        ),
    ),
}


async def request_calls(case: str, size: int) -> int:
    prepare, write = REQUESTS[case]
    async with a_world() as world:
        if prepare is not None:
            await prepare(world, size)
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            await write(world, size)
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("case", REQUESTS)
async def test_doubling_the_size_of_a_request_doubles_the_calls(case: str) -> None:
    await request_calls(case, 8)
    once, twice = await request_calls(case, 400), await request_calls(case, 800)
    assert twice < 2.3 * once, f"{case}: {once} calls, then {twice}"
