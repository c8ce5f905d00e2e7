"""kubectl itself reads YAML values as the table states."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.yaml.yaml_cases import REFUSED, VALUES

HEAD = "apiVersion: example.test/v1\nkind: Thing\nmetadata: {name: x}\nspec:\n"


def local(assets: Path, spec: str) -> subprocess.CompletedProcess[str]:
    """Let kubectl read a manifest and print it as JSON, without a server."""
    command = [str(assets / "kubectl"), "label", "--local", "-f", "-", "-o", "json", "x=y"]
    return subprocess.run(command, input=HEAD + spec, capture_output=True, text=True, check=False)


def test_kubectl_reads_the_values_in_the_table(assets: Path) -> None:
    lines = [f"  v{number}: {text}\n" for number, text in enumerate(VALUES)]
    done = local(assets, "".join(lines))
    assert not done.returncode, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)["spec"]
    assert {text: found[f"v{number}"] for number, text in enumerate(VALUES)} == VALUES


@pytest.mark.parametrize("text", REFUSED)
def test_kubectl_rejects_the_values_marked_as_rejected(text: str, assets: Path) -> None:
    assert local(assets, f"  a: {text}\n").returncode
