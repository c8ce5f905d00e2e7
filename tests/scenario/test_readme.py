"""The examples of the README and of the tutorial match the output of the commands on the example shop."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "endpointd")

pytestmark = pytest.mark.slow


def blocks(page: str = "README.md") -> list[str]:
    return re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def alike(text: str) -> list[str]:
    """Return the lines without random parts: suffixes of slice names, column widths and line breaks."""
    lines = (re.sub(r"-[a-z0-9]{5}\b", "-xxxxx", " ".join(line.split())) for line in text.splitlines())
    return [line for line in lines if line]


def examples(page: str = "README.md") -> list[tuple[str, str]]:
    """Return the commands whose output is shown, with that output."""
    found = []
    for block in blocks(page):
        for command, output in re.findall(
            r"^\$ (endpointd [^\n]*)\n((?:[^$\n][^\n]*\n|\n)+)", block, re.MULTILINE
        ):
            found.append((command, output))
    return found


class Shop:
    def __init__(self, folder: Path, table: str) -> None:
        self.folder = folder
        self.table = table

    def run(self, command: str) -> str:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.folder / ".endpointd" / "kubeconfig"),
            "COLUMNS": "100",
        }
        done = subprocess.run(
            [*COMMAND, *command.split()[1:]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """`make up` in a separate folder, without a terminal: the table is printed once everything is settled."""
    folder = tmp_path_factory.mktemp("shop")
    arguments = ["up", "-f", str(ROOT / "examples" / "shop"), "--speed", "10"]
    assert f"endpointd up -f examples/shop --speed {arguments[-1]}\n" in (ROOT / "Makefile").read_text()
    with subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if re.match(r"shop +web ", line):  # the last of them
                break
        yield Shop(folder, "".join(lines))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_the_readme_has_examples() -> None:
    assert [command.split()[1] for command, _ in examples()] == ["explain", "check"]
    assert [command.split()[1] for command, _ in examples("docs/tutorials/missing-pod.md")] == [
        "check",
        "explain",
    ]


def test_the_table_has_the_rows_of_the_readme(shop: Shop) -> None:
    (table,) = (block for block in blocks() if block.startswith("NAMESPACE"))
    printed = alike(shop.table)
    assert [line for line in alike(table) if line not in printed] == []


@pytest.mark.parametrize(("command", "output"), [*examples(), *examples("docs/tutorials/missing-pod.md")])
def test_a_command_prints_the_output_of_the_page(shop: Shop, command: str, output: str) -> None:
    assert " ".join(alike(shop.run(command))).startswith(" ".join(alike(output)))


def test_the_install_commands_name_existing_packages() -> None:
    text = (ROOT / "README.md").read_text()
    project = tomllib.loads((ROOT / "endpointd" / "pyproject.toml").read_text())["project"]
    assert (ROOT / "deploy" / "Containerfile").exists()
    assert f"Python {project['requires-python'].removeprefix('>=')} or later" in text
