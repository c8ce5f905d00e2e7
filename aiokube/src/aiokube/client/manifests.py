"""Manifest files: files, folders and standard input, multi-document YAML or JSON, with line numbers.

All files are read before any object is used, so that a mistake in the last file is reported before the first
object is applied.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
"""Files that configure kustomize; they are not API objects."""


class ManifestError(Exception):
    """An invalid manifest: the message names the file, the line and the problem."""


class Manifest(msgspec.Struct, frozen=True):
    """One object and its position: ``shop.yaml:14``."""

    document: dict[str, Any]
    source: str
    line: int

    @property
    def place(self) -> str:
        """The file and line, in the form that editors accept."""
        return f"{self.source}:{self.line}"

    @property
    def api_version(self) -> str:
        """The API version: ``v1``, ``apps/v1``."""
        return str(self.document["apiVersion"])

    @property
    def kind(self) -> str:
        """The kind: ``Service``."""
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """The name, ``""`` if the server generates it."""
        return str(self.document["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace, ``""`` if the manifest omits it."""
        return str(self.document["metadata"].get("namespace", ""))

    def __str__(self) -> str:
        """Return the kind, name and position of the object."""
        return f"{self.kind} {self.name or self.document['metadata'].get('generateName', '')} ({self.place})"


def read_manifests(paths: Sequence[str], *, stdin: IO[bytes] | None = None) -> list[Manifest]:
    """Return the objects of all files, in order; for a folder, its files by name, without subfolders.

    Kustomizations in a folder are skipped: they describe how to build objects. A ``List`` is replaced by its
    items. Empty documents are skipped. Raises :class:`ManifestError` for the first missing file, syntax
    error, or document that is not an object.
    """
    manifests: list[Manifest] = []
    for source, text in _texts(paths, stdin):
        manifests += parse_manifests(text, source)
    return manifests


def parse_manifests(text: bytes, source: str) -> list[Manifest]:
    """Return the objects of one file. Raises :class:`ManifestError` as :func:`read_manifests` does."""
    manifests = []
    for line, document in _documents(text, source):
        if document is None:
            continue
        manifests += [Manifest(item, source, line) for item in _items(document, f"{source}:{line}")]
    return manifests


def _texts(paths: Sequence[str], stdin: IO[bytes] | None) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        if path == STDIN:
            yield "stdin", _read(stdin or sys.stdin.buffer)
            continue
        try:
            place = Path(path)
            if not place.is_dir():
                yield path, _read_file(place)
                continue
            files = sorted(
                file
                for file in place.iterdir()
                if file.suffix in _SUFFIXES and file.name not in _KUSTOMIZATIONS and file.is_file()
            )
            if not files:
                raise ManifestError(f"{path}: there is no .yaml, .yml or .json file in this folder")
            for file in files:
                yield str(file), _read_file(file)
        except OSError as error:
            raise ManifestError(f"{error.filename or path}: {error.strerror or error}") from error


def _documents(text: bytes, source: str) -> Iterator[tuple[int, Any]]:
    from aiokube.yaml_reader import YamlError, read_documents

    try:
        for document in read_documents(text):
            for line, key in document.duplicates:
                raise ManifestError(f"{source}:{line}: the key {key!r} is already set above")
            yield document.line, document.value
    except YamlError as error:
        if error.line is None:
            raise ManifestError(f"{source}: not valid YAML or JSON: {error.problem}") from error
        raise ManifestError(f"{source}:{error.line}: {error.problem}") from error


def _read(file: IO[bytes]) -> bytes:
    """Read a file up to one byte beyond the limit; the parser then refuses it."""
    from aiokube.yaml_reader import DEFAULT_LIMITS

    return file.read(DEFAULT_LIMITS.max_bytes + 1)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _read(file)


def _items(document: Any, place: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        raise ManifestError(
            f"{place}: a manifest is a mapping with apiVersion and kind, not {_type(document)}"
        )
    for field in ("apiVersion", "kind"):
        value = document.get(field)
        if not isinstance(value, str) or not value:
            raise ManifestError(
                f"{place}: {field} is missing" if value is None else f"{place}: {field} must be a string"
            )
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"]):
            yield from _items(item, f"{place}: items[{number}]")
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise ManifestError(f"{place}: the {document['kind']} has no metadata.name")
    for field in ("name", "namespace", "generateName"):
        if not isinstance(metadata.get(field, ""), str):
            raise ManifestError(f"{place}: metadata.{field} must be a string; put it in quotes")
    yield document


def _type(value: Any) -> str:
    names = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), type(value).__name__)
