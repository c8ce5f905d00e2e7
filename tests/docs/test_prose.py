"""The prose check finds its phrases in docstrings, comments, messages and pages, and respects its exceptions."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/check_prose.py"


def check(folder: Path, name: str, text: str, *, exceptions: str = "") -> tuple[int, list[str]]:
    """Run the check on one tracked file; return the exit code and the reported places."""
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "check_prose.py").write_text(SCRIPT.read_text())
    rules = SCRIPT.with_name("prose.toml").read_text().partition("[exceptions")[0]
    (scripts / "prose.toml").write_text(rules + exceptions)
    (folder / name).write_text(text)
    for command in (["init", "-q"], ["add", name]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    done = subprocess.run(
        [sys.executable, "scripts/check_prose.py", name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [line.rpartition(": ")[0] for line in done.stdout.splitlines()]


# The planted phrases are joined from halves, so that the check does not find them in this file.
ANEW = "an" + "ew"


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("page.md", f"# Title\n\nThe list is read {ANEW}.\n", "page.md:3: 'anew'"),
        ("code.py", f'"""Read the list {ANEW}."""\n', "code.py:1: 'anew'"),
        ("code.py", f"\n# read the list {ANEW}\n", "code.py:2: 'anew'"),
        ("code.py", f'print("the list is read {ANEW}")\n', "code.py:1: 'anew'"),
        ("kinds.about", f"Pod: Containers.\n  spec: Read {ANEW}.\n", "kinds.about:2: 'anew'"),
    ],
    ids=["page", "docstring", "comment", "message", "description"],
)
def test_a_planted_phrase_is_found(tmp_path: Path, name: str, text: str, place: str) -> None:
    assert check(tmp_path, name, text) == (1, [place])


@pytest.mark.parametrize(
    "text",
    ["The list is read again.\n", f"```\nread {ANEW}\n```\n", f"The option `{ANEW}` exists.\n"],
    ids=["plain", "fence", "span"],
)
def test_plain_text_and_code_pass(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, "page.md", text) == (0, [])


def test_an_exception_with_a_reason_passes(tmp_path: Path) -> None:
    exceptions = f'[exceptions."page.md"]\n"{ANEW}" = "quotes upstream"\n'
    assert check(tmp_path, "page.md", f"The list is read {ANEW}.\n", exceptions=exceptions) == (0, [])
