"""Plain values, keys and merges in YAML with kubectl's interpretation; the cluster tests verify them with kubectl itself."""

from typing import Any

VALUES: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL", ""), None),
    **{
        text: text
        for text in ("yEs", "tRue", "nULL", "true_", "_5", "0xg", "1.5e", "=", "<<", "1e999", "1.2.3")
    },
    **{
        text: text
        for text in ("2026-01-01", "2026-01-01T00:00:00Z", "12:30:45", "0b2", "0o8", "+", ".", "-a")
    },
    "1_000": 1000,
    "1__0": 10,
    "1_": 1,
    "+_5": 5,
    "+5": 5,
    "-0": 0,
    "00": 0,
    "0777": 511,
    "0_7": 7,
    "08": 8,
    "0o17": 15,
    "0O17": 15,
    "0x1F": 31,
    "0X1f": 31,
    "0x_1": 1,
    "0b11": 3,
    "-0b11": -3,
    "1_000.5": 1000.5,
    "1.": 1,
    ".5": 0.5,
    ".5_0": 0.5,
    "-.5": -0.5,
    "1e3": 1000,
    "1E+3": 1000,
    "1e-3": 0.001,
    "9223372036854775807": 9223372036854775807,
    "99999999999999999999": 1e20,
    "!!str 5": "5",
    "! 5": "5",
    '"5"': "5",
    "'y'": "y",
    '!!int "5"': 5,
    "!!float 5": 5,
    "!!bool yes": True,
    "!!binary YQ==": "a",
    "!!timestamp 2026-01-01": "2026-01-01",
    "!else 5": "5",
    "!else {a: 1}": {"a": 1},
    "!!python/object:os.system x": "x",
    "{y: 1}": {"true": 1},
    "{5: a, 1.5: b, 1e3: c, 1e21: d}": {"5": "a", "1.5": "b", "1000": "c", "1e+21": "d"},
    "{.inf: a, -.inf: b}": {".inf": "a", "-.inf": "b"},
    "!!set {a, b}": {"a": None, "b": None},
    "{x: &v1 {a: b}, z: {<<: *v1, c: d}}": {"x": {"a": "b"}, "z": {"a": "b", "c": "d"}},
    "{x: &v2 {a: b}, z: {<<: *v2, a: c}}": {"x": {"a": "b"}, "z": {"a": "c"}},
    "{x: &v3 {a: b}, z: {a: c, <<: *v3}}": {"x": {"a": "b"}, "z": {"a": "b"}},
    "{w: &v4 {a: w}, x: &v5 {a: x, e: f}, z: {<<: [*v4, *v5]}}": {
        "w": {"a": "w"},
        "x": {"a": "x", "e": "f"},
        "z": {"a": "w", "e": "f"},
    },
    "{w: &v6 {a: w}, x: &v7 {a: x}, z: {<<: *v6, <<: *v7}}": {
        "w": {"a": "w"},
        "x": {"a": "x"},
        "z": {"a": "x"},
    },
    '{"<<": {a: 1}}': {"<<": {"a": 1}},
}

REFUSED = (
    ".inf",
    "-.INF",
    ".nan",
    "!!int x",
    "!!null x",
    "!!bool 1",
    "{? [a] : b}",
    "{~: a}",
    "{<<: 5}",
    "&a [*a]",
    "*nowhere",
    "[1",
)
