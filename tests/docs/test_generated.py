"""Generated files are up to date."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_types_of_built_in_kinds_match_their_schemas() -> None:
    script = runpy.run_path(str(ROOT / "scripts/generate_kinds.py"))
    assert script["module"]() == script["OUT"].read_text(), "run python scripts/generate_kinds.py"


def test_the_reference_lists_exactly_the_public_names() -> None:
    script = runpy.run_path(str(ROOT / "scripts/generate_reference.py"))
    assert script["page"]() == script["OUT"].read_text(), "run python scripts/generate_reference.py"
