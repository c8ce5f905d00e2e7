"""Label selectors: the equality form of Services, and the set-based language of the API.

Equality selectors are plain dicts, matched on the hot path by :func:`matches`. Set-based selectors are
:class:`Selector` values: parsed from text (:func:`parse_selector`), converted from JSON
(:class:`LabelSelector`), or built from :class:`Requirement`.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from aiokube.api.core import Labels

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MAX = 2**63 - 1


class SelectorError(ValueError):
    """An invalid selector; the message quotes it, gives the position, and states the expected token."""


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether labels contain every pair of a selector; the empty selector matches everything."""
    for key, value in selector.items():  # noqa: SIM110 - a generator costs twice as much here
        if labels.get(key) != value:
            return False
    return True


class Operator(Enum):
    """The operator of a requirement; the values are those of the JSON form, if it has the operator."""

    IN = "In"
    NOT_IN = "NotIn"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER_THAN = "Gt"
    LESS_THAN = "Lt"


_ONE_VALUE = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS})
_POSITIVE = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
_NEGATIVE = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})
_NUMERIC = frozenset({Operator.GREATER_THAN, Operator.LESS_THAN})
_SET = frozenset({Operator.IN, Operator.NOT_IN})


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label. Use :meth:`of`, which refuses invalid keys and values."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, key: str, operator: Operator, values: Iterable[str] = ()) -> "Requirement":
        """Return a requirement with sorted, distinct values.

        Raises :class:`SelectorError` if the key or a value is not valid for a label, or if the operator does
        not take this number of values.
        """
        found = tuple(sorted(set(values)))
        validate_label_key(key)
        if operator in _SET and not found:
            raise SelectorError(f"{operator.value} on label {key!r} needs at least one value")
        if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and found:
            raise SelectorError(f"{operator.value} on label {key!r} takes no values, but has {list(found)}")
        if operator in _ONE_VALUE | _NUMERIC and len(found) != 1:
            raise SelectorError(
                f"{operator.value} on label {key!r} takes exactly one value, not {len(found)}"
            )
        if operator in _NUMERIC and _number(found[0]) is None:
            raise SelectorError(
                f"{operator.value} on label {key!r} compares with a whole number, not {found[0]!r}"
            )
        for value in found:
            validate_label_value(value, key)
        return cls(key, operator, found)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement.

        An absent label satisfies ``!=``, ``notin`` and ``!key``, and no other operator.
        """
        value = labels.get(self.key)
        operator = self.operator
        if operator in _POSITIVE:
            return value is not None and value in self.values
        if operator in _NEGATIVE:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        number, bound = _number(value), _number(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        operator, key = self.operator, self.key
        if operator in _ONE_VALUE:
            return f"{key}{operator.value}{self.values[0]}"
        if operator in _SET:
            word = "in" if operator is Operator.IN else "notin"
            return f"{key} {word} ({','.join(self.values)})"
        if operator in _NUMERIC:
            return f"{key}{'>' if operator is Operator.GREATER_THAN else '<'}{self.values[0]}"
        return key if operator is Operator.EXISTS else f"!{key}"


class Selector(msgspec.Struct, frozen=True, gc=False):
    """A conjunction of requirements; ``str()`` is its text form, as :func:`parse_selector` reads it.

    ``matches_nothing`` is a selector that is absent in JSON (null), as opposed to the empty one, which
    matches everything; it has no text form.
    """

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @classmethod
    def from_labels(cls, labels: Labels | None) -> "Selector":
        """Return the selector for the equality form: ``{}`` matches everything, None nothing.

        Raises :class:`SelectorError`.
        """
        if labels is None:
            return NOTHING
        return cls(tuple(Requirement.of(key, Operator.EQUALS, (labels[key],)) for key in sorted(labels)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy all requirements."""
        if self.matches_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        if self.matches_nothing:
            return "<nothing>"
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


class LabelSelectorRequirement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One entry of ``matchExpressions``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """The JSON form in workloads; labels must satisfy both fields."""

    match_labels: Labels | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


_EXPRESSION_OPERATORS = {
    operator.value: operator
    for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


def selector_of(label_selector: LabelSelector | None) -> Selector:
    """Return the selector for the JSON form: None matches nothing, ``{}`` everything.

    Raises :class:`SelectorError` for an unknown operator and for requirements that :meth:`Requirement.of`
    refuses.
    """
    if label_selector is None:
        return NOTHING
    requirements = list(Selector.from_labels(label_selector.match_labels or {}).requirements)
    for expression in label_selector.match_expressions or ():
        operator = _EXPRESSION_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(
                f"unknown operator {expression.operator!r} for label {expression.key!r}:"
                f" one of {', '.join(_EXPRESSION_OPERATORS)} is right"
            )
        requirements.append(Requirement.of(expression.key, operator, expression.values or ()))
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def validate_label_key(key: str) -> None:
    """Raise :class:`SelectorError` if the text is not a label key: ``name`` or ``prefix.domain/name``."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or _DNS_SUBDOMAIN.fullmatch(prefix) is None):
        raise SelectorError(
            f"label key {key!r}: the part before the slash must be a lower-case DNS name of at most 253 characters"
        )
    if _NAME.fullmatch(name) is None:
        raise SelectorError(
            f"label key {key!r}: the name must be 1 to 63 letters, digits, '-', '_' or '.',"
            " and begin and end with a letter or digit"
        )


def validate_label_value(value: str, key: str) -> None:
    """Raise :class:`SelectorError` if the text is not a label value; the empty string is."""
    if value and _NAME.fullmatch(value) is None:
        raise SelectorError(
            f"value {value!r} of label {key!r} must be empty, or at most 63 letters, digits, '-', '_' or '.',"
            " beginning and ending with a letter or digit"
        )


def _number(text: str | None) -> int | None:
    """Return a 64-bit integer, None if the text is not one."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


# ------------------------------------------------------------------------------------------------- parsing

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "<", ">", "(", ")", ",", ""})


class _Parser:
    """A recursive-descent parser over the tokens of a selector; ``""`` is the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = [*_TOKEN.findall(text), ""]
        self.at = 0

    @property
    def token(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def fail(self, expected: str) -> SelectorError:
        found = repr(self.token) if self.token else "the end"
        return SelectorError(f"selector {self.text!r}: {expected} expected, {found} found")

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        while self.token:
            requirements.append(self.requirement())
            if not self.token:
                break
            if self.take() != ",":
                self.at -= 1
                raise self.fail("',' or the end")
            if not self.token:
                raise self.fail("a label key after ','")
        requirements.sort(key=lambda requirement: requirement.key)
        return Selector(tuple(requirements))

    def requirement(self) -> Requirement:
        if self.token == "!":  # noqa: S105 - a token of the grammar
            self.take()
            return self.checked(self.key(), Operator.DOES_NOT_EXIST, ())
        key = self.key()
        match self.token:
            case "" | ",":
                return self.checked(key, Operator.EXISTS, ())
            case "in" | "notin":
                operator = Operator.IN if self.take() == "in" else Operator.NOT_IN
                return self.checked(key, operator, self.values())
            case "=" | "==" | "!=":
                return self.checked(key, Operator(self.take()), (self.value(),))
            case ">" | "<":
                operator = Operator.GREATER_THAN if self.take() == ">" else Operator.LESS_THAN
                return self.checked(key, operator, (self.value(),))
            case _:
                raise self.fail("'=', '==', '!=', 'in', 'notin', '<', '>', ',' or the end")

    def checked(self, key: str, operator: Operator, values: Iterable[str]) -> Requirement:
        try:
            return Requirement.of(key, operator, values)
        except SelectorError as error:
            raise SelectorError(f"selector {self.text!r}: {error}") from None

    def key(self) -> str:
        if self.token in _SYMBOLS:
            raise self.fail("a label key")
        return self.take()

    def value(self) -> str:
        return "" if self.token in ("", ",", ")") else self.word("a value")

    def word(self, what: str) -> str:
        if self.token in _SYMBOLS:
            raise self.fail(what)
        return self.take()

    def values(self) -> set[str]:
        if self.take() != "(":
            self.at -= 1
            raise self.fail("'('")
        found = {self.value()}
        while self.token == ",":  # noqa: S105 - a token of the grammar
            self.take()
            found.add(self.value())
        if self.token != ")":  # noqa: S105 - a token of the grammar
            raise self.fail("',' or ')'")
        self.take()
        return found


def parse_selector(text: str) -> Selector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2``; the empty string matches everything.

    Requirements are sorted by key. Raises :class:`SelectorError`, which quotes the text and gives the position
    and the expected token.
    """
    return _Parser(text).selector()
