"""Every path, module and link named in the documentation exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("aiokube", "tinykube", "endpointd")
FOLDERS = (*PACKAGES, "tests", "docs", "deploy", "benchmarks", "examples", "scripts", "requirements")
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md")])

_CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.DOTALL)
_PATH = re.compile(rf"(?:\.\./)*((?:{'|'.join(FOLDERS)})/[\w./*-]+)(?:::\w+)?")
_MODULE = re.compile(rf"((?:{'|'.join(PACKAGES)}|tests|benchmarks)(?:\.\w+)+)(?:\(\))?")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")
_IMPORT = re.compile(r"^\s*(?:from|import) ((?:aiokube|tinykube|endpointd|tests)[\w.]*)", re.MULTILINE)


def named(text: str) -> Iterator[str]:
    """Yield the paths and modules in code spans, and the modules imported in examples."""
    for span in _CODE.findall(text):
        for word in span.split():
            if word.endswith((".db", ".svc")):
                continue  # a file that a command writes, or a DNS name
            for pattern in (_PATH, _MODULE):
                if match := pattern.fullmatch(word.strip(",;:")):
                    yield match[1]
    yield from _IMPORT.findall(text)


def exists(name: str) -> bool:
    """Return whether a file (``*`` matches anything), a module, or a name in a module exists."""
    if "/" in name:
        return any(ROOT.glob(name.rstrip("/")))
    parts = name.split(".")
    bases = [ROOT / parts[0] / "src"] if parts[0] in PACKAGES else [ROOT, *(ROOT / one for one in PACKAGES)]
    return any(_is_module_or_name(base, parts) for base in bases)


def _is_module_or_name(base: Path, parts: list[str]) -> bool:
    for length in range(len(parts), 0, -1):
        module = base.joinpath(*parts[:length])
        rest = parts[length:]
        for file in (module.with_suffix(".py"), module / "__init__.py"):
            if file.exists():
                text = file.read_text()
                return all(re.search(rf"\b{re.escape(name)}\b", text) for name in rest)
        if module.is_dir() and not rest:
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_path_and_module_named_in_a_page_exists(page: Path) -> None:
    assert sorted({name for name in named(page.read_text()) if not exists(name)}) == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_a_missing_path_or_module_is_reported() -> None:
    text = "`tests/unit`, `aiokube.runtime.graves`, `aiokube.clock.NoClock`, `docs/testing.md`, `aiokube.clock.Clock`"
    gone = [name for name in named(text) if not exists(name)]
    assert gone == ["tests/unit", "aiokube.runtime.graves", "aiokube.clock.NoClock"]
