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


async def test_static_credentials_have_nothing_newer() -> None:
    credentials = StaticCredentials(Credential(bearer("t")))
    current = await credentials.current()
    assert await credentials.renewed(current) is current
    assert current.authorization == "Bearer t"


def test_a_name_and_password_are_encoded_as_the_scheme_wants() -> None:
    assert basic("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


async def test_a_token_file_is_read_again_after_a_minute(token_file: Path, clock: ManualClock) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    put(token_file, "second")
    clock.advance(59)
    assert await credentials.current() is first
    clock.advance(1)
    assert (await credentials.current()).authorization == "Bearer second"


async def test_an_unchanged_token_stays_the_same_object(token_file: Path, clock: ManualClock) -> None:
    credentials = TokenFile(token_file, clock=clock)
    first = await credentials.current()
    clock.advance(60)
    assert await credentials.current() is first
    assert await credentials.renewed(first) is first


async def test_a_refused_token_is_reread_immediately_and_only_once(
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
async def test_a_file_that_cannot_be_read_again_leaves_the_last_token_in_use(
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


async def test_a_file_that_was_never_read_is_an_error_that_names_it(
    tmp_path: Path, clock: ManualClock
) -> None:
    with pytest.raises(ConfigError, match=r"the token file .*/none cannot be used: No such file"):
        await TokenFile(tmp_path / "none", clock=clock).current()


async def test_a_token_given_beside_the_file_is_used_until_the_file_can_be_read(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "later"
    credentials = TokenFile(path, clock=clock, fallback="given")
    assert (await credentials.current()).authorization == "Bearer given"
    put(path, "file's")
    clock.advance(60)
    assert (await credentials.current()).authorization == "Bearer file's"
