"""One YAML reader for every input file: kubectl's values, with limits for any text."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aiokube.client.errors import ConfigError
from aiokube.client.kubeconfig_file import read_kubeconfig
from aiokube.client.manifests import ManifestError, parse_manifests
from aiokube.yaml_reader import Limits, YamlError, read_document, read_documents
from endpointd.cli.config_file import ConfigFileError, read_config_file
from endpointd.cli.main import cli
from tests.yaml.yaml_cases import REFUSED, VALUES
from tinykube.testing.objects import documents_of

BOMB = "\n".join(
    [
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]",
        *(f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)),
    ]
)
HOSTILE = {
    "brackets": "[" * 200_000,
    "braces": "{a: " * 200_000,
    "dashes": "- " * 200_000,
    "JSON": '{"a":' * 200_000,
    "aliases of aliases": BOMB,
}


@pytest.mark.parametrize(("text", "value"), VALUES.items(), ids=VALUES)
def test_values_are_read_as_by_kubectl(text: str, value: Any) -> None:
    found = read_document(f"a: {text}\n").value["a"]
    assert found == value
    assert isinstance(found, bool) is isinstance(value, bool)


@pytest.mark.parametrize("text", REFUSED)
def test_values_that_kubectl_rejects_are_rejected_in_one_line_with_their_position(text: str) -> None:
    with pytest.raises(YamlError, match=r"^line \d: [^\n]+$"):
        read_document(f"\na: {text}\n")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_loader_crashes_on_a_malicious_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    words = "exceeded max depth|excessive aliasing"
    with pytest.raises(ManifestError, match=words):
        parse_manifests(text.encode(), "f")
    with pytest.raises(ConfigError, match=words):
        read_kubeconfig(path)
    with pytest.raises(ConfigFileError, match=words):
        read_config_file(path)
    with pytest.raises(ValueError, match=words):
        documents_of(path)
    result = CliRunner().invoke(cli, ["plan", "-f", str(path)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_depth_counts_through_aliases() -> None:
    limits = Limits(max_depth=10)
    deep = "a: &a " + "[" * 6 + "]" * 6
    assert read_document(deep, limits).value
    with pytest.raises(YamlError, match="exceeded max depth"):
        read_document(f"{deep}\nb: [[[[*a]]]]", limits)


def test_document_size_and_number_of_values_are_limited() -> None:
    with pytest.raises(YamlError, match="this is larger than 10 bytes"):
        read_document("a: 12345678", Limits(max_bytes=10))
    with pytest.raises(YamlError, match="there are more than 10 values"):
        read_document("[1,2,3,4,5,6,7,8,9,10]", Limits(max_written_values=10))


def test_each_alias_gets_its_own_copy() -> None:
    value = read_document("x: &x {a: [1]}\nz: *x").value
    value["x"]["a"].append(2)
    assert value["z"] == {"a": [1]}


def test_documents_record_lines_duplicates_and_keys() -> None:
    first, second = read_documents("a: 1\nb:\n  c: 2\n  c: 3\n---\nd: 4\n")
    assert (first.value, first.duplicates, first.key_lines) == (
        {"a": 1, "b": {"c": 3}},
        ((4, "c"),),
        {"a": 1, "b": 2},
    )
    assert (second.line, second.value) == (6, {"d": 4})


def test_an_empty_stream_has_the_value_none() -> None:
    assert read_document("# nothing\n").value is None
    assert list(read_documents("")) == []
