"""YAML as the server reads it: the values of :mod:`aiokube.yaml_reader`, in the bounds and the words of kube-apiserver.

Only the first document of a stream is read. A key that is given twice is reported.
"""

from typing import Any

from aiokube.yaml_reader import Limits, YamlError, read_document
from tinykube.server.schema.depth import MAX_DEPTH

_LIMITS = Limits(max_depth=MAX_DEPTH, max_written_values=250_000)
"""Values: about two seconds of work. What fits into an object has fewer."""


class YamlProblemError(ValueError):
    """A body that is no YAML, or holds what JSON cannot say."""


def decode_yaml(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the value of the first document, and the duplicates: ``line 3: key "a" already set in map``.

    Raises YamlProblemError, in one line, with the place.
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
