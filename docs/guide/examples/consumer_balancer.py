"""A TCP load balancer for one service: ``python consumer_balancer.py shop/web http 8080``."""

import asyncio
import logging
import random
import sys

from aiokube.discovery import EndpointView, ServiceEndpoints, watch_service

log = logging.getLogger("balancer")


class Balancer:
    """Forwards each connection to an endpoint that is usable when the connection is accepted."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._usable: tuple[EndpointView, ...] = ()

    def use(self, endpoints: ServiceEndpoints) -> None:
        """Forward new connections to these endpoints; open connections are not affected."""
        self._usable = endpoints.usable
        log.info(
            "%s: %s", endpoints.name, [endpoint.address for endpoint in self._usable] or endpoints.problem
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: try the endpoints in random order until one accepts it."""
        for endpoint in self._rng.sample(self._usable, len(self._usable)):
            try:
                far_reader, far_writer = await asyncio.open_connection(endpoint.ip, endpoint.port)
            except OSError as error:
                log.warning("%s does not answer: %s", endpoint.address, error)
                continue
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(copy(reader, far_writer), name="to the endpoint")
                    group.create_task(copy(far_reader, writer), name="from the endpoint")
            finally:
                far_writer.close()
                writer.close()
            return
        writer.transport.abort()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy data until the end of the stream."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def run(service: str, port: str, listen_port: int) -> None:
    """Balance connections to a local port, for the cluster of your kubeconfig."""
    balancer = Balancer(random.SystemRandom())
    async with (
        watch_service(None, service, port=port) as live,
        await asyncio.start_server(balancer.serve, "127.0.0.1", listen_port),
    ):
        async for endpoints in live:
            balancer.use(endpoints)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
