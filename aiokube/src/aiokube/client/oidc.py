"""Credentials from an OpenID Connect provider: an ID token, renewed with a refresh token."""

import asyncio
import base64
import binascii
import logging
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec

from aiokube.client.bounded import MAX_ERROR_BYTES, read_whole
from aiokube.client.config import TlsConfig
from aiokube.client.credentials import ClientCertificate, Credential, RenewableCredentials, basic, bearer
from aiokube.client.errors import ConfigError, CredentialError
from aiokube.client.proxy import proxy_from_environment
from aiokube.client.tls import make_context
from aiokube.clock import Clock

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """An OIDC provider and our client registration; ``where`` describes the place of its definition."""

    where: str
    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    tls: TlsConfig = field(default_factory=TlsConfig)


class _Discovery(msgspec.Struct):
    token_endpoint: str
    token_endpoint_auth_methods_supported: list[str] | None = None


class _Tokens(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class OidcCredentials(RenewableCredentials):
    """Returns the ID token, and requests a new one ten seconds before it expires and on a 401.

    Nothing is written back to the kubeconfig: if the provider rotates refresh tokens, the one in the file
    becomes invalid, which is logged once. Raises ConfigError if the token has expired and cannot be renewed,
    CredentialError if the provider fails.
    """

    _renew_before = timedelta(seconds=10)

    def __init__(
        self,
        settings: OidcSettings,
        *,
        id_token: str,
        refresh_token: str,
        clock: Clock,
        certificate: ClientCertificate | None = None,
    ) -> None:
        super().__init__(clock)
        self._settings = settings
        self._certificate = certificate
        self._refresh_token = refresh_token
        self._has_warned = False
        if id_token:
            self._take(id_token)
        elif not refresh_token:
            raise ConfigError(f"{settings.where} has neither an id-token nor a refresh-token: log in")

    def __repr__(self) -> str:
        return f"OidcCredentials({self._settings.issuer!r})"

    @property
    def _can_renew(self) -> bool:
        return bool(self._refresh_token and self._settings.issuer and self._settings.client_id)

    def _take(self, id_token: str) -> Credential:
        self._credential = Credential(bearer(id_token), self._certificate)
        self._expires = _expiry(id_token)
        return self._credential

    async def _renew(self) -> Credential:
        where = self._settings.where
        if not self._can_renew:
            since = f" at {self._expires:%Y-%m-%d %H:%M:%S} UTC" if self._expires is not None else ""
            raise ConfigError(
                f"the id-token of {where} has expired{since} and cannot be renewed "
                "(that takes refresh-token, idp-issuer-url and client-id): log in again"
            )
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                tokens = await self._ask()
        except TimeoutError:
            raise CredentialError(
                f"the identity provider of {where} did not respond within {_TIMEOUT_SECONDS:g} s"
            ) from None
        except aiohttp.ClientError as error:
            raise CredentialError(
                f"the identity provider of {where} cannot be reached: {type(error).__name__}"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CredentialError(f"the identity provider of {where} sent an invalid response") from None
        if not tokens.id_token:
            raise CredentialError(
                f"the identity provider of {where} returned no id_token: the client needs the scope openid"
            )
        if tokens.refresh_token and tokens.refresh_token != self._refresh_token:
            self._refresh_token = tokens.refresh_token
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    "the identity provider has replaced the refresh token, which is not saved: where=%s",
                    where,
                )
        return self._take(tokens.id_token)

    async def _ask(self) -> _Tokens:
        settings = self._settings
        issuer = settings.issuer.rstrip("/")
        context = make_context(settings.tls, None)
        proxy = proxy_from_environment(issuer, os.environ) or None
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            known: dict[str, Any] = {"ssl": context, "proxy": proxy, "allow_redirects": False}
            async with session.get(f"{issuer}/.well-known/openid-configuration", **known) as response:
                self._check(response, "its openid-configuration")
                discovery = msgspec.json.decode(await _body(response), type=_Discovery)
            form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
            headers = {}
            if settings.client_secret and "client_secret_post" not in (
                discovery.token_endpoint_auth_methods_supported or ()
            ):
                headers["Authorization"] = basic(settings.client_id, settings.client_secret)
            else:
                form["client_id"] = settings.client_id
                if settings.client_secret:
                    form["client_secret"] = settings.client_secret
            async with session.post(
                discovery.token_endpoint, data=form, headers=headers, **known
            ) as response:
                self._check(response, "a new token")
                return msgspec.json.decode(await _body(response), type=_Tokens)

    def _check(self, response: aiohttp.ClientResponse, what: str) -> None:
        if response.status == 200:
            return
        where = self._settings.where
        if response.status in (400, 401):
            raise ConfigError(
                f"the identity provider of {where} refused {what} (HTTP {response.status}): log in again"
            )
        raise CredentialError(
            f"the identity provider of {where} did not return {what}: HTTP {response.status}"
        )


def _expiry(id_token: str) -> datetime | None:
    """Return the expiry time of a JWT, None if it is absent or malformed."""
    parts = id_token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(payload, type=_Claims)
        return datetime.fromtimestamp(claims.exp, UTC) if claims.exp is not None else None
    except (binascii.Error, msgspec.DecodeError, ValueError, OverflowError, OSError):
        return None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    return await read_whole(response, MAX_ERROR_BYTES, "the identity provider")
