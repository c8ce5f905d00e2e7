"""Who we are to a server: tokens and client certificates, and where they come from.

A source of credentials answers with a frozen :class:`Credential` for each request; most answers are the one of
before. Reprs show where a secret comes from, never the secret.
"""

import base64
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiokube.client.errors import ConfigError
from aiokube.clock import Clock

log = logging.getLogger(__name__)

TOKEN_REREAD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A client certificate and its key in files; read again when they change."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class CertificateData:
    """A client certificate and its key, PEM, in memory."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


ClientCertificate = CertificateFiles | CertificateData


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves who we are, for one request: a header, a certificate, both, or nothing."""

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """Return what to use now; the very same object as before unless something changed.

        Raises ConfigError, or its CredentialError where the trouble may pass.
        """
        ...

    async def renewed(self, rejected: Credential) -> Credential:
        """Return what to use after the server has refused ``rejected`` (401).

        The same object comes back where there is nothing newer; the caller then gives up. Many callers whose
        requests were refused together cause one renewal. Raises like :meth:`current`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials that never change by themselves (certificate files may, and are looked after by TLS)."""

    credential: Credential

    async def current(self) -> Credential:
        """Return the one credential."""
        return self.credential

    async def renewed(self, rejected: Credential) -> Credential:
        """Return the one credential: there is no other."""
        return self.credential


ANONYMOUS = StaticCredentials(Credential())


def bearer(token: str) -> str:
    """Return the header value for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """Return the header value for a name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file that others renew, such as a service account's.

    The file is read again when a request comes a minute after the last reading, and on a 401. Where a later
    reading fails, the last token stays in use and a warning is logged. ``fallback`` is used until a first reading
    succeeds; without one a file that cannot be read raises ConfigError.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        certificate: ClientCertificate | None = None,
        fallback: str = "",
        what: str = "the token file",
    ) -> None:
        self._path = path
        self._clock = clock
        self._certificate = certificate
        self._what = what
        self._token = fallback
        self._credential = self._made(fallback) if fallback else None
        self._read_again_at = clock.monotonic()

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    async def current(self) -> Credential:
        """Return the token of the last reading, at most a minute old."""
        if self._credential is None or self._clock.monotonic() >= self._read_again_at:
            return self._read()
        return self._credential

    async def renewed(self, rejected: Credential) -> Credential:
        """Read the file again, unless another request has done so since."""
        if self._credential is not rejected and self._credential is not None:
            return self._credential
        return self._read()

    def _read(self) -> Credential:
        self._read_again_at = self._clock.monotonic() + TOKEN_REREAD_SECONDS
        try:
            token = self._path.read_text().strip()
            problem = "" if token else "it is empty"
        except (OSError, UnicodeDecodeError) as error:
            token = ""
            problem = (
                (error.strerror or type(error).__name__) if isinstance(error, OSError) else "it is not text"
            )
        if problem:
            if self._credential is None:
                raise ConfigError(f"{self._what} {self._path} cannot be used: {problem}")
            log.warning(
                "token file cannot be used, going on with the last token: file=%s error=%s",
                self._path,
                problem,
            )
            return self._credential
        if self._credential is None or token != self._token:
            self._token = token
            self._credential = self._made(token)
        return self._credential

    def _made(self, token: str) -> Credential:
        return Credential(bearer(token), self._certificate)
