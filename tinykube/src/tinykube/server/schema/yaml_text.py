"""Decode YAML with :mod:`aiokube.yaml_reader`, with the limits and messages of kube-apiserver.

Only the first document of a stream is decoded. Duplicate keys are reported.
"""

from typing import Any

from aiokube.yaml_reader import Limits, YamlError, read_document
from tinykube.server.schema.depth import MAX_DEPTH

_LIMITS = Limits(max_depth=MAX_DEPTH, max_written_values=250_000)
"""The value limit is about two seconds of work; objects within the size limit have fewer values."""


class YamlProblemError(ValueError):
    """A body that is not valid YAML, or has values that JSON cannot represent."""


def decode_yaml(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the value of the first document, and the duplicates: ``line 3: key "a" already set in map``.

    Raises YamlProblemError with one line that includes the position.
    """
    try:
        document = read_document(body, _LIMITS)
    except YamlError as error:
        place = "" if error.line is None else f"line {error.line}: "
        raise YamlProblemError(f"yaml: {place}{error.reason}") from None
    if not document.duplicates:
        return document.value, ()
    problems = [f'line {line}: key "{key}" already set in map' for line, key in document.duplicates]
    return document.value, ("yaml: unmarshal errors:\n  " + "\n  ".join(problems),)
