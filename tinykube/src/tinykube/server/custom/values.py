"""Validation of values against a schema, with kube-apiserver's messages and order.

Unchanged parts of an updated object are not validated, even if a later schema makes them invalid, so that the
rest can be changed.
"""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tinykube.server.custom.formats import is_known, text_matches
from tinykube.server.custom.patterns import PatternError, go_pattern, search_microseconds
from tinykube.server.custom.structural_schema import Schema
from tinykube.server.custom.validation_result import NEW, ValidationResult, error_below, number_text
from tinykube.server.errors import FieldError, invalid_value, not_supported, required, too_long, too_many

_INT_OR_STRING = "x-kubernetes-int-or-string"
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_INT64 = (-(2**63), 2**63 - 1)
_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_MOST_ERRORS = 1_000
"""A value may have a million errors; the first ones suffice to correct it."""
_SMALL_ENUM = 16
_MOST_CACHED_ENUMS = 256


class ValidationBudget:
    """The work limit of a validation: it may cost the product of schema size and value size.

    A unit is about a microsecond. One budget may be shared by several validations of a request.
    """

    def __init__(self, units: int = 2_000_000) -> None:
        self._units = self._left = units

    def spend(self, units: int) -> None:
        """Consume units. Raises TooExpensiveError when the budget is exhausted."""
        self._left -= units
        if self._left < 0:
            raise TooExpensiveError(self._units)


class TooExpensiveError(Exception):
    """A validation would take too long."""

    def __init__(self, units: int) -> None:
        super().__init__(
            f"validating it against its schema takes more than {units} steps: make the object smaller, or simplify the "
            "patterns and alternatives of its schema"
        )


_UNITS_PER_NODE = 4


def value_errors(
    value: Any, schema: Schema, *, field: str = "", old: Any = NEW, budget: ValidationBudget | None = None
) -> list[FieldError]:
    """Return the errors of a value, at most a thousand.

    ``field``: its path; ``old``: its value before an update. Exceeding the budget is an error.
    """
    try:
        result = _validate(value, schema, "", old, budget or ValidationBudget())
    except TooExpensiveError as error:
        return [FieldError("FieldValueInvalid", field, f"Invalid value: {error}")]
    return [error_below(error, field) for error in result.errors[:_MOST_ERRORS]]


def _validate(value: Any, schema: Schema, path: str, old: Any, budget: ValidationBudget) -> ValidationResult:
    result = ValidationResult()
    budget.spend(_UNITS_PER_NODE)
    if value is None:
        result.merge(_type_result(value, schema, path))
        result.merge(_enum_result(value, schema, path, budget))
    else:
        for judge in _checks_for(value, schema):
            result.merge(judge(value, schema, path, old, budget))
            result.matches += 1
        result.matches += 1
    if result.errors and old is not NEW and old == value and type(old) is type(value):
        return ValidationResult(matches=result.matches)
    return result


_Check = Callable[[Any, Schema, str, Any, ValidationBudget], ValidationResult]


def _checks_for(value: Any, schema: Schema) -> list[_Check]:
    """Return the checks for a value of this type, in order."""
    judges: list[_Check] = []
    if schema.get("type") or _format_of(schema) or schema.get(_INT_OR_STRING):
        judges.append(lambda value, schema, path, old, budget: _type_result(value, schema, path))
    judges.append(_combined_result)
    if isinstance(value, str):
        judges.append(_text_result)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        judges.append(_number_result)
    elif isinstance(value, list):
        judges.append(_list_result)
    if schema.get("enum"):
        judges.append(lambda value, schema, path, old, budget: _enum_result(value, schema, path, budget))
    if isinstance(value, dict):
        judges.append(_object_result)
    return judges


def _format_of(schema: Schema) -> str:
    name = schema.get("format") or ""
    return name if name and is_known(name, schema.get("type") or "") else ""


# ------------------------------------------------------------------------------------------------ types


def _type_result(value: Any, schema: Schema, path: str) -> ValidationResult:
    wanted, found = _wanted_types(schema), _TYPES.get(type(value), "object")
    if value is None and (schema.get("nullable") or not wanted):
        return ValidationResult(matches=1)
    if not wanted or found in wanted:
        return ValidationResult(matches=1)
    if found == "integer" and "number" in wanted:
        return ValidationResult(matches=1)
    if found == "number" and "integer" in wanted and float(value).is_integer():
        return ValidationResult(matches=1)
    detail = f'{path} in body must be of type {",".join(wanted)}: "{found}"'
    return ValidationResult.of(invalid_value(path, found, detail), reason="FieldValueTypeInvalid")


def _wanted_types(schema: Schema) -> tuple[str, ...]:
    if schema.get(_INT_OR_STRING):
        return ("integer", "string")
    wanted = schema.get("type")
    return (wanted,) if wanted else ()


def _enum_result(value: Any, schema: Schema, path: str, budget: ValidationBudget) -> ValidationResult:
    allowed = schema.get("enum")
    if not allowed or _is_among(value, allowed):
        return ValidationResult(matches=0)
    budget.spend(len(allowed))
    told = [one if isinstance(one, str) else number_text(one) for one in allowed]
    return ValidationResult.of(not_supported(path, value, [text.replace('"', '\\"') for text in told]))


_enums: dict[int, tuple[list[Any], frozenset[Hashable]]] = {}
"""By identity: the enums of schemas, which live as long as their definition. The reference prevents id reuse."""


def _is_among(value: Any, allowed: list[Any]) -> bool:
    if len(allowed) <= _SMALL_ENUM or isinstance(value, dict | list):
        return any(_equal(value, one) for one in allowed)
    known = _enums.get(id(allowed))
    if known is None:
        if len(_enums) >= _MOST_CACHED_ENUMS:
            _enums.clear()
        scalars = frozenset(_enum_key(one) for one in allowed if not isinstance(one, dict | list))
        known = _enums[id(allowed)] = (allowed, scalars)
    return _enum_key(value) in known[1]


def _enum_key(value: Any) -> Hashable:
    return isinstance(value, bool), value


def _equal(value: Any, allowed: Any) -> bool:
    return bool(value == allowed) and isinstance(value, bool) is isinstance(allowed, bool)


# ----------------------------------------------------------------------------------------------- scalars


def _text_result(
    value: str, schema: Schema, path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    result = ValidationResult()
    if longest is not None and len(value) > longest:
        result.errors.append(too_long(path, longest))
    elif shortest is not None and len(value) < shortest:
        detail = f"{path} in body should be at least {shortest} chars long"
        result.errors.append(invalid_value(path, value, detail))
    elif pattern and not _matches(pattern, value, budget):
        result.errors.append(invalid_value(path, value, f"{path} in body should match '{pattern}'"))
    format_name = _format_of(schema)
    if format_name and not text_matches(format_name, value):
        detail = f'{path} in body must be of type {format_name}: "{value}"'
        result.add(invalid_value(path, value, detail), reason="FieldValueTypeInvalid")
    return result


def _matches(pattern: str, value: str, budget: ValidationBudget) -> bool:
    try:
        compiled = go_pattern(pattern)
    except PatternError:
        return True  # rejected with the definition, unless it was stored before that rule
    budget.spend(search_microseconds(compiled, value))
    return compiled.search(value) is not None


def _number_result(
    value: float, schema: Schema, path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    result = ValidationResult(matches=1)
    type_name, format_name = schema.get("type") or "", _format_of(schema)
    if type_name == "integer":
        smallest, largest = _RANGES.get(format_name, _INT64)
        if not smallest <= value <= largest or value != int(value):
            of_format = f"with format {format_name}" if format_name else "(default format)"
            result.errors.append(
                invalid_value("<nil>", "", f"Checked value must be of type integer {of_format} in {path}")
            )
    factor = _like(value, schema.get("multipleOf"), type_name)
    if factor is not None and factor <= 0:
        detail = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
        result.errors.append(invalid_value(path, factor, detail))
    elif factor and (value / factor) != int(value / factor):
        detail = f"{path} in body should be a multiple of {number_text(factor)}"
        result.errors.append(invalid_value(path, value, detail))
    least = _like(value, schema.get("minimum"), type_name)
    most = _like(value, schema.get("maximum"), type_name)
    if least is not None:
        exclusive = bool(schema.get("exclusiveMinimum"))
        if value < least or (exclusive and value == least):
            words = "greater than" if exclusive else "greater than or equal to"
            detail = f"{path} in body should be {words} {number_text(least)}"
            result.errors.append(invalid_value(path, value, detail))
    if most is not None:
        exclusive = bool(schema.get("exclusiveMaximum"))
        if value > most or (exclusive and value == most):
            words = "less than" if exclusive else "less than or equal to"
            detail = f"{path} in body should be {words} {number_text(most)}"
            result.errors.append(invalid_value(path, value, detail))
    return result


def _like(value: float, bound: float | None, type_name: str) -> float | None:
    """Return a bound as kube-apiserver compares it: truncated for an integer value whose type allows only integers."""
    if bound is None or not isinstance(value, int) or type_name == "integer":
        return bound
    return int(bound)


# -------------------------------------------------------------------------------------- lists and objects


def _list_result(
    value: list[Any], schema: Schema, path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    result = ValidationResult(matches=1)
    items = schema.get("items")
    if isinstance(items, dict):
        items_before = _OldItems(schema, old)
        for index, item in enumerate(value):
            before = items_before.of(item)
            result.merge(_validate(item, items, f"{path}[{index}]", before, budget))
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} items"
        result.errors.append(invalid_value(path, len(value), detail))
    if most is not None and len(value) > most:
        result.errors.append(too_many(path, len(value), most))
    return result


class _OldItems:
    """The previous items of a list with keys; items of other lists have no identity."""

    def __init__(self, schema: Schema, old: Any) -> None:
        self._keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
        self._by_keys: dict[Hashable, Any] = {}
        if schema.get("x-kubernetes-list-type") == "map" and self._keys and isinstance(old, list):
            for one in old:
                if isinstance(one, dict):
                    self._by_keys.setdefault(self._key(one), one)

    def of(self, item: Any) -> Any:
        """Return the previous item with the same keys, or NEW."""
        if not self._by_keys or not isinstance(item, dict):
            return NEW
        return self._by_keys.get(self._key(item), NEW)

    def _key(self, item: Mapping[str, Any]) -> Hashable:
        return tuple(map(_hashable, map(item.get, self._keys)))


def _hashable(value: Any) -> Hashable:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _object_result(
    value: dict[str, Any], schema: Schema, path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    result = ValidationResult()
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} properties"
        result.errors.append(invalid_value(path, len(value), detail))
    if most is not None and len(value) > most:
        result.errors.append(too_many(path, len(value), most))
    named, free = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for name, member in value.items():
        inner = named.get(name)
        where = f"{path}.{name}" if path else name
        if inner is None and isinstance(free, dict):
            inner, where = free, f"{path}.{name}"
        elif inner is None and free is False:
            result.errors.append(invalid_value(path, "", f"{path}.{name} in body is a forbidden property"))
        if inner is not None:
            result.merge(_validate(member, inner, where, before.get(name, NEW), budget))
    for name in schema.get("required") or ():
        if name not in value:
            result.errors.append(required(f"{path}.{name}" if path else name))
    return result


# ---------------------------------------------------------------------------------------- combinations


def _combined_result(
    value: Any, schema: Schema, path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    result = ValidationResult(matches=1)
    if any_of := schema.get("anyOf"):
        result.merge(_any_of(value, any_of, path, old, budget))
    if one_of := schema.get("oneOf"):
        result.merge(_one_of(value, one_of, path, old, budget))
    if all_of := schema.get("allOf"):
        results = [_validate(value, one, path, old, budget) for one in all_of]
        for one in results:
            result.merge(one)
        valid = sum(not one.errors for one in results)
        if valid != len(results):
            none = "" if valid else ". None validated"
            result.whole(f'"{path}" must validate all the schemas (allOf){none}')
    negated = schema.get("not")
    if isinstance(negated, dict) and not _validate(value, negated, path, old, budget).errors:
        result.whole(f'"{path}" must not validate the schema (not)')
    return result


def _any_of(
    value: Any, schemas: list[Schema], path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    best: ValidationResult | None = None
    for one in schemas:
        result = _validate(value, one, path, old, budget)
        if not result.errors:
            return result
        if best is None or result.matches > best.matches:
            best = result
    result = ValidationResult()
    result.whole(f'"{path}" must validate at least one schema (anyOf)')
    if best is not None:
        result.merge(best)
    return result


def _one_of(
    value: Any, schemas: list[Schema], path: str, old: Any, budget: ValidationBudget
) -> ValidationResult:
    best: ValidationResult | None = None
    valid: list[ValidationResult] = []
    for one in schemas:
        result = _validate(value, one, path, old, budget)
        if not result.errors:
            valid.append(result)
            best = None
        elif not valid and (best is None or result.matches > best.matches):
            best = result
    if len(valid) == 1:
        return valid[0]
    found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    result = ValidationResult()
    result.whole(f'"{path}" must validate one and only one schema (oneOf). {found}')
    if best is not None:
        result.merge(best)
    return result
