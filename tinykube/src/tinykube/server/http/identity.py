"""Authenticate requests: the administrator's token, service account tokens, or anonymous."""

import hmac
from collections.abc import Callable

from tinykube.server.certificates.token_signer import looks_signed
from tinykube.server.errors import StatusError
from tinykube.server.registry.definition import UserInfo
from tinykube.server.verbs.context import Caller

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Paths without authentication, as for system:public-info-viewer on kube-apiserver, including paths below them."""

_GROUPS = ("system:masters", "system:authenticated")


class Identity:
    """Authenticates the administrator's token, and delegates signed tokens to ``service_account``.

    Tokens are compared in constant time.
    """

    def __init__(self, token: str, user: str, service_account: Callable[[str], UserInfo | None]) -> None:
        self._expected = f"Bearer {token}".encode()
        self._user = UserInfo(user, groups=_GROUPS)
        self._service_account = service_account

    def caller(self, authorization: str, user_agent: str) -> Caller | None:
        """Return the caller of a request, or ``None`` if authentication fails."""
        given = authorization.encode("utf-8", "surrogateescape")
        if given[:7].lower() == b"bearer ":
            given = b"Bearer " + given[7:].strip()
        if hmac.compare_digest(given, self._expected):
            return Caller(self._user, user_agent)
        token = given[7:].decode("ascii", "replace")
        if given.startswith(b"Bearer ") and looks_signed(token):
            user = self._service_account(token)
            return None if user is None else Caller(user, user_agent)
        return None


def is_open(path: str) -> bool:
    """Return whether a path needs no authentication."""
    return path in OPEN_PATHS or path.startswith(("/healthz/", "/livez/", "/readyz/"))


def unauthorized() -> StatusError:
    """401: no token, or an invalid one."""
    return StatusError(401, "Unauthorized", "Unauthorized")
