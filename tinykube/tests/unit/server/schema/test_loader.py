"""The type descriptions: every file parses, every reference resolves, and a few basic facts hold."""

import pytest

from tinykube.server.schema.loader import (
    PACKAGES,
    UnknownTypeError,
    kind_type,
    object_type,
    package,
    types_of,
)
from tinykube.server.schema.model import ListRef, MapRef, ObjectRef, Scalar, ScalarRef, TypeRef


def _object_refs(ref: TypeRef) -> list[ObjectRef]:
    if isinstance(ref, ListRef):
        return _object_refs(ref.item)
    if isinstance(ref, MapRef):
        return _object_refs(ref.value)
    return [ref] if isinstance(ref, ObjectRef) else []


@pytest.mark.parametrize("name", PACKAGES)
def test_every_reference_of_a_package_leads_to_a_type(name: str) -> None:
    for described in package(name).types.values():
        for field in described.fields.values():
            for ref in _object_refs(field.type):
                assert object_type(ref).name == ref.name


@pytest.mark.parametrize("name", PACKAGES)
def test_no_two_fields_of_a_message_have_the_same_number(name: str) -> None:
    for described in package(name).types.values():
        numbers = [described.fields[own].number for own in described.own if described.fields[own].number]
        numbers += [inlined.number for inlined in described.inlined]
        assert len(numbers) == len(set(numbers)), described.name


def test_a_kind_has_its_type_among_its_fields() -> None:
    assert list(kind_type("", "v1", "Pod").fields) == ["apiVersion", "kind", "metadata", "spec", "status"]


def test_what_is_inlined_stands_among_the_parents_fields_and_knows_its_message() -> None:
    volume = types_of("", "v1").types["Volume"]
    assert "emptyDir" in volume.fields
    assert volume.own == ("name",)
    assert [(one.number, one.type.name) for one in volume.inlined] == [(2, "VolumeSource")]


def test_keys_of_the_two_ways_to_merge_a_list_differ_where_they_differ_upstream() -> None:
    ports = types_of("", "v1").types["ServiceSpec"].fields["ports"]
    assert (ports.merge_key, ports.list_keys, ports.list_type) == ("port", ("port", "protocol"), "map")


def test_a_pointer_is_told_from_what_is_none() -> None:
    fields = types_of("discovery.k8s.io", "v1").types["EndpointPort"].fields
    assert fields["name"].pointer
    assert fields["name"].default == ""
    service_port = types_of("", "v1").types["ServicePort"].fields
    assert not service_port["nodePort"].pointer


def test_a_named_scalar_keeps_its_name_for_errors() -> None:
    assert types_of("", "v1").types["ServicePort"].fields["protocol"].type == ScalarRef(
        Scalar.STRING, "v1.Protocol"
    )


def test_options_and_status_are_kinds_of_every_group_version() -> None:
    assert kind_type("apps", "v1", "DeleteOptions") is kind_type("", "v1", "DeleteOptions")
    assert kind_type("discovery.k8s.io", "v1", "Status").group_versions == (("", "v1"),)


def test_what_is_not_described_is_named_in_the_error() -> None:
    with pytest.raises(UnknownTypeError, match="VolumeAttachment is described for storage"):
        kind_type("storage.k8s.io", "v1", "VolumeAttachment")
    with pytest.raises(UnknownTypeError, match=r"resource\.k8s\.io/v1"):
        types_of("resource.k8s.io", "v1")
    with pytest.raises(UnknownTypeError, match="no kind PodSpec"):
        kind_type("", "v1", "PodSpec")
