"""Strategic merge patch: the types determine which lists are merged, and by which key.

Directives in the patch: ``$patch: replace`` and ``$patch: delete`` in an object or list item;
``$deleteFromPrimitiveList/<field>``; ``$setElementOrder/<field>``; ``$retainKeys``.

Order of a merged list: items of the patch follow ``$setElementOrder`` (or the patch), the others follow the
document; the relative order of two items that the document has is that of the document.
"""

from collections.abc import Hashable
from typing import Any

from tinykube.server.objects import JsonObject
from tinykube.server.patch.documents import copied, identity, same
from tinykube.server.patch.errors import PatchError, go_type_of
from tinykube.server.patch.merge_order import ordered
from tinykube.server.schema.loader import object_type
from tinykube.server.schema.model import Field, ListRef, ObjectRef, ObjectType, TypeRef

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_SET_ORDER = "$setElementOrder"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_DELETE_FROM = "invalid patch format of primitive list"
_BAD_SET_ORDER = "invalid patch format of setElementOrder list"


def apply_strategic_merge(described: ObjectType, document: JsonObject, patch: object) -> JsonObject:
    """Return the merged document; neither argument is modified. The document must be conformed.

    Raises PatchError: 400 for a malformed patch or a misused directive, 422 for one that does not fit the
    types.
    """
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise PatchError(
            400, f"json: cannot unmarshal {go_type_of(patch)} into Go value of type map[string]interface {{}}"
        )
    return _merge(copied(document), copied(patch), described.ref)


def _merge(original: JsonObject, patch: JsonObject, ref: TypeRef | None) -> JsonObject:
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    for name in [name for name in patch if name.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, name, ref)
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_from(original, _target_of(name, _DELETE_FROM, _BAD_DELETE_FROM), value)
        elif value is None:
            original.pop(name, None)
        else:
            _merge_value(original, name, value, ref)
    return original


def _merge_value(original: JsonObject, name: str, value: Any, ref: TypeRef | None) -> None:
    present: Any = original.get(name)
    if type(present) is not type(value) or not isinstance(value, dict | list):
        kept, without = _without_directives(_without_nulls(value))
        if kept:
            original[name] = without
        else:
            original.pop(name, None)
        return
    field = _field(ref, name)
    if isinstance(value, dict):
        original[name] = _merge(present, value, field.type)
    elif "merge" in field.patch_strategies:
        original[name] = _merge_list(present, value, field)
    else:
        original[name] = value


def _directed(patch: JsonObject) -> JsonObject:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise PatchError(400, f"unknown patch type: {directive} in map: replace and delete are known")


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    """Remove the fields that the directive does not list."""
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise PatchError(400, _BAD_RETAIN_KEYS)
    names = {name for name in retained if isinstance(name, str)}
    for name, value in patch.items():
        directive = name.startswith((_DELETE_FROM, _SET_ORDER))
        if value is not None and not directive and name not in names:
            raise PatchError(400, f"{_BAD_RETAIN_KEYS}: {name} is set and not retained")
    for name in [name for name in original if name not in names]:
        del original[name]


def _delete_from(original: JsonObject, name: str, deleted: Any) -> None:
    present = original.get(name)
    if present is None:
        return
    if not isinstance(deleted, list) or not isinstance(present, list):
        raise PatchError(400, f"{_BAD_DELETE_FROM}: {name}")
    gone = set(map(identity, deleted))
    original[name] = [item for item in present if identity(item) not in gone]


def _merge_ordered(original: JsonObject, patch: JsonObject, directive: str, ref: TypeRef | None) -> None:
    """Merge a list with an explicit order, and sort it."""
    order = patch.pop(directive)
    name = _target_of(directive, _SET_ORDER, _BAD_SET_ORDER)
    present, given = original.get(name), patch.get(name)
    for one in (order, present if name in original else [], given if name in patch else []):
        if not isinstance(one, list):
            raise PatchError(
                400, f"{_BAD_SET_ORDER}: {name}: expected a list, but received {go_type_of(one)}"
            )
    field = _field(ref, name)
    _check_order(given or [], order, field.merge_key)
    if present is None and given is None:
        return
    if given is None:
        merged = present or []
    elif present is None:
        merged = _without_directives(given)[1]
    elif "merge" in field.patch_strategies:
        merged = _merge_list(present, given, field)
    else:
        merged = given
    _check_items([*(present or []), *(given or [])])
    original[name] = ordered(merged, order, present or [], field.merge_key)
    patch.pop(name, None)


def _check_order(given: list[Any], order: list[Any], key: str) -> None:
    """Raise PatchError if the items of the patch are not in the order that the patch itself specifies."""
    items = [item for item in given if not (isinstance(item, dict) and _DIRECTIVE in item)]
    if not order or not items:
        return
    left = iter(order)
    for item in items:
        value = _key_of(item, key)
        if not any(same(value, _key_of(one, key)) for one in left):
            raise PatchError(400, f"the order in the patch's list does not match its {_SET_ORDER} list")


def _merge_list(original: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if not original and not patch:
        return original
    _check_items([*original, *patch])
    key = field.merge_key
    if not isinstance((original or patch)[0], dict):
        unique: dict[Hashable, Any] = {}
        for item in [*original, *patch]:
            unique.setdefault(identity(item), item)
        return ordered(list(unique.values()), patch, original, "")
    if not key:
        raise PatchError(422, f"cannot merge lists without merge key for {field.name}")
    original, patch = _directed_items(original, patch, key)
    item_type = field.type.item if isinstance(field.type, ListRef) else None
    merged = list(original)
    places: dict[Hashable, int] = {}
    for at, one in enumerate(merged):
        if key in one:
            places.setdefault(identity(one[key]), at)
    for item in patch:
        at = places.setdefault(identity(_key_of(item, key)), len(merged))
        if at == len(merged):
            merged.append(item)
        else:
            merged[at] = _merge(merged[at], item, item_type)
    return ordered(merged, patch, original, key)


def _directed_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the directives in list items; return the list, and the patch without them."""
    plain = [item for item in patch if _DIRECTIVE not in item]
    replaced = False
    gone: set[Hashable] = set()
    for item in patch:
        if _DIRECTIVE not in item:
            continue
        match item[_DIRECTIVE]:
            case "delete":
                gone.add(identity(_key_of(item, key)))
            case "replace":
                replaced = True
            case "merge":
                raise PatchError(400, "merging lists cannot yet be specified in the patch")
            case other:
                raise PatchError(400, f"unknown patch type: {other} in map: replace and delete are known")
    if gone:
        original = [one for one in original if not (key in one and identity(one[key]) in gone)]
    return (plain, []) if replaced else (original, plain)


def _check_items(items: list[Any]) -> None:
    kinds = {type(item) for item in items}
    if list in kinds:
        raise PatchError(422, "lists of lists are not supported")
    if len(kinds) > 1:
        raise PatchError(422, "list element types are not identical")
    if not kinds:
        raise PatchError(422, "no elements in any of the given slices")


def _key_of(item: Any, key: str) -> Any:
    if not key:
        return item
    if not isinstance(item, dict) or key not in item:
        raise PatchError(422, f"an item of the list does not contain declared merge key: {key}")
    return item[key]


def _target_of(directive: str, prefix: str, problem: str) -> str:
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise PatchError(400, problem)
    return name


def _field(ref: TypeRef | None, name: str) -> Field:
    if not isinstance(ref, ObjectRef):
        raise PatchError(422, f"merging an object in json but data type is not struct: {name}")
    field = object_type(ref).fields.get(name)
    if field is None:
        raise PatchError(422, f"unable to find api field in struct {ref.name} for the json field {name!r}")
    return field


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[bool, Any]:
    """Return whether a new value is kept, and the value without ``$patch`` directives, which have no target."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return False, None
        pairs = ((key, _without_directives(item)) for key, item in value.items())
        return True, {key: item for key, (kept, item) in pairs if kept}
    if isinstance(value, list):
        return True, [item for kept, item in map(_without_directives, value) if kept]
    return True, value
