"""An HTTP router to the pods of a label selector: ``python consumer_router.py llm app=vllm 8000``."""

import asyncio
import sys

import aiohttp
from aiohttp import web

from aiokube.discovery import watch_pods
from docs.guide.examples.consumer_picker import LeastUsed, NoEndpointError

ATTEMPTS = 3
ENDS_AT_EACH_HOP = {"connection", "transfer-encoding", "content-length", "host"}


class Router:
    """Forwards each request to the least used pod, and to another one if the connection cannot be made."""

    def __init__(self, picker: LeastUsed, session: aiohttp.ClientSession) -> None:
        self._picker = picker
        self._session = session

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request: 503 without endpoints, 502 if no endpoint accepts the connection."""
        body, failed = await request.read(), set[str]()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in ENDS_AT_EACH_HOP
        }
        for _ in range(ATTEMPTS):
            try:
                with self._picker.pick(avoid=frozenset(failed)) as endpoint:
                    url = f"http://{endpoint.address}{request.path_qs}"
                    try:
                        async with self._session.request(
                            request.method, url, data=body, headers=headers
                        ) as answer:
                            return web.Response(status=answer.status, body=await answer.read())
                    except aiohttp.ClientConnectorError:  # nothing was sent: safe to send elsewhere
                        failed.add(endpoint.address)
            except NoEndpointError as error:
                return web.Response(status=503, text=f"{error}\n")
        return web.Response(status=502, text=f"no connection to {', '.join(sorted(failed))}\n")


async def run(namespace: str, selector: str, port: int, listen_port: int = 8080) -> None:
    """Route from a port of this machine until cancelled."""
    picker = LeastUsed()
    app = web.Application()
    async with (
        watch_pods(None, namespace, selector, port=port, labels=["model"]) as live,
        aiohttp.ClientSession() as session,
    ):
        app.router.add_route("*", "/{path:.*}", Router(picker, session).handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", listen_port).start()
        try:
            async for endpoints in live:
                picker.use(endpoints)
        finally:
            await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
