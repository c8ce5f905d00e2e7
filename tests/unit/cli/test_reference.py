"""The reference pages say what the program reads, all of it, and the example in them is one."""

import re
from pathlib import Path

import pytest

from endpointd.cli.config_file import read_config_file
from endpointd.cli.options import SETTINGS
from endpointd.cli.reference import PAGES
from endpointd.cli.run import run

FOLDER = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_those_of_the_table(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run python -m endpointd.cli.reference"


def test_every_field_and_every_flag_is_listed() -> None:
    fields, flags = ((FOLDER / name).read_text() for name in ("configuration.md", "flags.md"))
    for setting in SETTINGS:
        assert f"| `{setting.key}` |" in fields
        assert f"| `--{setting.flag}` |" in flags
    known = {opt.removeprefix("--") for param in run.params for opt in param.opts if opt.startswith("--")}
    assert known == {setting.flag for setting in SETTINGS} | {"config"}


def test_the_example_can_be_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (FOLDER / "configuration.md").read_text(), re.DOTALL)
    path = tmp_path / "endpointd.yaml"
    path.write_text(example)
    assert read_config_file(path)["leader_elect_lease_duration"] == "15s"
