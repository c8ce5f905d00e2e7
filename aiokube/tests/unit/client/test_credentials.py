"""Tokens in files are refreshed; static credentials are never requested again."""

from pathlib import Path

import pytest

from aiokube.client.credentials import Credential, StaticCredentials, TokenFile, basic, bearer
from aiokube.client.errors import ConfigError
from aiokube.testing.virtual_time import ManualClock


def put(path: Path, content: str | bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_static_credentials_are_never_renewed() -> None:
    credentials = StaticCredentials(Credential(bearer("t")))
    current = await credentials.current()
    assert await credentials.renewed(current) is current
    assert current.authorization == "Bearer t"


def test_a_username_and_password_are_encoded_for_basic_authentication() -> None:
    assert basic("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


async def test_a_token_file_is_reread_after_a_minute(token_file: Path, clock: ManualClock) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    put(token_file, "second")
    clock.advance(59)
    assert await credentials.current() is first
    clock.advance(1)
    assert (await credentials.current()).authorization == "Bearer second"


async def test_an_unchanged_token_file_returns_the_same_credential(
    token_file: Path, clock: ManualClock
) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    clock.advance(60)
    assert await credentials.current() is first
    assert await credentials.renewed(first) is first


async def test_a_rejected_token_is_reread_immediately_and_only_once(
    token_file: Path, clock: ManualClock
) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    put(token_file, "second")
    second = await credentials.renewed(first)
    assert second.authorization == "Bearer second"
    put(token_file, "third")
    assert await credentials.renewed(first) is second


@pytest.mark.parametrize("trouble", [None, "", b"\xff\xfe"])
async def test_the_last_token_stays_in_use_if_the_file_becomes_unreadable(
    token_file: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, trouble: str | bytes | None
) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    put(token_file, trouble)
    clock.advance(61)
    assert await credentials.current() is first
    assert "using the last token" in caplog.text
    put(token_file, "second")
    clock.advance(61)
    assert (await credentials.current()).authorization == "Bearer second"


async def test_a_token_file_that_was_never_readable_raises_an_error_with_its_path(
    tmp_path: Path, clock: ManualClock
) -> None:
    with pytest.raises(ConfigError, match=r"the token file .*/none cannot be used: No such file"):
        await TokenFile(tmp_path / "none", clock=clock).current()


async def test_the_fallback_token_is_used_until_the_token_file_is_readable(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "later"
    credentials = TokenFile(path, clock=clock, fallback="given")
    assert (await credentials.current()).authorization == "Bearer given"
    put(path, "file's")
    clock.advance(60)
    assert (await credentials.current()).authorization == "Bearer file's"
