"""Tokens and client certificates, and the sources they come from.

A credential source returns a frozen :class:`Credential` for each request, usually the same object as before.
Reprs show the source of a secret, never the secret.
"""

import asyncio
import base64
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from aiokube.client.errors import ConfigError
from aiokube.clock import Clock

log = logging.getLogger(__name__)

TOKEN_REREAD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A client certificate and its key in files, reloaded when they change."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class CertificateData:
    """A PEM client certificate and its key in memory."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


ClientCertificate = CertificateFiles | CertificateData


@dataclass(frozen=True, slots=True)
class Credential:
    """The credentials of one request: an authorization header, a client certificate, both or neither."""

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """Return the current credentials; the same object as before unless something changed.

        Raises ConfigError, or its subclass CredentialError if a retry may succeed.
        """
        ...

    async def renewed(self, rejected: Credential) -> Credential:
        """Return the credentials to use after the server has refused ``rejected`` (401).

        Returns the same object if there is nothing newer; the caller then gives up. Concurrent callers with
        the same rejected credentials share one renewal. Raises like :meth:`current`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials that never change, except for certificate files, which the TLS layer reloads."""

    credential: Credential

    async def current(self) -> Credential:
        """Return the credential."""
        return self.credential

    async def renewed(self, rejected: Credential) -> Credential:
        """Return the credential; there is no other."""
        return self.credential


ANONYMOUS = StaticCredentials(Credential())


class RenewableCredentials(ABC):
    """Credentials that expire. Concurrent callers share one renewal."""

    _renew_before = timedelta(0)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: datetime | None = None

    async def current(self) -> Credential:
        """Return the credential; renew it if it has expired or is about to."""
        if (found := self._valid()) is not None:
            return found
        async with self._lock:
            return self._valid() or await self._renew()

    async def renewed(self, rejected: Credential) -> Credential:
        """Renew the credential, unless another request has done so since ``rejected`` was returned."""
        async with self._lock:
            if self._credential is not None and self._credential is not rejected:
                return self._credential
            return await self._renew() if self._can_renew else rejected

    @property
    def _can_renew(self) -> bool:
        return True

    def _valid(self) -> Credential | None:
        if self._expires is not None and self._clock.wall() >= self._expires - self._renew_before:
            return None
        return self._credential

    @abstractmethod
    async def _renew(self) -> Credential:
        """Fetch, store and return a new credential with its expiry; the same object if nothing changed."""


def bearer(token: str) -> str:
    """Return the Authorization header for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """Return the Authorization header for a user name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file that another process renews, such as a service account token.

    The file is read again by the first request a minute after the last read, and on a 401. If a later read
    fails, the last token stays in use and a warning is logged. ``fallback`` is used until the first
    successful read; without it, an unreadable file raises ConfigError.
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
        """Return the token, read at most a minute ago."""
        if self._credential is None or self._clock.monotonic() >= self._read_again_at:
            return self._read()
        return self._credential

    async def renewed(self, rejected: Credential) -> Credential:
        """Read the file again, unless another request has done so since ``rejected`` was returned."""
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
                "token file cannot be used, using the last token: file=%s error=%s",
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
