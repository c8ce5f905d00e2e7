"""OpenID Connect: a token is used while it is valid, and renewed if possible."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest
import trustme
from aiohttp import web
from tests.unit.client.support import Server, json_response, running_server, server_context

from aiokube.client.config import TlsConfig
from aiokube.client.errors import ConfigError, CredentialError
from aiokube.client.oidc import OidcCredentials, OidcSettings
from aiokube.testing.virtual_time import EPOCH, ManualClock


def id_token(lives_seconds: float | None, subject: str = "jane") -> str:
    claims: dict[str, Any] = {"sub": subject}
    if lives_seconds is not None:
        claims["exp"] = EPOCH.timestamp() + lives_seconds
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


class Provider:
    """A provider that issues tokens and records its requests."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.methods: list[str] | None = None
        self.answer: dict[str, Any] = {"id_token": id_token(7200, "renewed"), "refresh_token": "r1"}
        self.status = 200
        server.answer = self.handle

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/.well-known/openid-configuration"):
            discovery: dict[str, Any] = {
                "issuer": self.server.url,
                "token_endpoint": f"{self.server.url}/token",
            }
            if self.methods is not None:
                discovery["token_endpoint_auth_methods_supported"] = self.methods
            return json_response(json.dumps(discovery))
        return json_response(json.dumps(self.answer), status=self.status)

    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.server.seen[-1].body.decode())


@pytest.fixture
async def provider(authority: trustme.CA) -> AsyncIterator[Provider]:
    async with running_server(server_context(authority)) as server:
        yield Provider(server)


@pytest.fixture
def settings(provider: Provider, authority: trustme.CA) -> OidcSettings:
    return OidcSettings(
        "user 'u' in /kube",
        f"{provider.server.url}/",
        "kubernetes",
        "s3cret",
        TlsConfig(ca_data=authority.cert_pem.bytes()),
    )


def credentials_of(
    settings: OidcSettings, clock: ManualClock, token: str, refresh: str = "r1"
) -> OidcCredentials:
    return OidcCredentials(settings, id_token=token, refresh_token=refresh, clock=clock)


async def test_a_token_is_used_until_ten_seconds_before_its_expiry(
    provider: Provider, settings: OidcSettings, clock: ManualClock
) -> None:
    credentials = credentials_of(settings, clock, id_token(3600))
    first = await credentials.current()
    clock.advance(3589)
    assert await credentials.current() is first
    assert provider.server.seen == []
    clock.advance(1)
    renewed = await credentials.current()
    assert renewed.authorization == f"Bearer {id_token(7200, 'renewed')}"
    assert provider.form()["grant_type"] == ["refresh_token"]
    assert provider.form()["refresh_token"] == ["r1"]


async def test_the_client_uses_the_authentication_method_of_the_provider(
    provider: Provider, settings: OidcSettings, clock: ManualClock
) -> None:
    await credentials_of(settings, clock, "").current()
    assert provider.server.seen[-1].headers["Authorization"].startswith("Basic ")
    assert "client_secret" not in provider.form()
    provider.methods = ["client_secret_post"]
    await credentials_of(settings, clock, "").current()
    assert "Authorization" not in provider.server.seen[-1].headers
    assert (provider.form()["client_id"], provider.form()["client_secret"]) == (["kubernetes"], ["s3cret"])


async def test_concurrent_callers_share_one_renewal(
    provider: Provider, settings: OidcSettings, clock: ManualClock
) -> None:
    credentials = credentials_of(settings, clock, id_token(0))
    first, *others = await asyncio.gather(*(credentials.current() for _ in range(5)))
    assert all(other is first for other in others)
    assert len(provider.server.seen) == 2


async def test_a_rejected_token_is_renewed(
    provider: Provider, settings: OidcSettings, clock: ManualClock
) -> None:
    credentials = credentials_of(settings, clock, id_token(3600))
    first = await credentials.current()
    second = await credentials.renewed(first)
    assert second is not first
    assert await credentials.renewed(first) is second


async def test_tokens_without_an_expiry_and_opaque_tokens_are_used_as_they_are(
    settings: OidcSettings, clock: ManualClock
) -> None:
    for token in (id_token(None), "opaque", "a.b.c", "a.!.c"):
        assert (await credentials_of(settings, clock, token).current()).authorization == f"Bearer {token}"


async def test_an_expired_token_that_cannot_be_renewed_is_reported_with_expiry_and_remedy(
    settings: OidcSettings, clock: ManualClock
) -> None:
    credentials = credentials_of(settings, clock, id_token(0), refresh="")
    with pytest.raises(
        ConfigError, match=r"user 'u' in /kube has expired at 2026-01-01 00:00:00 UTC .* log in again"
    ):
        await credentials.current()


async def test_a_rejected_token_that_cannot_be_renewed_is_returned_unchanged(
    settings: OidcSettings, clock: ManualClock
) -> None:
    credentials = credentials_of(settings, clock, id_token(3600), refresh="")
    first = await credentials.current()
    assert await credentials.renewed(first) is first


def test_an_entry_without_any_token_is_rejected(settings: OidcSettings, clock: ManualClock) -> None:
    with pytest.raises(ConfigError, match="neither an id-token nor a refresh-token: log in"):
        credentials_of(settings, clock, "", refresh="")


async def test_a_rotated_refresh_token_is_used_next_and_logged_once(
    provider: Provider, settings: OidcSettings, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    provider.answer = {"id_token": id_token(0), "refresh_token": "r2"}
    credentials = credentials_of(settings, clock, "")
    await credentials.current()
    provider.answer = {"id_token": id_token(0), "refresh_token": "r3"}
    await credentials.current()
    assert provider.form()["refresh_token"] == ["r2"]
    assert caplog.text.count("replaced the refresh token") == 1
    assert "r2" not in caplog.text


@pytest.mark.parametrize(
    ("status", "answer", "kind", "words"),
    [
        (400, {"error": "invalid_grant"}, ConfigError, "refused a new token (HTTP 400): log in again"),
        (503, {}, CredentialError, "did not return a new token: HTTP 503"),
        (200, {}, CredentialError, "returned no id_token: the client needs the scope openid"),
        (200, {"id_token": 7}, CredentialError, "sent an invalid response"),
    ],
)
async def test_a_failing_provider_is_reported(
    provider: Provider,
    settings: OidcSettings,
    clock: ManualClock,
    status: int,
    answer: dict[str, Any],
    kind: type[Exception],
    words: str,
) -> None:
    provider.status, provider.answer = status, answer
    with pytest.raises(kind) as raised:
        await credentials_of(settings, clock, "").current()
    assert type(raised.value) is kind
    assert words in str(raised.value)


async def test_an_unreachable_provider_is_a_retryable_error(clock: ManualClock) -> None:
    settings = OidcSettings("user 'u'", "https://no-such-host.invalid", "kubernetes")
    with pytest.raises(CredentialError, match="cannot be reached"):
        await credentials_of(settings, clock, "").current()
