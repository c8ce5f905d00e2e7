"""JSON Patch (RFC 6902), with the behaviour of kube-apiserver's implementation.

Differences from the RFC: a missing ``value`` is ``null``; an absent member is ``null`` for ``test``, ``copy``
and ``replace`` (so ``replace`` also adds); negative indices count from the end; a path without a leading
slash loses its first step. Either all operations are applied or none.
"""

import re
from typing import Any

import msgspec

from tinykube.server.objects import JsonObject
from tinykube.server.patch.documents import copied, same
from tinykube.server.patch.errors import PatchError, go_type_of
from tinykube.server.schema.depth import MAX_DEPTH, is_too_deep

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Limit of the data added by ``copy``: otherwise a short patch could create any amount."""

MAX_MOVED_ITEMS = 200_000_000
"""Limit of list items moved by inserts and removals before them: a tenth of a second."""

_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MISSING = object()


def apply_json_patch(document: JsonObject, patch: object) -> Any:
    """Return the patched document; neither argument is modified.

    The result is a list if the patch replaces the root with one. Raises PatchError: 400 for a malformed
    patch, 413 for more than 10,000 operations, 422 for an operation that cannot be applied.
    """
    operations = _operations(patch)
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
        )
    work = _Work(copied(document))
    for operation in operations:
        work.apply(operation)
    if is_too_deep(work.root):
        raise PatchError(422, f"the patch nests the object more than {MAX_DEPTH} levels deep")
    return work.root


def _operations(patch: object) -> list[dict[str, Any]]:
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(f"{go_type_of(patch)} into Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if not isinstance(operation, dict):
            raise _undecodable(f"{go_type_of(operation)} into Go value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise _undecodable(
                    f"{go_type_of(value)} into Go struct field jsonPatchOp.{name} of type string"
                )
    return patch


def _undecodable(what: str) -> PatchError:
    return PatchError(400, f"error decoding patch: json: cannot unmarshal {what}")


class _Work:
    """A document during the application of operations."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied_bytes = 0
        self._moved_items = 0

    def apply(self, operation: dict[str, Any]) -> None:
        kind = operation.get("op")
        path = operation.get("path")
        match kind:
            case "add":
                container, key = self._place(path, "add")
                self._add(container, key, copied(operation.get("value")))
            case "remove":
                container, key = self._place(path, "remove")
                self._remove(container, key)
            case "replace":
                self._replace(path, copied(operation.get("value")))
            case "test":
                self._test(path, operation.get("value", _MISSING))
            case "move":
                source, source_key = self._place(operation.get("from"), "move")
                value = _get(source, source_key)
                self._remove(source, source_key)
                container, key = self._place(path, "move")
                self._add(container, key, value)
            case "copy":
                source, source_key = self._place(operation.get("from"), "copy")
                value = copied(_get(source, source_key))
                self._count(value)
                container, key = self._place(path, "copy")
                self._add(container, key, value)
            case _:
                raise PatchError(422, f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")

    def _add(self, container: Any, key: str, value: Any) -> None:
        self._count_moved(container)
        _add(container, key, value)

    def _remove(self, container: Any, key: str) -> None:
        self._count_moved(container)
        _remove(container, key)

    def _count_moved(self, container: Any) -> None:
        if not isinstance(container, list):
            return
        self._moved_items += len(container)
        if self._moved_items > MAX_MOVED_ITEMS:
            raise PatchError(
                422,
                "the operations of the patch on long lists are too many: replace the list as a whole",
            )

    def _count(self, value: Any) -> None:
        self._copied_bytes += len(msgspec.json.encode(value))
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise PatchError(
                422,
                f"the copy operations of the patch make more than {MAX_COPIED_BYTES} bytes of data: make it smaller",
            )

    def _replace(self, path: str | None, value: Any) -> None:
        if path == "":
            if not isinstance(value, dict | list):
                raise PatchError(422, "replace operation value must be object or array")
            self.root = value
            return
        container, key = self._place(path, "replace")
        if isinstance(container, list):
            container[_existing_index(container, key)] = value
        else:
            container[key] = value

    def _test(self, path: str | None, wanted: Any) -> None:
        if path == "":
            found = self.root
        else:
            container, key = self._place(path, "test")
            found = _get(container, key)
        expected = None if wanted is _MISSING else wanted
        if not same(found, expected) or (wanted is _MISSING and found is not None):
            raise PatchError(422, f"testing value {path} failed: test failed")

    def _place(self, path: str | None, kind: str) -> tuple[Any, str]:
        """Return the container of a path's last step, and that step."""
        if path is None:
            raise PatchError(422, f"{kind} operation misses its path or from")
        steps = path.split("/")
        container = self.root if len(steps) > 1 else None
        for step in steps[1:-1]:
            if isinstance(container, dict):
                container = container.get(_unescaped(step))
            elif isinstance(container, list):
                index = _index(step)
                in_range = index is not None and -len(container) <= index < len(container)
                container = container[index] if index is not None and in_range else None
        if not isinstance(container, dict | list):
            raise PatchError(422, f'{kind} operation does not apply: doc is missing path: "{path}"')
        return container, _unescaped(steps[-1])


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _index(key: str) -> int | None:
    return int(key) if _INDEX.fullmatch(key) else None


def _bad_index(key: str) -> PatchError:
    return PatchError(422, f"Unable to access invalid index: {key}")


def _existing_index(container: list[Any], key: str) -> int:
    index = _index(key)
    if index is None or not -len(container) <= index < len(container):
        raise _bad_index(key)
    return index


def _get(container: Any, key: str) -> Any:
    if isinstance(container, list):
        return container[_existing_index(container, key)]
    return container.get(key)


def _add(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    index = _index(key)
    size = len(container) + 1
    if index is None or not -size <= index < size:
        raise _bad_index(key)
    container.insert(index + size if index < 0 else index, value)


def _remove(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_existing_index(container, key)]
    elif key in container:
        del container[key]
    else:
        raise PatchError(422, f"Unable to remove nonexistent key: {key}")
