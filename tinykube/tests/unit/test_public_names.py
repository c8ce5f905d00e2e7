"""``import tinykube`` offers every public name, and imports it on first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tinykube

SOURCE = Path(tinykube.__file__).read_text()


def test_every_public_name_can_be_imported() -> None:
    for name in tinykube.__all__:
        assert getattr(tinykube, name) is not None
    assert len(set(tinykube.__all__)) == len(tinykube.__all__)


def test_type_checkers_see_the_names_available_at_run_time() -> None:
    typed = {
        f"{node.module}.{alias.name}"
        for block in ast.parse(SOURCE).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {f"tinykube.{module}.{name}" for name, module in tinykube._MODULES.items()}
    assert [*tinykube._MODULES, "__version__"] == tinykube.__all__


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tinykube' has no attribute 'nothing'"):
        _ = tinykube.nothing


def test_importing_tinykube_imports_no_submodules() -> None:
    program = "import sys, tinykube; print([name for name in sys.modules if name.startswith('tinykube.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
