"""Test names are sentences of readable length; rule numbers are in docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 90
RULE = re.compile(r"_[esmc]\d+[a-z]?(?=_|$)")


def names_of_tests() -> Iterator[tuple[str, str]]:
    """Yield each test's file and name."""
    for folder in ("aiokube/tests", "tinykube/tests", "endpointd/tests", "tests", "docs/guide/examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    yield str(path.relative_to(ROOT)), node.name


def test_no_name_is_longer_than_90_characters() -> None:
    names = list(names_of_tests())
    assert len(names) > 3000
    assert [name for name in names if len(name[1]) > LONGEST] == []


def test_no_name_contains_the_number_of_a_rule() -> None:
    assert [name for name in names_of_tests() if RULE.search(name[1])] == []
