"""Files, flags, controller names and value keys in the guides' commands exist."""

import re
from pathlib import Path

import pytest
import yaml

from endpointd.cli.options import BY_KEY, CONTROLLERS, SETTINGS
from tests.deploy.rendered import values

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "docs" / "guide" / f"{name}.md" for name in ("installing", "hand-over", "shadow")]
OFF = ",".join(f"-{name}" for name in CONTROLLERS)
pages = pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)


@pages
def test_link_and_path_targets_exist(path: Path) -> None:
    text = path.read_text()
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (path.parent / link).exists(), link
    for named in re.findall(r"\b(?:deploy|requirements|tests)/[\w./-]*\w", text):
        assert (ROOT / named).exists(), named


@pages
def test_flags_and_values_in_the_guides_exist(path: Path) -> None:
    text = path.read_text()
    flags = {setting.flag for setting in SETTINGS}
    for command in re.findall(r"endpointd run ([^\n`]*)", text):
        assert set(re.findall(r"--([\w-]+)", command)) <= flags
    for key in re.findall(r"--set ([\w.]+)=", text):
        at = values()
        for name in key.split("."):
            assert name in at, key
            at = at[name]
    for block in re.findall(r"```yaml\n(config:.*?)```", text, re.DOTALL):
        assert yaml.safe_load(block)["config"].keys() <= BY_KEY.keys()


@pages
def test_commands_name_objects_that_the_manifests_create(path: Path) -> None:
    manifests = ROOT / "deploy" / "manifests"
    made = {
        (item["kind"].lower(), item["metadata"]["name"])
        for file in manifests.rglob("*.yaml")
        for item in yaml.safe_load_all(file.read_text())
        if item["kind"] != "Kustomization"
    }
    named = re.findall(r"kubectl -n endpointd .*?\b(deploy|deployment|lease)[/ ]([\w-]+)", path.read_text())
    assert {({"deploy": "deployment"}.get(kind, kind), name) for kind, name in named} <= made


def test_every_instruction_to_disable_controllers_names_exactly_the_three() -> None:
    text = GUIDES[1].read_text()
    lists = re.findall(r"[^\s\"=]*-endpoints-controller[^\s\"]*", text)
    assert len(lists) == 4
    assert all(found.endswith(OFF) for found in lists), lists
