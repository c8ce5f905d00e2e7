"""Count the phrases of ``prose.toml`` in docstrings, comments, messages, pages and API descriptions; exit 1 if any is left.

``python scripts/check_prose.py [--counts] [PATH ...]`` checks the whole repository without paths. ``--counts`` prints the number
of words and phrases for each top-level folder instead of the places.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

RULES = Path(__file__).with_name("prose.toml")
# Shorter strings are keys, values and labels rather than sentences.
MIN_WORDS_OF_A_MESSAGE = 4
FENCE = re.compile(r"^ {0,8}(`{3,}|~{3,}).*?^ {0,8}\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)


def blanked(text: str, pattern: re.Pattern[str]) -> str:
    """Replace matches by spaces, so that line numbers stay the same."""
    return pattern.sub(lambda match: re.sub(r"\S", " ", match.group()), text)


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every comment and every string of some words."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str() as text) if len(text.split()) >= MIN_WORDS_OF_A_MESSAGE:
                yield node.lineno, blanked(text, CODE_SPAN)


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every piece of prose in a file."""
    source = path.read_text()
    if path.suffix == ".py":
        yield from texts_of_python(source)
    else:
        yield 1, blanked(blanked(source, FENCE), CODE_SPAN)


def tracked_files(paths: list[str]) -> list[Path]:
    """Return the Python, Markdown and API description (``.about``) files that git tracks."""
    output = subprocess.run(
        ["git", "ls-files", "-z", "--", *(paths or ["."])], check=True, capture_output=True, text=True
    )
    return [Path(name) for name in output.stdout.split("\0") if name.endswith((".py", ".md", ".about"))]


def folder_of(path: Path) -> str:
    """Return the folder that a file's phrases are counted under: ``aiokube/src``, ``docs``, ``.``."""
    packages = ("aiokube", "tinykube", "endpointd")
    depth = 2 if path.parts[0] in packages and len(path.parts) > 2 else 1
    return "/".join(path.parts[:depth]) if len(path.parts) > 1 else "."


def main() -> int:
    """Check the files and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    rules = tomllib.loads(RULES.read_text())
    # A phrase may be broken over two lines.
    patterns = [rf"(\b(?:{pattern})\b)".replace(" ", r"\s+") for pattern in rules["phrases"]]
    finder = re.compile("|".join(patterns), re.IGNORECASE)
    advice = list(rules["phrases"].values())
    exceptions = rules.get("exceptions", {})
    words: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for path in tracked_files(arguments.paths):
        allowed = {entry.lower() for entry in exceptions.get(str(path), {})}
        for first_line, text in texts_of(path):
            words[folder_of(path)] += len(text.split())
            for match in finder.finditer(text):
                phrase = " ".join(match.group().split())
                if phrase.lower() in allowed:
                    continue
                found[folder_of(path)] += 1
                if not arguments.counts:
                    line = first_line + text.count("\n", 0, match.start())
                    print(f"{path}:{line}: {phrase!r}: {advice[(match.lastindex or 1) - 1]}")
    if arguments.counts:
        print(f"{'folder':<16} {'words':>8} {'phrases':>8} {'per 1,000':>10}")
        for folder in sorted(words):
            print(
                f"{folder:<16} {words[folder]:>8} {found[folder]:>8} {1000 * found[folder] / max(words[folder], 1):>10.1f}"
            )
    total = found.total()
    if total and not arguments.counts:
        print(
            f"{total} phrases; rewrite the sentences, or name an exception with its reason in {RULES.name}",
            file=sys.stderr,
        )
    return 1 if total and not arguments.counts else 0


if __name__ == "__main__":
    sys.exit(main())
