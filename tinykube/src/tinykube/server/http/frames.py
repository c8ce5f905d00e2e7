"""Encode watch events as JSON lines, shared between watchers if possible."""

from collections.abc import Callable
from datetime import datetime

from tinykube.server.http.codec import encode_json, encode_yaml
from tinykube.server.http.negotiation import Form
from tinykube.server.http.tables import bookmark_table, partial, table
from tinykube.server.objects import JsonObject
from tinykube.server.registry.definition import Definition
from tinykube.server.storage.watch import frame
from tinykube.server.verbs.context import shown
from tinykube.server.verbs.watch import Batch, Bookmark, Event, Events, Failure


def plain_line(event: Event) -> bytes:
    """Return the line of an event whose object is sent as stored; lines of changes are shared by all watchers."""
    if event.change is not None:
        return frame(event.change, event.type)
    return b'{"type":"%b","object":%b}\n' % (event.type.encode(), event.stored.encoded)


def _document(event: Event) -> JsonObject:
    document = event.stored.decode()
    document["metadata"]["resourceVersion"] = str(event.revision)
    return document


def _bookmark(definition: Definition, bookmark: Bookmark) -> JsonObject:
    metadata: JsonObject = {"resourceVersion": str(bookmark.revision)}
    if bookmark.ends_initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": definition.kind, "apiVersion": definition.api_version, "metadata": metadata}


class Framer:
    """Encodes the batches of one watch; each batch is one chunk of the HTTP stream."""

    def __init__(
        self,
        definition: Definition,
        form: Form,
        now: Callable[[], datetime],
        *,
        include_object: str = "Metadata",
    ) -> None:
        self._definition = definition
        self._form = form
        self._now = now
        self._include_object = include_object
        self._is_plain = not form.transform and not form.is_yaml and definition.view is None
        self._columns_sent = False

    def frame(self, batch: Batch) -> bytes:
        """Encode a batch."""
        if self._is_plain:
            lines = [plain_line(item) if type(item) is Event else self._line(item) for item in batch]
        else:
            lines = [self._line(item) for item in batch]
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def chunk(self, batch: Batch) -> bytes:
        """Encode a batch as one chunk of a chunked HTTP body; computed once for watches that share a plain batch."""
        if not self._is_plain or not isinstance(batch, Events):
            return chunk(self.frame(batch))
        if not batch.plain:
            batch.plain = chunk(self.frame(batch))
        return batch.plain

    def _line(self, item: Event | Bookmark | Failure) -> bytes:
        if isinstance(item, Failure):
            return self._encode("ERROR", item.status.to_status())
        if isinstance(item, Bookmark):
            return self._encode("BOOKMARK", self._transformed_bookmark(_bookmark(self._definition, item)))
        return self._encode(item.type, self._transformed(shown(self._definition, _document(item))))

    def _encode(self, kind: str, document: JsonObject) -> bytes:
        event = {"type": kind, "object": document}
        return b"---\n" + encode_yaml(event) if self._form.is_yaml else encode_json(event)

    def _transformed(self, document: JsonObject) -> JsonObject:
        if self._form.transform == "Table":
            with_columns, self._columns_sent = not self._columns_sent, True
            return table(
                self._definition,
                [document],
                {"resourceVersion": document["metadata"]["resourceVersion"]},
                now=self._now(),
                include_object=self._include_object,
                version=self._form.version,
                with_columns=with_columns,
            )
        return partial(document, self._form.version) if self._form.transform else document

    def _transformed_bookmark(self, document: JsonObject) -> JsonObject:
        if self._form.transform == "Table":
            columns, self._columns_sent = None if self._columns_sent else self._definition, True
            metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
            return bookmark_table(document, metadata, version=self._form.version, columns=columns)
        return partial(document, self._form.version) if self._form.transform else document


def chunk(data: bytes) -> bytes:
    """Format data as one chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
