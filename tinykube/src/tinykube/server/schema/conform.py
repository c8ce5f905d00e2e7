"""Conform a document to its type, as if it were decoded into Go structs and encoded again.

* Values of a wrong type are rejected with the message of Go's JSON decoder.
* Unknown fields are removed and reported.
* ``null`` is the same as absent; in a list or map it becomes the zero value of the item type.
* Zero values of non-pointer fields are omitted. Fields that Go always writes are filled in: structs as
  ``{}``, scalars as
  their zero value, lists and maps as ``null`` (``targetPort: 0``, ``firstTimestamp: null``, ``endpoints: null``).
* Quantities, times and base64 are written in canonical form.

Conforming is idempotent. Each type is compiled into a table on first use; a pod of 9 KB takes a quarter of a
millisecond.
"""

from collections.abc import Callable
from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.schema.errors import MismatchError
from tinykube.server.schema.loader import COMPILING, object_type
from tinykube.server.schema.model import (
    Field,
    ListRef,
    MapRef,
    ObjectRef,
    ObjectType,
    Scalar,
    ScalarRef,
    TypeRef,
)
from tinykube.server.schema.scalars import mismatch, scalar_check

Path = tuple[Any, ...]
"""The place of a value: its parent's path and one step: a field name, an index, or a map key in a tuple."""

Check = Callable[[Any, list[str], Path], Any]

_RESOURCE_LIST = "v1.ResourceList"
_FAST = {Scalar.STRING: str, Scalar.BOOL: bool}
_WRITTEN_ZEROS: dict[Scalar, Any] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.FLOAT64: 0,
    Scalar.QUANTITY: "0",
    Scalar.INT_OR_STRING: 0,
}
_STRUCTS_IN_GO = (Scalar.QUANTITY, Scalar.INT_OR_STRING, Scalar.TIME, Scalar.MICRO_TIME, Scalar.RAW)

_compiled: dict[ObjectRef, Check] = {}


def conform(described: ObjectType, document: JsonObject) -> list[str]:
    """Conform a document to its type, in place; return the unknown fields in document order.

    The messages are those of strict validation: ``unknown field "spec.ports[0].foo"``. Raises
    :class:`~tinykube.server.schema.errors.ConformError` with the message that clients see; the document is
    then half conformed and must be discarded.
    """
    problems: list[str] = []
    with COMPILING:  # a recursive type is registered before it is complete
        check = _object_check(described.ref)
    check(document, problems, ())
    return problems


def _check(ref: TypeRef, *, to_milli: bool = False) -> Check:
    if isinstance(ref, ObjectRef):
        return _object_check(ref)
    if isinstance(ref, ListRef):
        return _list_check(ref)
    if isinstance(ref, MapRef):
        return _map_check(ref)
    check = scalar_check(ref, to_milli=to_milli)
    return lambda value, problems, path: check(value)


def _object_check(ref: ObjectRef) -> Check:
    if ref not in _compiled:
        # Registered before it is filled, for recursive types.
        fields: dict[str, tuple[type | None, bool, Check]] = {}
        filled: list[tuple[str, Any, Check | None]] = []
        _compiled[ref] = _compile(ref, fields, filled)
        for field in object_type(ref).fields.values():
            check = _check(field.type)
            fields[field.name] = (_fast_type(field), _keeps_zero(field), check)
            if _is_filled(field):
                is_object = isinstance(field.type, ObjectRef) and not field.pointer
                filled.append((field.name, _written_zero(field), check if is_object else None))
    return _compiled[ref]


def _compile(
    ref: ObjectRef,
    fields: dict[str, tuple[type | None, bool, Check]],
    filled: list[tuple[str, Any, Check | None]],
) -> Check:
    struct_name, go_name = ref.name, ref.go_name

    def check(value: Any, problems: list[str], path: Path) -> Any:
        if type(value) is not dict:
            raise mismatch(value, go_name)
        dropped: list[str] = []
        name = ""
        try:
            for name, item in value.items():
                known = fields.get(name)
                if known is None:
                    problems.append(f'unknown field "{_strict_path(path, name)}"')
                    dropped.append(name)
                    continue
                fast, keeps_zero, check_item = known
                if type(item) is fast:
                    if not item and not keeps_zero:
                        dropped.append(name)
                elif item is None:
                    dropped.append(name)
                else:
                    new = check_item(item, problems, (path, name))
                    if new is not item:
                        value[name] = new
                    if not new and (new is None or not keeps_zero):
                        dropped.append(name)
        except MismatchError as error:
            error.at(struct_name, _fields_only(path, name))
            raise
        for name in dropped:
            del value[name]
        for name, zero, object_check in filled:
            if name not in value:
                value[name] = zero if object_check is None else object_check({}, problems, path)
        return value

    return check


def _fast_type(field: Field) -> type | None:
    return _FAST.get(field.type.scalar) if isinstance(field.type, ScalarRef) else None


def _is_struct(field: Field) -> bool:
    if isinstance(field.type, ScalarRef):
        return field.type.scalar in _STRUCTS_IN_GO
    return isinstance(field.type, ObjectRef)


def _keeps_zero(field: Field) -> bool:
    if field.pointer:
        return True
    if _is_struct(field):
        return not field.omit_zero
    return field.always and isinstance(field.type, ScalarRef)


def _is_filled(field: Field) -> bool:
    return field.always or (_is_struct(field) and not field.pointer and not field.omit_zero)


def _written_zero(field: Field) -> Any:
    if field.pointer or not isinstance(field.type, ScalarRef):
        return None
    return _WRITTEN_ZEROS.get(field.type.scalar)


def _list_check(ref: ListRef) -> Check:
    check_item, fast = _check(ref.item), _fast_item(ref.item)
    go_name = ref.go_name

    def check(value: Any, problems: list[str], path: Path) -> Any:
        if type(value) is not list:
            raise mismatch(value, go_name)
        for index, item in enumerate(value):
            if type(item) is not fast:
                if item is None:
                    value[index] = _zero_item(ref.item, check_item)
                    continue
                new = check_item(item, problems, (path, index))
                if new is not item:
                    value[index] = new
        return value

    return check


def _map_check(ref: MapRef) -> Check:
    check_item, fast = _check(ref.value, to_milli=ref.alias == _RESOURCE_LIST), _fast_item(ref.value)
    go_name = ref.go_name

    def check(value: Any, problems: list[str], path: Path) -> Any:
        if type(value) is not dict:
            raise mismatch(value, go_name)
        for key, item in value.items():
            if type(item) is not fast:
                if item is None:
                    value[key] = _zero_item(ref.value, check_item)
                    continue
                new = check_item(item, problems, (path, (key,)))
                if new is not item:
                    value[key] = new
        return value

    return check


def _fast_item(ref: TypeRef) -> type | None:
    return _FAST.get(ref.scalar) if isinstance(ref, ScalarRef) else None


def _zero_item(ref: TypeRef, check: Check) -> Any:
    if isinstance(ref, ObjectRef):
        return check({}, [], ())
    if isinstance(ref, ScalarRef):
        return "" if ref.scalar is Scalar.BYTES else _WRITTEN_ZEROS.get(ref.scalar)
    return [] if isinstance(ref, ListRef) else {}


def _strict_path(path: Path, name: str) -> str:
    """Format a path for strict validation: ``spec.ports[0].foo``."""
    steps = [name]
    while path:
        path, step = path
        if isinstance(step, int):
            steps[-1] = f"[{step}].{steps[-1]}" if not steps[-1].startswith("[") else f"[{step}]{steps[-1]}"
        else:
            steps.append(step[0] if isinstance(step, tuple) else step)
    text = steps[-1]
    for step in reversed(steps[:-1]):
        text += step if step.startswith("[") else f".{step}"
    return text


def _fields_only(path: Path, name: str) -> str:
    """Format a path for type errors: field names without indices and keys."""
    steps = [name]
    while path:
        path, step = path
        if isinstance(step, str):
            steps.append(step)
    return ".".join(reversed(steps))
