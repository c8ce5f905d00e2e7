"""Manifests as people keep them: files, folders and standard input, YAML of many documents or JSON, each with its place.

Everything is read before anything is used, so that a slip in the last file is told before the first is applied.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
"""What kustomize reads in a folder; no object of the API."""


class ManifestError(Exception):
    """A manifest that cannot be read: the text names file and line, and says what is wrong."""


class Manifest(msgspec.Struct, frozen=True):
    """One object, and where it stands: ``shop.yaml:14``."""

    document: dict[str, Any]
    source: str
    line: int

    @property
    def place(self) -> str:
        """File and line, as editors take them."""
        return f"{self.source}:{self.line}"

    @property
    def api_version(self) -> str:
        """``v1``, ``apps/v1``."""
        return str(self.document["apiVersion"])

    @property
    def kind(self) -> str:
        """``Service``."""
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """Its name, ``""`` where the server is to make one up."""
        return str(self.document["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace it asks for, ``""`` where it leaves that open."""
        return str(self.document["metadata"].get("namespace", ""))

    def __str__(self) -> str:
        """Return what the object is, and where it stands."""
        return f"{self.kind} {self.name or self.document['metadata'].get('generateName', '')} ({self.place})"


def read_manifests(paths: Sequence[str], *, stdin: IO[bytes] | None = None) -> list[Manifest]:
    """Return the objects of all files, in order; of a folder, those of its files by name, not of its subfolders.

    A kustomization in a folder is passed over: it describes how to build objects, and is none.

    A ``List`` stands for its items. Empty documents are skipped. Raises :class:`ManifestError` for the first
    that cannot be read: a file that is not there, broken YAML, a document that is no object.
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
            raise ManifestError(f"{source}: this is not YAML or JSON: {error.problem}") from error
        raise ManifestError(f"{source}:{error.line}: {error.problem}") from error


def _read(file: IO[bytes]) -> bytes:
    """Read a file, or the first byte too many of one that is too large: the reader refuses it."""
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
                f"{place}: {field} is missing" if value is None else f"{place}: {field} must be a text"
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
            raise ManifestError(f"{place}: metadata.{field} must be a text; put it in quotes")
    yield document


def _type(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), type(value).__name__)
