"""YAML as kubectl reads it: no dates, no clock times, no ``=``; and a key that stands twice is a mistake."""

import re
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestLoader(_Base):  # type: ignore[misc]
    """PyYAML's loader, where a value is what a Kubernetes client in Go takes it for."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; refuse a key that stands twice."""
        self.flatten_mapping(node)
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            try:
                twice = key in seen
            except TypeError as error:
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a text", key_node.start_mark
                ) from error
            if twice:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands here twice", key_node.start_mark
                )
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return {_text(key): value for key, value in mapping.items()}


def _text(key: Any) -> str:
    """Return a key as JSON has it: always a text (``on: x`` is the key ``true``, as kubectl has it)."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else "null" if key is None else str(key)


_UNWANTED = (
    "tag:yaml.org,2002:timestamp",
    "tag:yaml.org,2002:value",
    "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float",
)
ManifestLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNWANTED]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
# Numbers without sexagesimals (12:30:45 is a text), and with 1e3, which YAML 1.1 takes for a text.
ManifestLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[0-1_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
ManifestLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
    list("-+0123456789."),
)


def _integer(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "").replace("0o", "0")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    base = 2 if digits.startswith("0b") else 16 if digits.startswith("0x") else 8 if digits[0] == "0" else 10
    return sign * int(digits, base)


ManifestLoader.add_constructor("tag:yaml.org,2002:int", _integer)
