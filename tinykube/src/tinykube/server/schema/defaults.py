"""Static defaults: values of unset fields that do not depend on the rest of the object.

Defaults that depend on other fields (a container's ``imagePullPolicy`` on its image, a service's
``targetPort`` on its ``port``) are set by the kind's strategy.
"""

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from tinykube.server.objects import JsonObject
from tinykube.server.schema.loader import COMPILING, object_type
from tinykube.server.schema.model import Field, ListRef, MapRef, ObjectRef, ObjectType, TypeRef

Apply = Callable[[Any], None]

_compiled: dict[ObjectRef, Apply | None] = {}


def apply_defaults(described: ObjectType, document: JsonObject) -> None:
    """Set the static defaults of a type, in place; the document must be conformed.

    A default is set only if its parent exists: a probe gets its period, but a container without a probe gets
    no probe. Idempotent.
    """
    with COMPILING:  # a recursive type is registered before it is complete
        apply = _object_defaults(described.ref)
    if apply is not None:
        apply(document)


def _object_defaults(ref: ObjectRef) -> Apply | None:
    """Return the function that sets the defaults of a type and its nested types; ``None`` without defaults."""
    if ref not in _compiled:
        _compiled[ref] = None  # a recursive type has no defaults through itself
        _compiled[ref] = _compile(object_type(ref))
    return _compiled[ref]


def _compile(described: ObjectType) -> Apply | None:
    owned = [field for field in described.fields.values() if field.default is not msgspec.UNSET]
    simple = [
        (field.name, field.default)
        for field in owned
        if not field.always and field.default_when is None and not isinstance(field.default, dict)
    ]
    special = [field for field in owned if (field.name, field.default) not in simple]
    # Defaults that depend on an unset sibling are set before that sibling gets its own default.
    early = [field for field in special if field.default_when and not field.default_when[1]]
    late = [field for field in special if field not in early]
    below = [
        (field.name, apply_below)
        for field in described.fields.values()
        if (apply_below := _type_defaults(field.type)) is not None
    ]
    otherwise = described.otherwise
    chosen = [name for inlined in described.inlined for name in object_type(inlined.type).fields if otherwise]
    deep = described.deep_defaults
    if not (owned or below or otherwise or deep):
        return None

    def apply(value: JsonObject) -> None:
        if early:
            _set_special(early, value)
        for name, default in simple:
            if name not in value:
                value[name] = default
        if late:
            _set_special(late, value)
        if otherwise and not any(name in value for name in chosen):
            value[otherwise] = {}
        for path, default in deep:
            _set_deep(value, path, default)
        for name, apply_to in below:
            item = value.get(name)
            if item is not None:
                apply_to(item)

    return apply


def _type_defaults(ref: TypeRef) -> Apply | None:
    if isinstance(ref, ObjectRef):
        return _object_defaults(ref)
    if isinstance(ref, ListRef):
        apply = _type_defaults(ref.item)
        if apply is None:
            return None

        def apply_to_items(items: list[Any]) -> None:
            for item in items:
                apply(item)

        return apply_to_items
    if isinstance(ref, MapRef):
        apply_value = _type_defaults(ref.value)
        if apply_value is None:
            return None

        def apply_to_values(values: dict[str, Any]) -> None:
            for value in values.values():
                apply_value(value)

        return apply_to_values
    return None


def _set_special(fields: list[Field], value: JsonObject) -> None:
    for field in fields:
        if _is_unset(field, value) and _applies(field, value):
            value[field.name] = copy.deepcopy(field.default)


def _is_unset(field: Field, value: JsonObject) -> bool:
    present = value.get(field.name)
    return present is None or (not field.pointer and not present and present != field.default)


def _applies(field: Field, value: JsonObject) -> bool:
    if field.default_when is None:
        return True
    sibling, wanted = field.default_when
    given = value.get(sibling) or ""
    return bool(given == wanted)


def _set_deep(value: JsonObject, path: tuple[str, ...], default: Any) -> None:
    for name in path[:-1]:
        inner = value.get(name)
        if inner is None:
            return
        value = inner
    value.setdefault(path[-1], copy.deepcopy(default))
