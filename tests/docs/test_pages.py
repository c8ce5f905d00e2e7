"""What the guide shows is what runs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/writing-a-controller.md"
PROGRAMS = (ROOT / "docs/guide/examples/welcome.py", ROOT / "tests/docs/test_welcome.py")

BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0] for block in BLOCKS])
def test_every_block_of_the_guide_is_part_of_a_program_that_the_tests_run(block: str) -> None:
    assert any(block.strip() in program.read_text() for program in PROGRAMS)


def test_the_guide_shows_the_whole_controller() -> None:
    program = ast.parse(PROGRAMS[0].read_text())
    (controller,) = [
        node for node in program.body if isinstance(node, ast.ClassDef) and node.name == "Welcome"
    ]
    source = ast.get_source_segment(PROGRAMS[0].read_text(), controller)
    assert source is not None
    assert source in PAGE.read_text()
    assert len(source.splitlines()) <= 45


def test_the_modules_it_names_are_there() -> None:
    page = PAGE.read_text()
    for module in re.findall(r"`runtime\.(\w+)", page):
        assert (ROOT / "aiokube/src/aiokube/runtime" / f"{module}.py").exists(), module
    for module in re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE):
        assert (ROOT / "aiokube/src/aiokube/testing" / f"{module}.py").exists(), module
