"""The guide's controller examples run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import aiokube
import aiokube.testing
from docs.guide.examples.custom_resource import BACKUPS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/guide/examples"
PAGE = (ROOT / "docs/guide/writing-a-controller.md").read_text()
README = (ROOT / "aiokube/README.md").read_text()
PROGRAMS = [(EXAMPLES / f"{name}.py").read_text() for name in ("welcome", "test_welcome", "custom_resource")]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0] for block in BLOCKS])
def test_every_code_block_of_the_guide_is_part_of_a_tested_program(block: str) -> None:
    assert any(block.strip() in program for program in PROGRAMS)


def test_the_example_and_its_test_can_be_copied_into_an_empty_folder(tmp_path: Path) -> None:
    for name in ("welcome.py", "test_welcome.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "."]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_first_example_of_the_readme_prints_the_config_map(tmp_path: Path) -> None:
    program = re.findall(r"^```python\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)[0]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("{'text': 'hello'}\n", 0), done.stderr


@pytest.mark.parametrize("text", [PAGE, README], ids=["guide", "readme"])
def test_the_names_in_a_page_are_public(text: str) -> None:
    elsewhere = {"PodSpec", "Container", "None", "True", "False"}
    public = {*aiokube.__all__, *aiokube.testing.__all__, *elsewhere}
    named = set(re.findall(r"`([A-Z][A-Za-z]+)(?:\([^`]*\))?`", text))
    assert named - public == set()


def test_the_example_imports_from_one_package() -> None:
    assert set(re.findall(r"^(?:from|import) ([\w.]+)", PROGRAMS[0], flags=re.MULTILINE)) == {"aiokube"}


def test_a_partial_user_defined_type_can_be_read_and_applied_but_not_updated() -> None:
    document = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"schedule": "@daily", "keep": 3}}
    backup = BACKUPS.decode(msgspec.json.encode(document))
    assert backup.spec.schedule == "@daily"
    assert b'"kind":"Backup"' in BACKUPS.encode_for_apply(backup)
    with pytest.raises(aiokube.PartialTypeError, match=r"backups\.example\.com .* Backup does not have"):
        BACKUPS.require_complete()
