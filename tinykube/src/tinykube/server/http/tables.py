"""Tables for kubectl, and metadata-only responses."""

from collections.abc import Sequence
from datetime import datetime

from tinykube.server.objects import JsonObject, metadata_of
from tinykube.server.registry.definition import Column, Definition, Subresource

_META_GROUP = "meta.k8s.io"


def partial(document: JsonObject, version: str = "v1") -> JsonObject:
    """Return an object's metadata as a PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": metadata_of(document),
    }


def partial_list(
    documents: Sequence[JsonObject], list_metadata: JsonObject, version: str = "v1"
) -> JsonObject:
    """Return a PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": list_metadata,
        "items": [partial(document, version) for document in documents],
    }


def table(
    definition: Definition | Subresource,
    documents: Sequence[JsonObject],
    list_metadata: JsonObject,
    *,
    now: datetime,
    include_object: str = "Metadata",
    version: str = "v1",
    with_columns: bool = True,
) -> JsonObject:
    """Return a Table. ``include_object``: the content of each row beside its cells (None, Metadata, Object)."""
    columns = definition.columns or _DEFAULT_COLUMNS
    seconds = now.timestamp()
    rows = []
    for document in documents:
        row: JsonObject = {"cells": [column.cell(document, seconds) for column in columns]}
        if include_object == "Object":
            row["object"] = document
        elif include_object == "Metadata":
            row["object"] = partial(document, version)
        else:
            row["object"] = None
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": list_metadata,
        "columnDefinitions": [_column(column) for column in columns] if with_columns else None,
        "rows": rows,
    }


def bookmark_table(
    document: JsonObject, list_metadata: JsonObject, *, version: str, columns: Definition | None
) -> JsonObject:
    """Return the Table of a bookmark: one row without cells, always with metadata."""
    definitions = None
    if columns is not None:
        definitions = [_column(column) for column in columns.columns or _DEFAULT_COLUMNS]
    return {
        "kind": "Table",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": list_metadata,
        "columnDefinitions": definitions,
        "rows": [{"cells": [], "object": partial(document, version)}],
    }


def _column(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _name(document: JsonObject, now: float) -> str:
    return str(metadata_of(document).get("name", ""))


def _created(document: JsonObject, now: float) -> str:
    return str(metadata_of(document).get("creationTimestamp", ""))


_DEFAULT_COLUMNS = (
    Column(name="Name", cell=_name, format="name", description="The name of the object."),
    Column(name="Created At", cell=_created, type="date", description="When the object was created."),
)
