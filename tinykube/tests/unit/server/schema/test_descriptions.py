"""Documentation of types and fields: complete, without duplicates, and loaded only on demand."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from tests.unit.server.http.served import a_server

from tinykube.server.registry.stored import STORED_KINDS
from tinykube.server.schema import descriptions
from tinykube.server.schema.descriptions import (
    EVERY_KIND,
    EVERY_LIST,
    DescriptionError,
    Descriptions,
    read_descriptions,
)
from tinykube.server.schema.loader import PACKAGES, kind_type, object_type, package
from tinykube.server.schema.model import Field, ListRef, MapRef, ObjectRef, ObjectType
from tinykube.server.schema.openapi_schemas import SCALAR_NAMES

ABOUT = """# A file.

Pod: Some containers
    that run together.
  spec: The containers to run.
  status: The current
    state.

Twin (like Pod): The same again.
  spec: Something else.
"""


STORED = {f"{one.kind}{suffix}" for one in STORED_KINDS for suffix in ("", "List")}


@cache
def with_words() -> frozenset[ObjectRef]:
    """The types of all kinds except those that are only stored, which `kubectl explain` shows without descriptions."""
    found: set[ObjectRef] = set()
    ahead = [
        one
        for name in PACKAGES
        for one in package(name).types.values()
        if one.kind and one.name not in STORED
    ]
    while ahead:
        one = ahead.pop()
        if one.ref in found:
            continue
        found.add(one.ref)
        for used in (*(field.type for field in one.fields.values()), *(inner.type for inner in one.inlined)):
            while isinstance(used, ListRef | MapRef):
                used = used.item if isinstance(used, ListRef) else used.value
            if isinstance(used, ObjectRef):
                ahead.append(object_type(used))
    return frozenset(found)


def types() -> Iterator[ObjectType]:
    for name in PACKAGES:
        yield from (one for one in package(name).types.values() if one.ref in with_words())


def fields() -> Iterator[tuple[ObjectType, Field]]:
    for described in types():
        for field in described.fields.values():
            yield described, field


def test_a_description_file_is_parsed_into_types_and_fields() -> None:
    read = read_descriptions(ABOUT, "x.about")
    assert list(read) == ["Pod", "Twin"]
    assert (read["Pod"].text, read["Pod"].like) == ("Some containers that run together.", "")
    assert read["Pod"].fields == {"spec": "The containers to run.", "status": "The current state."}
    assert (read["Twin"].like, list(read["Twin"].fields)) == ("Pod", ["spec"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pod: a\nPod: b\n", "x.about:2: Pod is described twice"),
        ("Pod: a\n  spec: a\n  spec: b\n", "x.about:3: spec is described twice"),
        ("  spec: a\n", "x.about:1: field spec without a type"),
        ("    more\n", "x.about:1: a continuation without a type"),
        ("Pod\n", "x.about:1: write 'Type: words'"),
        ("Pod: a\n spec: b\n", "x.about:2: write 'Type: words'"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(text: str, expected: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_descriptions(text, "x.about")
    assert str(caught.value).startswith(expected)


def test_every_type_and_field_of_a_functional_kind_is_described() -> None:
    about = Descriptions()
    silent = [f"{one.package}.{one.name}" for one in types() if not about.of_type(one)]
    silent += [
        f"{owner.package}.{owner.name}.{field.name}"
        for owner, field in fields()
        if not about.of_field(owner, field.name)
    ]
    assert not silent


def test_every_description_belongs_to_an_existing_type_or_field() -> None:
    about = Descriptions()
    left_over = []
    for name in PACKAGES:
        types = package(name).types
        scalars = {scalar for owner, scalar in SCALAR_NAMES if owner == name}
        common = {EVERY_KIND, EVERY_LIST} if name == "meta_v1" else set()
        for type_name, words in about.of_package(name).items():
            if type_name in types:
                known = set(types[type_name].fields)
            elif type_name in common:
                known = {"apiVersion", "kind", "metadata", "items"}
            else:
                known = set()
                if type_name not in scalars:
                    left_over.append(f"{name}.{type_name}")
            left_over += [f"{name}.{type_name}.{field}" for field in words.fields.keys() - known]
            if words.like and words.like not in types:
                left_over.append(f"{name}.{type_name} like {words.like}")
    assert not left_over


def test_types_and_fields_are_described_in_schema_order() -> None:
    about = Descriptions()
    for name in PACKAGES:
        types, words = package(name).types, about.of_package(name)
        described = [one for one in words if one in types]
        assert described == sorted(described)
        for type_name, one in words.items():
            if type_name in types:
                known = types[type_name].fields
                assert list(one.fields) == [field for field in known if field in one.fields], type_name


async def test_every_served_schema_has_descriptions() -> None:
    silent, groups = [], 0
    undescribed = {
        f"{package(name).openapi_prefix}.{one.name}"
        for name in PACKAGES
        for one in package(name).types.values()
        if one.ref not in with_words()
    }
    async with a_server() as api:
        for path in (await api("GET", "/openapi/v3")).json()["paths"]:
            groups += 1
            document = (await api("GET", f"/openapi/v3/{path}")).json()
            for name, schema in document["components"]["schemas"].items():
                if name in undescribed:
                    continue
                described = {"": schema, **schema.get("properties", {})}
                silent += [
                    f"{path} {name} {field}" for field, one in described.items() if not one.get("description")
                ]
    assert groups > 6
    assert not silent


def test_static_defaults_are_mentioned_in_the_description() -> None:
    about = Descriptions()
    silent = []
    for owner, field in fields():
        if field.default in (msgspec.UNSET, "") or isinstance(field.default, dict):
            continue
        if str(field.default).lower() not in about.of_field(owner, field.name).lower():
            silent.append(f"{owner.name}.{field.name}: {field.default}")
    assert not silent


def test_descriptions_are_ascii_sentences() -> None:
    about = Descriptions()
    for name in PACKAGES:
        for type_name, words in about.of_package(name).items():
            for one in (words.text, *words.fields.values()):
                assert one.isascii(), (type_name, one)
                assert one.endswith((".", "...")), (type_name, one)
                assert "  " not in one, (type_name, one)


def test_the_host_type_can_override_the_description_of_an_inlined_field() -> None:
    about = Descriptions()
    core = package("core_v1").types
    assert about.of_field(core["SecretKeySelector"], "name") == "The name of the Secret."
    assert about.of_field(core["Volume"], "emptyDir") == about.of_field(core["VolumeSource"], "emptyDir")


def test_a_type_like_another_inherits_missing_descriptions() -> None:
    about = Descriptions()
    own, other = (object_type(ObjectRef("core_v1", name)) for name in ("EphemeralContainer", "Container"))
    assert about.of_field(own, "image") == about.of_field(other, "image")
    assert about.of_field(own, "ports") == "Not allowed for ephemeral containers."


def test_lists_and_objects_have_different_descriptions_of_common_fields() -> None:
    about = Descriptions()
    pod, pods = kind_type("", "v1", "Pod"), kind_type("", "v1", "PodList")
    assert about.of_field(pod, "kind") == about.of_field(pods, "kind")
    assert about.of_field(pod, "metadata") != about.of_field(pods, "metadata")
    assert about.of_field(pods, "items").startswith("The objects")
    assert about.of_field(pod, "nonsense") == ""


async def test_descriptions_are_loaded_with_the_first_openapi_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    original = descriptions.read_descriptions

    def noted(text: str, name: str) -> Any:
        read.append(name)
        return original(text, name)

    monkeypatch.setattr(descriptions, "read_descriptions", noted)
    async with a_server() as api:
        await api("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        await api("GET", "/apis")
        assert read == []
        answer = await api("GET", "/openapi/v3/api/v1")
        assert answer.code == 200
        assert {"core_v1.about", "meta_v1.about"} <= set(read)
