"""The guide lists every setting with its default, and every annotation."""

import re
from pathlib import Path

from tinykube.simulate import annotations
from tinykube.simulate.settings import SimulateSettings

PAGE = (Path(__file__).parents[4] / "docs/guide/simulate.md").read_text()


def test_the_guide_lists_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S[^|]*?) \|", PAGE, flags=re.MULTILINE))
    defaults = SimulateSettings()
    expected = {}
    for name in SimulateSettings.__struct_fields__:
        value = getattr(defaults, name)
        match value:
            case tuple():
                expected[name] = ", ".join(value)
            case bool():
                expected[name] = str(value).lower()
            case float():
                expected[name] = f"{value:g}"
            case _:
                expected[name] = str(value)
    assert rows == expected


def test_the_guide_lists_every_annotation() -> None:
    known = {
        value
        for name, value in vars(annotations).items()
        if name.isupper() and isinstance(value, str) and value.startswith(annotations.PREFIX)
    } - {annotations.PREFIX}
    assert set(re.findall(rf"^\| `({annotations.PREFIX}[\w-]+):", PAGE, flags=re.MULTILINE)) == known
