"""An httpx transport that sends each request to the least used pod: ``python transport_httpx.py llm app=vllm 8000 /``."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import httpx

from aiokube.discovery import watch_pods
from docs.guide.examples.consumer_picker import LeastUsed, NoEndpointError

ATTEMPTS = 3


class EndpointTransport(httpx.AsyncBaseTransport):
    """Replaces host and port of each URL by those of an endpoint; the Host header stays.

    Another endpoint is tried if a connection cannot be made, and never after anything was sent. Raises
    httpx.ConnectError if there is no endpoint or none accepts the connection.
    """

    def __init__(
        self,
        picker: LeastUsed,
        inner: httpx.AsyncBaseTransport | None = None,
        *,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._picker = picker
        self._inner = inner or httpx.AsyncHTTPTransport()
        self._attempts = attempts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. The endpoint counts as used until the response is closed."""
        failed: set[str] = set()
        for _ in range(self._attempts):
            async with contextlib.AsyncExitStack() as in_flight:
                try:
                    endpoint = in_flight.enter_context(self._picker.pick(avoid=frozenset(failed)))
                except NoEndpointError as error:
                    raise httpx.ConnectError(str(error), request=request) from error
                request.url = request.url.copy_with(host=endpoint.ip, port=endpoint.port)
                try:
                    response = await self._inner.handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    failed.add(endpoint.address)
                    continue
                stream = _Stream(response.stream, in_flight.pop_all())  # type: ignore[arg-type]
                return httpx.Response(
                    response.status_code,
                    headers=response.headers,
                    stream=stream,
                    extensions=response.extensions,
                )
        raise httpx.ConnectError(f"no connection to {', '.join(sorted(failed))}", request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _Stream(httpx.AsyncByteStream):
    """A body whose end releases the endpoint."""

    def __init__(self, inner: httpx.AsyncByteStream, in_flight: contextlib.AsyncExitStack) -> None:
        self._inner = inner
        self._in_flight = in_flight

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            yield chunk

    async def aclose(self) -> None:
        async with self._in_flight:
            await self._inner.aclose()


async def run(namespace: str, selector: str, port: int, path: str) -> httpx.Response:
    """Send one request to the pods of a selector."""
    picker = LeastUsed()
    async with (
        watch_pods(None, namespace, selector, port=port) as live,
        httpx.AsyncClient(transport=EndpointTransport(picker), base_url="http://vllm") as client,
        asyncio.TaskGroup() as group,
    ):

        async def follow() -> None:
            async for endpoints in live:
                picker.use(endpoints)

        picker.use(live.current)
        following = group.create_task(follow(), name="follow")
        answer = await client.get(path)
        following.cancel()
        return answer


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])).text)
