"""Text from a cluster, made safe to show: nothing in it can move a cursor, colour a terminal or begin another line."""


def printable(text: str) -> str:
    r"""Return the text with every character that is not printable written as an escape: ``\x1b``, ``\n``, ``\u202e``.

    Control characters (C0 and C1), line and paragraph separators, bidirectional controls and private characters are
    escaped. The space is the only white space that stays.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape", "backslashreplace").decode()
        for sign in text
    )
