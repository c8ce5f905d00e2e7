"""Encode lists: stored bytes are joined without encoding them again; tables and views are encoded on request."""

from collections.abc import Iterator
from datetime import datetime

from tinykube.server.http.codec import encode_json, encode_yaml
from tinykube.server.http.negotiation import Form
from tinykube.server.http.tables import partial_list, table
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition
from tinykube.server.storage.model import StoredObject
from tinykube.server.verbs.context import shown
from tinykube.server.verbs.read import Page


def list_metadata(definition: Definition, page: Page) -> JsonObject:
    """Return the metadata of a list."""
    metadata: JsonObject = {"resourceVersion": str(page.revision)}
    if page.continue_token or definition.typed_items:
        metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def encode_page(
    definition: Definition, page: Page, form: Form, *, include_object: str, now: datetime
) -> bytes:
    """Encode the response to a list that is not sent as it is stored (see :func:`is_plain`)."""
    metadata = list_metadata(definition, page)
    documents = [shown(definition, stored.decode()) for stored in page.items]
    if form.transform == "Table":
        document = table(
            definition, documents, metadata, now=now, include_object=include_object, version=form.version
        )
    elif form.transform:
        document = partial_list(documents, metadata, form.version)
    else:
        document = typed_list(definition, documents, metadata)
    return encode_yaml(document) if form.is_yaml else encode_json(document, pretty=form.is_pretty)


def typed_list(definition: Definition, documents: list[JsonObject], metadata: JsonObject) -> JsonObject:
    """Return the list of a kind; items have kind and apiVersion only if the definition specifies it."""
    if not definition.typed_items:
        for document in documents:
            document.pop("kind", None)
            document.pop("apiVersion", None)
    return {
        "kind": definition.listed_kind,
        "apiVersion": definition.api_version,
        "metadata": metadata,
        "items": documents,
    }


def item_of(stored: StoredObject) -> bytes:
    """Return the encoding of an object as a list item."""
    return b"{" + stored.encoded[stored.item_offset :]


def is_plain(definition: Definition, form: Form) -> bool:
    """Return whether a list goes out as its objects are stored."""
    return form == _PLAIN and definition.view is None


def plain_texts(definition: Definition, page: Page) -> tuple[Iterator[bytes], int]:
    """Return a plain list as texts, made while they are read, and how many bytes they have."""
    head = encode_json(
        {
            "kind": definition.listed_kind,
            "apiVersion": definition.api_version,
            "metadata": list_metadata(definition, page),
        }
    )
    begin = head[:-2] + (b',"items":[{' if page.items else b',"items":[')
    between = b",{"

    def skipped(stored: StoredObject) -> int:
        return 1 if definition.typed_items else stored.item_offset

    size = len(begin) + len(_END) + len(between) * max(len(page.items) - 1, 0)
    size += sum(len(stored.encoded) - skipped(stored) for stored in page.items)

    def texts() -> Iterator[bytes]:
        yield begin
        for number, stored in enumerate(page.items):
            if number:
                yield between
            yield stored.encoded[skipped(stored) :]
        yield _END

    return texts(), size


_END = b"]}\n"
_PLAIN = Form()
