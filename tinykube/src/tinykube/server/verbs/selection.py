"""The selection of a list or watch: label and field selectors, including the name."""

from collections.abc import Callable, Mapping

import msgspec

from aiokube.api.selectors import EVERYTHING, Selector, SelectorError, parse_selector
from tinykube.server.errors import StatusError, bad_request
from tinykube.server.registry.definition import Definition
from tinykube.server.storage.model import StoredObject

_EVERY_KIND = ("metadata.name", "metadata.namespace")


class FieldTerm(msgspec.Struct, frozen=True):
    """One condition on one field."""

    path: str
    value: str
    negated: bool


class Selection(msgspec.Struct, frozen=True):
    """The conditions that an object must meet, all of them."""

    labels: Selector = EVERYTHING
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether there are no conditions."""
        return not self.fields and not self.labels.requirements

    @property
    def name(self) -> str:
        """The single requested name, or ``""``."""
        for term in self.fields:
            if term.path == "metadata.name" and not term.negated:
                return term.value
        return ""

    def matches(self, stored: StoredObject) -> bool:
        """Return whether an object meets all conditions."""
        fields: Mapping[str, str] = stored.fields
        for term in self.fields:
            if (fields.get(term.path, "") == term.value) is term.negated:
                return False
        return self.labels.matches(stored.labels)

    def matcher(self) -> Callable[[StoredObject], bool] | None:
        """Return :meth:`matches`, or ``None`` if every object matches."""
        return None if self.is_everything else self.matches


def parse_selection(definition: Definition, label_selector: str, field_selector: str) -> Selection:
    """Parse both selectors. Raises 400 with the parse error."""
    try:
        labels = parse_selector(label_selector) if label_selector else EVERYTHING
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return Selection(labels, _parse_fields(definition, field_selector) if field_selector else ())


def _parse_fields(definition: Definition, text: str) -> tuple[FieldTerm, ...]:
    known = (*_EVERY_KIND, *(path for path in definition.field_names if path not in _EVERY_KIND))
    terms = []
    for part in _split(text):
        term = _term(part, text)
        if term.path not in known:
            raise _unknown_field(definition, term.path)
        terms.append(term)
    return tuple(terms)


def _unknown_field(definition: Definition, path: str) -> StatusError:
    """Return the error for an unknown field; its wording depends on whether the kind has its own selectable fields."""
    if definition.field_names:
        return bad_request(f"field label not supported: {path}")
    listed = ", ".join(f'"{path}"' for path in _EVERY_KIND)
    return bad_request(f'"{path}" is not a known field selector: only {listed}')


def _split(text: str) -> list[str]:
    """Split at unescaped commas."""
    parts, current, escaped = [], "", False
    for character in text:
        if escaped:
            current += "\\" + character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            parts.append(current)
            current = ""
        else:
            current += character
    if escaped:
        raise bad_request(f"invalid field selector: {text!r} ends with a backslash")
    parts.append(current)
    return [part for part in parts if part]


def _term(part: str, text: str) -> FieldTerm:
    for position, character in enumerate(part):
        if character == "!" and part[position : position + 2] == "!=":
            return FieldTerm(part[:position], _unescaped(part[position + 2 :], text), True)
        if character == "=":
            skip = 2 if part[position : position + 2] == "==" else 1
            return FieldTerm(part[:position], _unescaped(part[position + skip :], text), False)
    raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")


def _unescaped(value: str, text: str) -> str:
    result, escaped = "", False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise bad_request(
                    f"invalid field selector: invalid escape sequence: \\{character} in {text!r}"
                )
            result += character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise bad_request(f"invalid field selector: unescaped rune in {text!r}")
        else:
            result += character
    return result
