"""The error messages of Go's JSON decoder, computed only for texts that another decoder has rejected."""

import re

_SPACE = re.compile(r"[ \t\r\n]*")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_SIMPLE_ESCAPES = frozenset('"\\/bfnrt')
_HEX = frozenset("0123456789abcdefABCDEF")
_END = "unexpected end of JSON input"


class _SyntaxError(ValueError):
    pass


def syntax_error(body: bytes) -> str:
    """Return Go's message for the first error of a JSON text; ``""`` if it is valid."""
    text = body.decode("utf-8", "replace")
    try:
        _Scanner(text).document()
    except _SyntaxError as error:
        return str(error)
    except RecursionError:
        return "exceeded max depth"
    return ""


class _Scanner:
    """Scans a text value by value, and stops where Go's scanner stops."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> None:
        self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._invalid("after top-level value")

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise _SyntaxError(_END)
        return self._text[self._at]

    def _invalid(self, context: str) -> _SyntaxError:
        return _SyntaxError(f"invalid character {_quoted(self._peek())} {context}")

    def _value(self) -> None:
        self._skip()
        first = self._peek()
        if first == "{":
            self._members()
        elif first == "[":
            self._items()
        elif first == '"':
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first == "-" or "0" <= first <= "9":
            self._number()
        else:
            raise self._invalid("looking for beginning of value")

    def _members(self) -> None:
        self._at += 1
        self._skip()
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            self._skip()
            if self._peek() != '"':
                raise self._invalid("looking for beginning of object key string")
            self._string()
            self._skip()
            if self._peek() != ":":
                raise self._invalid("after object key")
            self._at += 1
            self._value()
            if not self._has_next("}", "after object key:value pair"):
                return

    def _items(self) -> None:
        self._at += 1
        self._skip()
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._value()
            if not self._has_next("]", "after array element"):
                return

    def _has_next(self, closing: str, context: str) -> bool:
        self._skip()
        if self._peek() not in (",", closing):
            raise self._invalid(context)
        self._at += 1
        return self._text[self._at - 1] == ","

    def _string(self) -> None:
        self._at += 1
        while (character := self._peek()) != '"':
            if character < " ":
                raise self._invalid("in string literal")
            self._at += 1
            if character == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        if self._peek() == "u":
            for _ in range(4):
                self._at += 1
                if self._peek() not in _HEX:
                    raise self._invalid("in \\u hexadecimal character escape")
        elif self._peek() not in _SIMPLE_ESCAPES:
            raise self._invalid("in string escape code")
        self._at += 1

    def _literal(self, word: str) -> None:
        for expected in word:
            if self._peek() != expected:
                raise self._invalid(f"in literal {word} (expecting {_quoted(expected)})")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
            if not self._digit():
                raise self._invalid("in numeric literal")
        if self._peek() == "0":
            self._at += 1
        else:
            self._digits()
        if self._next() == ".":
            self._at += 1
            if not self._digit():
                raise self._invalid("after decimal point in numeric literal")
            self._digits()
        if self._next() in ("e", "E"):
            self._at += 1
            if self._next() in ("+", "-"):
                self._at += 1
            if not self._digit():
                raise self._invalid("in exponent of numeric literal")
            self._digits()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _digit(self) -> bool:
        return "0" <= self._peek() <= "9"

    def _digits(self) -> None:
        while self._next() and "0" <= self._next() <= "9":
            self._at += 1


def _quoted(character: str) -> str:
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    special = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}.get(character)
    if special is None and not character.isprintable():
        special = f"\\u{ord(character):04x}" if ord(character) >= 0x80 else f"\\x{ord(character):02x}"
    return f"'{special or character}'"
