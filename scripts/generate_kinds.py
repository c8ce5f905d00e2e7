"""Generate aiokube/src/aiokube/api/kinds.py from tinykube's descriptions of upstream's types.

python scripts/generate_kinds.py
"""

import keyword
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TYPES = ROOT / "tinykube/src/tinykube/server/schema/types"
OUT = ROOT / "aiokube/src/aiokube/api/kinds.py"

KINDS = {
    "core_v1": ("Pod", "Service", "Namespace", "Node", "ServiceAccount", "PersistentVolumeClaim"),
    "apps_v1": ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
    "batch_v1": ("Job", "CronJob"),
}
PLURALS = {
    "Pod": "pods",
    "Service": "services",
    "Namespace": "namespaces",
    "Node": "nodes",
    "ServiceAccount": "serviceaccounts",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "CronJob": "cronjobs",
}
GROUPS = {"core_v1": "", "apps_v1": "apps/", "batch_v1": "batch/"}
CLUSTER_SCOPED = {"Namespace", "Node"}
GIVEN = {
    "meta_v1.ObjectMeta": "ObjectMeta",
    "meta_v1.LabelSelector": "LabelSelector",
    "core_v1.ObjectReference": "ObjectReference",
}
SCALARS = {
    "string": ("str", '""'),
    "bool": ("bool", "False"),
    "int32": ("int", "0"),
    "int64": ("int", "0"),
    "float64": ("float", "0.0"),
    "quantity": ("str | None", "None"),
    "intorstring": ("int | str | None", "None"),
    "time": ("str | None", "None"),
    "microtime": ("str | None", "None"),
    "bytes": ("bytes | None", "None"),
    "raw": ("Any", "None"),
    "fieldsv1": ("Any", "None"),
}


def read_types() -> dict[str, list[tuple[str, str]]]:
    """Return the name and type of each field of each type, in the notation of the descriptions."""
    found: dict[str, list[tuple[str, str]]] = {}
    for package in (*KINDS, "meta_v1"):
        current = ""
        for line in (TYPES / f"{package}.types").read_text().splitlines():
            if match := re.match(r"(?:type|kind) (\w+)", line):
                current = f"{package}.{match[1]}"
                found[current] = []
            elif match := re.match(r"  (@?\w+) +(\S+)", line):
                found[current].append((match[1], match[2]))
    return found


def python_name(name: str) -> str:
    """Return the snake_case name of a field: ``pod_ips`` for ``podIPs``."""
    name = re.sub(r"(?<=[a-z0-9])([A-Z]+)s\b", lambda found: f"_{found[1].lower()}s", name)
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def camel(name: str) -> str:
    """Return the JSON name that msgspec derives from a Python name."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


class Writer:
    """Emits classes in dependency order."""

    def __init__(self) -> None:
        self.types = read_types()
        self.lines: list[str] = []
        self.done: set[str] = set()

    def type_of(self, text: str, package: str) -> tuple[str, str]:
        """Return the annotation and default of a field."""
        if text.startswith("*"):
            inner, _ = self.type_of(text[1:], package)
            return inner if inner.endswith("| None") or inner == "Any" else f"{inner} | None", "None"
        if text.startswith("["):
            inner, _ = self.type_of(text[1 : text.rindex("]")], package)
            return f"tuple[{inner.removesuffix(' | None')}, ...] | None", "None"
        if text.startswith("{"):
            inner, _ = self.type_of(text[1 : text.rindex("}")], package)
            return f"dict[str, {inner.removesuffix(' | None')}] | None", "None"
        word = text.partition("(")[0]
        if word in SCALARS:
            return SCALARS[word]
        full = word if "." in word else f"{package}.{word}"
        if full in GIVEN:
            return GIVEN[full], f"{GIVEN[full]}()"
        self.write(full)
        name = full.partition(".")[2]
        return name, f"{name}()"

    def fields(self, full: str) -> list[tuple[str, str]]:
        """Return the fields of a type, with inlined types expanded in place."""
        package = full.partition(".")[0]
        found = []
        for name, text in self.types[full]:
            if name == "@inline":
                found += self.fields(text if "." in text else f"{package}.{text}")
            elif not (full in {f"{package}.{kind}" for kind in PLURALS} and name in ("kind", "apiVersion")):
                found.append((name, text))
        return found

    def write(self, full: str) -> None:
        """Emit a type after its dependencies."""
        if full in self.done:
            return
        self.done.add(full)
        package, _, name = full.partition(".")
        body = []
        for field, text in self.fields(full):
            annotation, default = self.type_of(text, package)
            own = python_name(field)
            if camel(own) != field:
                default = f'msgspec.field(default={default}, name="{field}")'
            body.append(f"    {own}: {annotation} = {default}")
        head = [f"class {name}(_Part, frozen=True):"]
        if name in PLURALS:
            head += [f'    """{name} ({GROUPS[package]}{package.rpartition("_")[2]})."""', ""]
        self.lines += [*head, *(body or ["    pass"]), "", ""]


def module() -> str:
    """Return the source of the module."""
    writer = Writer()
    resources = []
    for package, kinds in KINDS.items():
        group = GROUPS[package].rstrip("/")
        for kind in kinds:
            writer.write(f"{package}.{kind}")
            scope = ", namespaced=False" if kind in CLUSTER_SCOPED else ""
            constant = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper() + "S"
            resources.append(
                f'{constant}: Resource[{kind}] = Resource(group="{group}", version="v1", plural="{PLURALS[kind]}", '
                f'kind="{kind}", wire={kind}{scope})'
            )
    head = '''"""The common kinds with all fields of Kubernetes 1.36. Generated by scripts/generate_kinds.py; do not edit.

Fields have the API's names in snake_case (``pod.status.pod_ips``). As in Go, absent numbers, strings and booleans are zero
values; absent lists, maps and pointers are None. Times and quantities are strings, binary values are ``bytes``.

Use these types for reading, creating and server-side apply. Updates are refused, because a newer server may have fields
that these types lack. A cached pod takes about ten kilobytes: a controller that caches many objects and reads few of
their fields should define a type with just those fields.
"""

# ruff: noqa: D101 - documented in the API reference of Kubernetes

import msgspec

from aiokube.api.meta import ObjectMeta, ObjectReference
from aiokube.api.resource import Resource
from aiokube.api.selectors import LabelSelector


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base class of all types in this module."""


'''
    text = head + "\n".join(writer.lines) + "\n".join(resources) + "\n"
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(OUT), "-"]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True, cwd=ROOT).stdout


if __name__ == "__main__":
    OUT.write_text(module())
