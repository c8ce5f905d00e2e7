"""The specification under docs/spec agrees with its citations."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
RULE = re.compile(r"\b[ESMC]-\d+[a-z]?\b")


def _defined() -> list[str]:
    pages = (page.read_text() for page in sorted(SPEC.glob("*.md")))
    return [
        rule for page in pages for rule in re.findall(r"^- \*\*([ESMC]-\d+[a-z]?)\*\*", page, re.MULTILINE)
    ]


def _rule_of(citation: str, defined: set[str]) -> str:
    """Return the rule of a citation: E-19b is part (b) of E-19, C-57a is a separate rule."""
    return citation if citation in defined else citation.rstrip("abcdefgh")


def _citations(pattern: str) -> dict[str, str]:
    """Return each cited rule with one citing file; tests cite in their docstrings."""
    found: dict[str, str] = {}
    for path in sorted(ROOT.glob(pattern)):
        if path.suffix not in {".py", ".md"} or SPEC in path.parents or path == Path(__file__):
            continue
        text = path.read_text()
        cited = set(RULE.findall(text))
        found |= {rule: str(path.relative_to(ROOT)) for rule in cited}
    return found


def _tested_citations() -> dict[str, str]:
    """Return the rules that tests cite. The differential's own modules cite rules without testing them."""
    folders = [folder for folder in (ROOT / "tests").iterdir() if folder.name != "differential"]
    patterns = [
        "tests/differential/test_*",
        "*/tests/**/*",
        *(f"tests/{folder.name}/**/*" for folder in folders),
    ]
    return {rule: path for pattern in patterns for rule, path in _citations(pattern).items()}


def _excused() -> set[str]:
    rows = (line.split("|") for line in (SPEC / "coverage.md").read_text().splitlines())
    return {rule for row in rows if len(row) > 2 for rule in RULE.findall(row[1])}


def test_each_rule_is_defined_once() -> None:
    defined = _defined()

    assert len(defined) > 200
    assert sorted(defined) == sorted(set(defined))


def test_every_cited_rule_is_defined() -> None:
    defined = set(_defined())
    undefined = {
        rule: path
        for folder in ("aiokube", "tinykube", "endpointd", "tests", "docs", "benchmarks")
        for rule, path in _citations(f"{folder}/**/*").items()
        if _rule_of(rule, defined) not in defined
    }

    assert undefined == {}


def test_every_rule_has_a_test_or_a_reason_for_having_none() -> None:
    defined = set(_defined())
    tested = {_rule_of(rule, defined) for rule in _tested_citations()}

    assert sorted(defined - tested - _excused()) == []


def test_no_rule_with_a_test_is_listed_as_untested() -> None:
    defined = set(_defined())
    tested = {_rule_of(rule, defined) for rule in _tested_citations()}

    assert sorted(_excused() & tested) == []
    assert sorted(_excused() - defined) == []
