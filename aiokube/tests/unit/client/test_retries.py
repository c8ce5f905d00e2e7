"""The transport's own retries, and the failures that it leaves to the caller (reliability 7c)."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from tests.unit.client.support import Server, client_of, failure, json_response

from aiokube.api.core import PODS
from aiokube.api.endpoints import ENDPOINTS, Endpoints
from aiokube.api.meta import ObjectKey
from aiokube.client.config import ClusterConfig
from aiokube.client.credentials import Credential, bearer
from aiokube.client.errors import (
    InternalServerError,
    RequestTimedOutError,
    ServerTimeoutError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
    UnexpectedResponseError,
)
from aiokube.client.rest import Client
from aiokube.testing.virtual_time import ManualClock
from aiokube.token_bucket import TokenBucket

KEY = ObjectKey("default", "a")
STORED = '{"metadata":{"name":"a","namespace":"default","resourceVersion":"7"}}'


def busy(seconds: str = "1") -> web.Response:
    return failure(429, "TooManyRequests", "busy", {"Retry-After": seconds})


def ok() -> web.Response:
    return json_response(STORED)


async def test_429_with_retry_after_is_retried_for_any_method(server: Server, clock: ManualClock) -> None:
    server.script(busy("2"), busy("1"), ok())
    async with client_of(server, clock) as client:
        stored = await client.create(ENDPOINTS, Endpoints(), namespace="default")
    assert stored.metadata.resource_version == "7"
    assert clock.slept == [2.0, 1.0]
    assert [seen.method for seen in server.seen] == ["POST"] * 3


async def test_a_request_is_sent_at_most_eleven_times(server: Server, clock: ManualClock) -> None:
    async def always_busy(request: web.BaseRequest) -> web.StreamResponse:
        return busy()

    server.script(always_busy)
    async with client_of(server, clock) as client:
        with pytest.raises(TooManyRequestsError) as raised:
            await client.get(PODS, KEY)
    assert len(server.seen) == 11
    assert raised.value.retry_after_seconds == 1.0


async def test_429_without_retry_after_is_raised(server: Server, clock: ManualClock) -> None:
    server.script(failure(429, "TooManyRequests"))
    async with client_of(server, clock) as client:
        with pytest.raises(TooManyRequestsError):
            await client.get(PODS, KEY)
    assert len(server.seen) == 1


async def test_429_with_a_retry_after_over_30_seconds_is_raised(server: Server, clock: ManualClock) -> None:
    server.script(busy("31"))
    async with client_of(server, clock) as client:
        with pytest.raises(TooManyRequestsError) as raised:
            await client.get(PODS, KEY)
    assert raised.value.retry_after_seconds == 31.0
    assert clock.slept == []


async def test_retry_after_may_be_a_date(server: Server, clock: ManualClock) -> None:
    server.script(busy("Thu, 01 Jan 2026 00:00:05 GMT"), ok())
    async with client_of(server, clock) as client:
        await client.get(ENDPOINTS, KEY)
    assert clock.slept == [5.0]


async def test_an_invalid_retry_after_is_ignored(server: Server, clock: ManualClock) -> None:
    server.script(busy("soon"))
    async with client_of(server, clock) as client:
        with pytest.raises(TooManyRequestsError) as raised:
            await client.get(PODS, KEY)
    assert raised.value.retry_after_seconds is None


async def test_503_is_retried_only_for_idempotent_requests(server: Server, clock: ManualClock) -> None:
    def down() -> web.Response:
        return failure(503, "ServiceUnavailable", "down", {"Retry-After": "1"})

    server.script(down(), ok(), down())
    async with client_of(server, clock) as client:
        await client.update(ENDPOINTS, Endpoints(), key=KEY)
        with pytest.raises(ServiceUnavailableError) as raised:
            await client.create(ENDPOINTS, Endpoints(), namespace="default")
    assert raised.value.may_have_acted
    assert [seen.method for seen in server.seen] == ["PUT", "PUT", "POST"]


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [(500, "InternalError", InternalServerError), (504, "Timeout", ServerTimeoutError)],
)
async def test_other_failures_are_never_retried(
    server: Server, clock: ManualClock, code: int, reason: str, kind: type[Exception]
) -> None:
    server.script(failure(code, reason, "no", {"Retry-After": "1"}))
    async with client_of(server, clock) as client:
        with pytest.raises(kind):
            await client.get(PODS, KEY)
    assert len(server.seen) == 1


class Tokens:
    """Credentials that count how often they are renewed."""

    def __init__(self, *tokens: str) -> None:
        self._left = [Credential(bearer(token)) for token in tokens]
        self.renewals = 0

    async def current(self) -> Credential:
        return self._left[0]

    async def renewed(self, rejected: Credential) -> Credential:
        if self._left[0] is rejected:
            self.renewals += 1
            if len(self._left) > 1:
                self._left.pop(0)
        return self._left[0]


async def only_second(request: web.BaseRequest) -> web.StreamResponse:
    if request.headers.get("Authorization") == "Bearer second":
        return ok()
    return failure(401, "Unauthorized")


async def test_401_renews_the_credentials_once_and_retries_the_request(
    server: Server, clock: ManualClock
) -> None:
    tokens = Tokens("first", "second")
    server.script(only_second)
    async with client_of(server, clock, credentials=tokens) as client:
        await client.create(ENDPOINTS, Endpoints(), namespace="default")
        await client.get(ENDPOINTS, KEY)
    assert tokens.renewals == 1
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer first",
        "Bearer second",
        "Bearer second",
    ]


async def test_concurrent_401_responses_renew_the_credentials_once(
    server: Server, clock: ManualClock
) -> None:
    tokens = Tokens("first", "second")
    server.script(only_second)
    async with client_of(server, clock, credentials=tokens) as client:
        await asyncio.gather(*(client.get(ENDPOINTS, KEY) for _ in range(8)))
    assert tokens.renewals == 1


async def test_a_second_401_is_raised(server: Server, clock: ManualClock) -> None:
    tokens = Tokens("first", "third", "fourth")
    server.script(only_second)
    async with client_of(server, clock, credentials=tokens) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(ENDPOINTS, KEY)
    assert len(server.seen) == 2


async def test_401_is_not_retried_with_the_same_credentials(server: Server, clock: ManualClock) -> None:
    server.script(only_second)
    async with client_of(server, clock, credentials=Tokens("first")) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(ENDPOINTS, KEY)
    assert len(server.seen) == 1


async def test_opening_a_watch_is_retried_like_any_request(server: Server, clock: ManualClock) -> None:
    server.script(busy(), only_second, json_response(""))
    tokens = Tokens("first", "second")
    async with client_of(server, clock, credentials=tokens) as client, client.watch(PODS) as batches:
        assert [batch async for batch in batches] == []
    assert clock.slept == [1.0]
    assert len(server.seen) == 3


async def test_a_redirect_is_rejected_without_revealing_its_secrets(
    server: Server, clock: ManualClock
) -> None:
    server.script(
        web.Response(status=302, headers={"Location": "https://login.example.com/auth?state=very-secret"})
    )
    async with client_of(server, clock) as client:
        with pytest.raises(
            UnexpectedResponseError, match=r"redirect to https://login\.example\.com,"
        ) as raised:
            await client.get(PODS, KEY)
    assert "very-secret" not in str(raised.value)
    assert len(server.seen) == 1


async def test_a_missing_response_times_out(
    server: Server, clock: ManualClock, skip_time: Callable[[float], None]
) -> None:
    async def never(request: web.BaseRequest) -> web.StreamResponse:
        skip_time(60.0)
        await asyncio.Event().wait()
        raise AssertionError

    server.script(never)
    async with client_of(server, clock) as client:
        with pytest.raises(
            RequestTimedOutError, match=r"GET /api/v1/namespaces/ns/pods/a: .* within 60 s"
        ) as raised:
            await client.get(PODS, ObjectKey("ns", "a"))
    assert raised.value.may_have_acted


async def test_an_open_watch_has_no_timeout(
    server: Server, clock: ManualClock, skip_time: Callable[[float], None]
) -> None:
    release = asyncio.Event()

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await release.wait()
        await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n')
        return response

    server.script(slowly)
    async with client_of(server, clock) as client, client.watch(PODS) as batches:
        skip_time(24 * 3600.0)
        await asyncio.sleep(0)
        release.set()
        assert len([batch async for batch in batches]) == 1


async def test_a_rate_limit_delays_requests_but_not_watches(server: Server, clock: ManualClock) -> None:
    limiter = TokenBucket(per_second=10, burst=1, clock=clock)
    async with Client.from_config(ClusterConfig(server.url), clock=clock, limiter=limiter) as client:
        await client.list_page(PODS)
        await client.list_page(PODS)
        server.script(json_response(""))
        async with client.watch(PODS):
            pass
    assert clock.slept == [pytest.approx(0.1)]


async def test_a_closed_client_raises_a_clear_error(server: Server, clock: ManualClock) -> None:
    client = client_of(server, clock)
    await client.list_page(PODS)
    await client.aclose()
    await client.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await client.list_page(PODS)
    never_used = client_of(server, clock)
    await never_used.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await never_used.list_page(PODS)


async def test_a_cancelled_request_ends_immediately_and_its_connection_is_not_reused(
    server: Server, clock: ManualClock
) -> None:
    arrived = asyncio.Event()

    async def never(request: web.BaseRequest) -> web.StreamResponse:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    server.script(never, ok())
    async with client_of(server, clock) as client:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(client.get(ENDPOINTS, KEY), name="asks")
            await arrived.wait()
            task.cancel()
        await client.get(ENDPOINTS, KEY)
    assert task.cancelled()
    assert server.seen[0].peer != server.seen[1].peer


async def test_a_source_does_not_retry_and_leaves_waiting_to_its_reflector(
    server: Server, clock: ManualClock
) -> None:
    server.script(busy())
    async with client_of(server, clock) as client:
        source = client.source(PODS)
        with pytest.raises(TooManyRequestsError) as raised:
            await source.list_page()
        assert raised.value.retry_after_seconds == 1.0
        with pytest.raises(TooManyRequestsError):
            await source.watch().__aenter__()
    assert len(server.seen) == 2
    assert clock.slept == []
