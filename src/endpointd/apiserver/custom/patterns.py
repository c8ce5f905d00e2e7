"""Regular expressions as Go reads them, for what definitions bring along: ASCII classes, ``$`` at the very end alone."""

import re
from functools import lru_cache

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LETTERS = {
    "L": r"A-Za-zªµºÀ-ÖØ-öø-ʯͰ-ͽͿ-ϿЀ-҂Ҋ-ԯ֐-׿؀-ۿ一-鿿",
    "Lu": "A-ZÀ-ÖØ-Þ",
    "Ll": "a-zß-öø-ÿ",
    "N": "0-9",
    "Nd": "0-9",
}
_PROBLEMS = {
    "missing ), unterminated": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "unterminated character set": "missing closing ]",
    "nothing to repeat": "missing argument to repetition operator",
}
_NO_GO = re.compile(r"\(\?(?:=|!|<=|<!)")
_ESCAPED_CLASS = re.compile(r"[pP](?:\{(\w+)\}|(\w))")


class PatternError(ValueError):
    """A pattern that is none in Go's syntax, or none that is understood here."""


@lru_cache(maxsize=1024)
def go_pattern(text: str) -> re.Pattern[str]:
    """Return the compiled pattern; to be searched with. Raises PatternError."""
    if found := _NO_GO.search(text):
        raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{found[0]}`")
    try:
        return re.compile(_translated(text), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"error parsing regexp: {_in_go_words(text, str(error))}") from None


def _in_go_words(text: str, problem: str) -> str:
    for ours, theirs in _PROBLEMS.items():
        if problem.startswith(ours):
            return f"{theirs}: `{text}`"
    return problem


def _translated(text: str) -> str:
    parts: list[str] = []
    at, in_class = 0, False
    while at < len(text):
        one = text[at]
        if one == "\\":
            part, at = _escaped(text, at, in_class=in_class)
            parts.append(part)
            continue
        if in_class and text.startswith("[:", at) and (end := text.find(":]", at)) > 0:
            name = text[at + 2 : end]
            if name not in _POSIX:
                raise PatternError(f"error parsing regexp: invalid character class range: `[:{name}:]`")
            parts.append(_POSIX[name])
            at = end + 2
            continue
        if in_class:
            in_class = one != "]"
            parts.append("\\[" if one == "[" else one)
        elif one == "[":
            in_class = True
            parts.append(one)
            for first in ("^", "]"):
                if text.startswith(first, at + 1):
                    parts.append("\\]" if first == "]" else first)
                    at += 1
        elif text.startswith("(?<", at):
            parts.append("(?P<")
            at += 2
        else:
            parts.append(r"\Z" if one == "$" and "(?m" not in text else one)
        at += 1
    return "".join(parts)


def _escaped(text: str, at: int, *, in_class: bool) -> tuple[str, int]:
    """Return what stands for an escape, and where it ends."""
    if text.startswith("\\z", at):
        return r"\Z", at + 2
    if text.startswith("\\Q", at):
        end = text.find("\\E", at)
        literal = text[at + 2 : end if end >= 0 else len(text)]
        return re.escape(literal), end + 2 if end >= 0 else len(text)
    if found := _ESCAPED_CLASS.match(text, at + 1):
        name = found[1] or found[2]
        if name not in _LETTERS:
            raise PatternError(f"error parsing regexp: invalid character class range: `\\p{{{name}}}`")
        letters, negated = _LETTERS[name], text[at + 1] == "P"
        if in_class:
            return letters, found.end()
        return f"[{'^' if negated else ''}{letters}]", found.end()
    if text[at + 1 : at + 2].isdigit() and text[at + 1] != "0" and not in_class:
        raise PatternError(f"error parsing regexp: invalid escape sequence: `{text[at : at + 2]}`")
    return text[at : at + 2], at + 2
