"""Regular expressions of definitions, with RE2: Go's syntax, and linear time for every pattern."""

from functools import lru_cache
from typing import Protocol

_MAX_PROGRAM_BYTES = 512 * 1024
"""RE2's memory budget for one compiled pattern and its caches. Larger patterns are rejected."""
_MAX_CACHED_PATTERNS = 256
_STEPS_PER_MICROSECOND = 20
"""RE2's worst-case speed, for patterns with too many states to cache."""

_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}
"""RE2's messages that Go words differently."""
_WHOLE_PATTERN = ("missing closing )", "unexpected )", "expression too large")
"""Errors in which Go quotes the whole pattern rather than the offending part."""


class PatternError(ValueError):
    """The pattern is not valid in Go's syntax, or too large."""


class Pattern(Protocol):
    """A compiled pattern."""

    @property
    def programsize(self) -> int:
        """The number of its instructions: a search takes at most so many steps per byte."""
        ...

    def search(self, text: str) -> object | None:
        """Return a match anywhere in the text, or None."""
        ...


def search_microseconds(pattern: Pattern, text: str) -> int:
    """Return an upper bound of the duration of a search."""
    return len(text) * pattern.programsize // _STEPS_PER_MICROSECOND


@lru_cache(maxsize=_MAX_CACHED_PATTERNS)
def go_pattern(text: str) -> Pattern:
    """Return the compiled pattern. Raises PatternError."""
    import re2  # 40 ms and 4 MB, only for users of patterns

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_PROGRAM_BYTES
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_in_go_words(text, error.args[0])}") from None
    return compiled


def _in_go_words(pattern: str, reported: bytes | str) -> str:
    told = reported.decode(errors="replace") if isinstance(reported, bytes) else str(reported)
    problem, _, part = told.partition(": ")
    problem = _GO_WORDS.get(problem, problem)
    quoted = pattern if problem in _WHOLE_PATTERN else part
    return f"{problem}: `{quoted}`" if quoted else problem
