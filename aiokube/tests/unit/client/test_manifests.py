"""Manifests are read completely before use, and every mistake is reported with file and line."""

import io
from pathlib import Path

import pytest

from aiokube.client.manifests import ManifestError, parse_manifests, read_manifests

SERVICE = b"apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n"


def test_multi_document_files_are_read_in_order_with_line_numbers() -> None:
    text = (
        SERVICE + b"---\n# nothing here\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api}\n"
    )
    service, deployment = parse_manifests(text, "shop.yaml")
    assert (service.kind, service.name, service.namespace, service.place) == (
        "Service",
        "web",
        "shop",
        "shop.yaml:1",
    )
    assert (deployment.api_version, deployment.namespace, deployment.place) == ("apps/v1", "", "shop.yaml:7")
    assert str(deployment) == "Deployment api (shop.yaml:7)"


def test_json_is_accepted_and_lists_are_expanded_to_their_items() -> None:
    text = (
        b'{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},'
    )
    text += b'{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"b-"}}]}'
    assert [str(manifest) for manifest in parse_manifests(text, "x")] == ["Pod a (x:1)", "Pod b- (x:1)"]


def test_a_folder_is_read_in_name_order_without_subfolders(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_bytes(SERVICE)
    (tmp_path / "a.json").write_bytes(b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}')
    (tmp_path / "README.md").write_bytes(b"no manifest")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.yaml").write_bytes(SERVICE)
    assert [manifest.kind for manifest in read_manifests([str(tmp_path)])] == ["Pod", "Service"]


def test_manifests_can_be_read_from_standard_input() -> None:
    (manifest,) = read_manifests(["-"], stdin=io.BytesIO(SERVICE))
    assert manifest.place == "stdin:1"


def test_scalar_values_are_parsed_as_in_kubectl() -> None:
    values = b"{day: 2026-01-01, time: 12:30:45, many: 1e3, mode: 0777, new: 0o17, hex: 0x1F, on: yes, is: =, v: 1.27, n: -3}"
    (manifest,) = parse_manifests(SERVICE + b"spec: " + values, "x")
    assert manifest.document["spec"] == {
        "day": "2026-01-01",
        "time": "12:30:45",
        "many": 1000.0,
        "mode": 0o777,
        "new": 0o17,
        "hex": 31,
        "true": True,  # YAML 1.1: a bare "on" is true, as a key too; and keys are strings
        "is": "=",
        "v": 1.27,
        "false": -3,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a: [1", "f:2: while parsing a flow sequence did not find expected ',' or ']'"),
        (SERVICE + b"---\n- 1\n", "f:5: a manifest is a mapping with apiVersion and kind, not a list"),
        (SERVICE + b"kind: Pod\n", "f:4: the key 'kind' is already set above"),
        (b"kind: Service\nmetadata: {name: x}\n", "f:1: apiVersion is missing"),
        (b"apiVersion: v1\nkind: 3\n", "f:1: kind must be a string"),
        (b"apiVersion: v1\nkind: Service\nmetadata: {}\n", "f:1: the Service has no metadata.name"),
        (
            b"apiVersion: v1\nkind: Service\nmetadata: {name: 5}\n",
            "f:1: metadata.name must be a string; put it in quotes",
        ),
        (b"a: *nowhere\n", "f:1: found undefined alias"),
        (b"? [a]\n: b\n", "f:1: a key must be a string"),
        (b"apiVersion: v1\nkind: List\nitems: [{kind: Pod}]\n", "f:1: items[0]: apiVersion is missing"),
    ],
)
def test_an_error_is_reported_with_file_line_and_problem(text: bytes, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifests(text, "f")
    assert str(caught.value) == problem


def test_binary_content_is_reported() -> None:
    with pytest.raises(ManifestError, match="not valid YAML or JSON"):
        parse_manifests(b"\xff\xfe\x00", "f")


def test_a_missing_file_and_an_empty_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"nowhere\.yaml: No such file or directory"):
        read_manifests([str(tmp_path / "nowhere.yaml")])
    with pytest.raises(ManifestError, match=r"there is no \.yaml, \.yml or \.json file in this folder"):
        read_manifests([str(tmp_path)])
