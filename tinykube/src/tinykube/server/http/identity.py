"""Who asks: the bearer of the token, or nobody."""

import hmac

from tinykube.server.errors import StatusError
from tinykube.server.verbs.context import Caller

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""What anyone may ask for, as on a real server (system:public-info-viewer); below them, too."""

_GROUPS = ("system:masters", "system:authenticated")


class Identity:
    """Knows the one token there is. Comparing takes the same time wherever the texts differ."""

    def __init__(self, token: str, user: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._user = user

    def caller(self, authorization: str, user_agent: str) -> Caller | None:
        """Return the caller of a request, ``None`` for nobody."""
        given = authorization.encode("utf-8", "surrogateescape")
        if given[:7].lower() == b"bearer ":
            given = b"Bearer " + given[7:].strip()
        if not hmac.compare_digest(given, self._expected):
            return None
        return Caller(self._user, user_agent, _GROUPS)


def is_open(path: str) -> bool:
    """Tell whether a path may be asked for by anyone."""
    return path in OPEN_PATHS or path.startswith(("/healthz/", "/livez/", "/readyz/"))


def unauthorized() -> StatusError:
    """401: no token, or a wrong one."""
    return StatusError(401, "Unauthorized", "Unauthorized")
