"""The public names of aiokube: complete, documented, and loaded on first use."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import aiokube
import aiokube.discovery
import aiokube.testing

SOURCE = Path(aiokube.__file__).read_text()
NAMES = [name for name in aiokube.__all__ if not name.startswith("__")]


def type_checking_imports() -> dict[str, str]:
    """Return the type checker's view: each name and its module."""
    (block,) = [
        node
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name: (statement.module or "").removeprefix("aiokube.")
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value: Any = getattr(aiokube, name)
    assert value.__doc__


def test_lazy_imports_match_the_type_checking_imports() -> None:
    assert type_checking_imports() == aiokube._MODULES


def test_every_public_name_is_loadable_and_nothing_else_is() -> None:
    assert sorted(NAMES) == sorted(aiokube._MODULES)
    assert len(set(NAMES)) == len(NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Klient'"):
        _ = aiokube.Klient


@pytest.mark.parametrize("package", [aiokube.testing, aiokube.discovery], ids=lambda one: str(one.__name__))
def test_exports_of_other_packages_exist_and_are_documented(package: ModuleType) -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        assert getattr(package, name).__doc__, name


def test_importing_aiokube_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import aiokube; "
        "sys.exit(', '.join(sorted(set(sys.modules) - before - {'aiokube'})) or None)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
