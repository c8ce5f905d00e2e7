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
def test_every_reference_in_a_package_resolves_to_a_type(name: str) -> None:
    for described in package(name).types.values():
        for field in described.fields.values():
            for ref in _object_refs(field.type):
                assert object_type(ref).name == ref.name


@pytest.mark.parametrize("name", PACKAGES)
def test_field_numbers_of_a_message_are_unique(name: str) -> None:
    for described in package(name).types.values():
        numbers = [described.fields[own].number for own in described.own if described.fields[own].number]
        numbers += [inlined.number for inlined in described.inlined]
        assert len(numbers) == len(set(numbers)), described.name


def test_type_meta_is_among_the_fields_of_a_kind() -> None:
    assert list(kind_type("", "v1", "Pod").fields) == ["apiVersion", "kind", "metadata", "spec", "status"]


def test_inlined_fields_belong_to_the_parent_and_keep_their_message() -> None:
    volume = types_of("", "v1").types["Volume"]
    assert "emptyDir" in volume.fields
    assert volume.own == ("name",)
    assert [(one.number, one.type.name) for one in volume.inlined] == [(2, "VolumeSource")]


def test_merge_keys_and_list_keys_can_differ_as_upstream() -> None:
    ports = types_of("", "v1").types["ServiceSpec"].fields["ports"]
    assert (ports.merge_key, ports.list_keys, ports.list_type) == ("port", ("port", "protocol"), "map")


def test_pointers_and_plain_values_are_distinguished() -> None:
    fields = types_of("discovery.k8s.io", "v1").types["EndpointPort"].fields
    assert fields["name"].pointer
    assert fields["name"].default == ""
    service_port = types_of("", "v1").types["ServicePort"].fields
    assert not service_port["nodePort"].pointer


def test_a_named_scalar_keeps_its_go_name_for_errors() -> None:
    assert types_of("", "v1").types["ServicePort"].fields["protocol"].type == ScalarRef(
        Scalar.STRING, "v1.Protocol"
    )


def test_delete_options_and_status_are_kinds_of_every_group_version() -> None:
    assert kind_type("apps", "v1", "DeleteOptions") is kind_type("", "v1", "DeleteOptions")
    assert kind_type("discovery.k8s.io", "v1", "Status").group_versions == (("", "v1"),)


def test_errors_name_the_undescribed_kind_or_group() -> None:
    with pytest.raises(UnknownTypeError, match="VolumeAttachment is described for storage"):
        kind_type("storage.k8s.io", "v1", "VolumeAttachment")
    with pytest.raises(UnknownTypeError, match=r"resource\.k8s\.io/v1"):
        types_of("resource.k8s.io", "v1")
    with pytest.raises(UnknownTypeError, match="no kind PodSpec"):
        kind_type("", "v1", "PodSpec")
