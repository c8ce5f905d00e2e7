"""Escaping of untrusted text: it cannot move the cursor, colour the terminal or start a new line."""


def printable(text: str) -> str:
    r"""Return the text with every non-printable character escaped: ``\x1b``, ``\n``, ``\u202e``.

    Control characters (C0 and C1), line and paragraph separators, bidirectional controls and private-use
    characters are escaped, and so is all white space except the space.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text
    )
