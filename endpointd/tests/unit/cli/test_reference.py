"""The generated reference pages are current and complete, and their example is valid."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from endpointd.cli.config_file import read_config_file
from endpointd.cli.main import COMMANDS, cli
from endpointd.cli.options import SETTINGS
from endpointd.cli.reference import PAGES
from endpointd.cli.run import run

FOLDER = Path(__file__).parents[4] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_pages_match_the_table(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run python -m endpointd.cli.reference"


def test_every_field_and_every_flag_is_listed() -> None:
    fields, flags = ((FOLDER / name).read_text() for name in ("configuration.md", "flags.md"))
    for setting in SETTINGS:
        assert f"| `{setting.key}` |" in fields
        assert f"| `--{setting.flag}` |" in flags
    known = {opt.removeprefix("--") for param in run.params for opt in param.opts if opt.startswith("--")}
    assert known == {setting.flag for setting in SETTINGS} | {"config"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_has_no_warning_and_lists_every_command_and_flag() -> None:
    command = ["groff", "-man", "-ww", "-Tascii", "-P-cbou", str(FOLDER / "endpointd.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    for setting in SETTINGS:
        assert f"--{setting.flag}" in done.stdout
    for name in COMMANDS:
        assert re.search(rf"^ +{name}\b", done.stdout, re.MULTILINE), name


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("endpointd expl", "explain"), ("endpointd run --max-end", "--max-endpoints-per-slice")],
)
def test_the_shell_completes_commands_and_flags(typed: str, offered: str) -> None:
    environment = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
        "_ENDPOINTD_COMPLETE": "bash_complete",
    }
    result = CliRunner().invoke(cli, prog_name="endpointd", env=environment)
    assert result.output.split() == [f"plain,{offered}"]


def test_the_example_configuration_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (FOLDER / "configuration.md").read_text(), re.DOTALL)
    path = tmp_path / "endpointd.yaml"
    path.write_text(example)
    assert read_config_file(path)["leader_elect_lease_duration"] == "15s"
