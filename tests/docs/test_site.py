"""The documentation site has a place for every page; the check of the built site finds broken links and foreign assets."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def listed_pages() -> set[Path]:
    """Return the sources that some table of contents names."""
    found: set[Path] = set()
    for page in DOCS.rglob("*.md"):
        for entries in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for entry in entries.split():
                if not entry.startswith(":"):
                    found.update(page.parent.glob(f"{entry}.md"), page.parent.glob(f"{entry}.rst"))
    return found


def test_every_page_is_in_a_table_of_contents() -> None:
    pages = {*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")} - {DOCS / "index.md"}
    missing = {str(page.relative_to(DOCS)) for page in pages - listed_pages() if "_build" not in page.parts}
    assert missing == set(), "name the page in a toctree of docs/index.md"


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="other.html">', "index.html: other.html: no such file"),
        ('<a href="#there">', "index.html: #there: no such anchor"),
        ('<img src="missing.svg">', "index.html: missing.svg: no such file"),
        (
            '<script src="https://example.com/a.js"></script>',
            "index.html: loads https://example.com/a.js from another host",
        ),
        (
            '<link rel="stylesheet" href="//example.com/a.css">',
            "index.html: loads //example.com/a.css from another host",
        ),
    ],
    ids=["file", "anchor", "picture", "script", "style"],
)
def test_a_broken_link_or_a_foreign_asset_is_a_problem(tmp_path: Path, html: str, problem: str) -> None:
    script = runpy.run_path(str(ROOT / "scripts/check_site.py"))
    page = tmp_path / "index.html"
    page.write_text(f'<p id="here">{html}</p>')
    assert list(script["problems"](tmp_path, {page: script["Page"](page)})) == [problem]


def test_valid_links_are_no_problem(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts/check_site.py"))
    page = tmp_path / "index.html"
    page.write_text('<p id="here"><a href="#here"></a><a href="https://example.com/"></a></p>')
    assert list(script["problems"](tmp_path, {page: script["Page"](page)})) == []


def test_a_style_sheet_that_imports_from_another_host_is_a_problem(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts/check_site.py"))
    (tmp_path / "a.css").write_text('@import "https://example.com/fonts.css";')
    assert list(script["problems"](tmp_path, {})) == ["a.css: loads from another host"]
