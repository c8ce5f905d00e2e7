"""Defence in depth against secrets in logs: every line is stripped of text that looks like one.

Our log calls never pass secrets, and tests enforce that; redaction covers unforeseen sources, such as the
text of a third-party exception.
"""

import re

REDACTED = "<redacted>"

_AUTHORIZATION = re.compile(
    r"""(?i)(\b(?:proxy-)?authorization\b[\\"']*\s*[:=,]\s*(?:b(?=["']))?[\\"']*(?:(?:bearer|basic|negotiate)\s+)?)[^\s"'\\,]+"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{6,}")
_ASSIGNED = re.compile(
    r"""(?ix)
    (\b(?:[a-z0-9]+[_-])*(?:token|password|passwd|secret|api[_-]?key|private[_-]?key)[\\"']*\s*(?:=|:\s*[\\"'])\s*[\\"']*)
    [^\s"'&,;\\}]+
    """
)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")
_PEM_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s:@\"']+:[^/\s@\"']+@")
_HINTS = ("uthorization", "earer", "eyJ", "PRIVATE KEY", "oken", "assw", "ecret", "key", "://")


def redact(text: str) -> str:
    """Return the text without tokens, passwords and keys; cheap if it has no hint of one."""
    lowered = text.lower()
    if not any(hint.lower() in lowered for hint in _HINTS):
        return text
    text = _PEM_KEY.sub(REDACTED, text)
    text = _AUTHORIZATION.sub(rf"\1{REDACTED}", text)
    text = _BEARER.sub(rf"\1{REDACTED}", text)
    text = _JWT.sub(REDACTED, text)
    text = _ASSIGNED.sub(rf"\1{REDACTED}", text)
    return _USERINFO.sub(rf"\1{REDACTED}@", text)
