"""Documentation of types and fields: kept beside ``types/*.types``, and read only for OpenAPI documents.

The files (``types/*.about``) have one paragraph per type and field, each type and field once, in the order of
the types::

    PodSpec: The containers of a pod, and how to run them.
      nodeName: The node that the pod runs on. If it is empty, the scheduler chooses one
        and writes it here.
    EphemeralContainerCommon (like Container): ...

A continuation line is indented by two more spaces. ``like`` reuses the texts of another type's fields for
those that are missing. Texts of fields that all kinds share are in ``meta_v1.about``: under ``*List`` for
lists, under ``*`` for other kinds. Fields of an inlined type have the texts of that type unless the host
overrides them.

Nothing is cached here: callers read the files, build documents and cache those.
"""

import re
from collections.abc import Mapping
from importlib.resources import files

import msgspec

from tinykube.server.schema.loader import object_type, package
from tinykube.server.schema.model import ObjectType

_TYPE = re.compile(r"([^\s:]+)(?: \(like (\w+)\))?: (.+)")
_FIELD = re.compile(r"  ([^\s:]+): (.+)")
_MORE = re.compile(r"    (\S.*)")
_COMMON = "meta_v1"
EVERY_KIND, EVERY_LIST = "*", "*List"


class DescriptionError(ValueError):
    """A description file is malformed; the text names the file, the line and the problem."""


class AboutType(msgspec.Struct):
    """The texts of one type; ``text`` is empty for ``*``."""

    text: str
    like: str = ""
    """The type that provides the texts of fields not in ``fields``."""
    fields: dict[str, str] = msgspec.field(default_factory=dict)


def read_descriptions(text: str, name: str) -> Mapping[str, AboutType]:
    """Parse a description file; return its texts by type. ``name`` is the file name, for errors.

    Raises DescriptionError for malformed lines and duplicates.
    """
    found: dict[str, AboutType] = {}
    current: AboutType | None = None
    last_field = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if more := _MORE.fullmatch(line):
            if current is None:
                raise DescriptionError(f"{name}:{number}: a continuation without a type: start with a type")
            if last_field:
                current.fields[last_field] += f" {more[1]}"
            else:
                current.text += f" {more[1]}"
        elif field := _FIELD.fullmatch(line):
            last_field = field[1]
            if current is None:
                raise DescriptionError(
                    f"{name}:{number}: field {last_field} without a type: start with a type"
                )
            if last_field in current.fields:
                raise DescriptionError(f"{name}:{number}: {last_field} is described twice: keep one")
            current.fields[last_field] = field[2]
        elif described := _TYPE.fullmatch(line):
            if described[1] in found:
                raise DescriptionError(f"{name}:{number}: {described[1]} is described twice: keep one")
            current = found[described[1]] = AboutType(described[3], described[2] or "")
            last_field = ""
        else:
            raise DescriptionError(
                f"{name}:{number}: write 'Type: words', '  field: words' or '    more words'"
            )
    return found


class Descriptions:
    """The texts of types and fields. Each file is read on first use and kept for the lifetime of this object."""

    def __init__(self) -> None:
        self._packages: dict[str, Mapping[str, AboutType]] = {}

    def of_package(self, name: str) -> Mapping[str, AboutType]:
        """Return the texts of a package (``core_v1``) by type. Raises UnknownTypeError for an unknown package."""
        found = self._packages.get(name)
        if found is None:
            file = files("tinykube.server.schema") / "types" / f"{package(name).name}.about"
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            found = self._packages[name] = read_descriptions(text, file.name)
        return found

    def of_scalar(self, package_name: str, name: str) -> str:
        """Return the text of a scalar that is published by name (``Quantity``), or an empty string."""
        found = self.of_package(package_name).get(name)
        return found.text if found is not None else ""

    def of_type(self, described: ObjectType) -> str:
        """Return the text of a type, or an empty string."""
        return self.of_scalar(described.package, described.name)

    def of_field(self, described: ObjectType, name: str) -> str:
        """Return the text of a field, inlined or not, or an empty string."""
        types = self.of_package(described.package)
        about: AboutType | None = types.get(described.name)
        while about is not None:
            if name in about.fields:
                return about.fields[name]
            about = types.get(about.like) if about.like else None
        for inlined in described.inlined:
            inner = object_type(inlined.type)
            if name in inner.fields:
                return self.of_field(inner, name)
        return self._of_every_kind(described, name) if described.kind else ""

    def _of_every_kind(self, described: ObjectType, name: str) -> str:
        common = self.of_package(_COMMON)
        whose = (EVERY_LIST, EVERY_KIND) if described.name.endswith("List") else (EVERY_KIND,)
        return next((common[one].fields[name] for one in whose if name in common[one].fields), "")


__all__ = ["EVERY_KIND", "EVERY_LIST", "AboutType", "DescriptionError", "Descriptions", "read_descriptions"]
