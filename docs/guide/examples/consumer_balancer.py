"""A TCP load balancer for one service: ``python consumer_balancer.py shop/web http 8080``."""

import asyncio
import logging
import random
import sys

from aiokube.discovery import EndpointView, ServiceEndpoints, watch_service

log = logging.getLogger("balancer")


class Balancer:
    """Sends each connection to one of the endpoints that are usable when it comes in."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._usable: tuple[EndpointView, ...] = ()

    def use(self, endpoints: ServiceEndpoints) -> None:
        """Send new connections there from now on; those that are open stay where they are."""
        self._usable = endpoints.usable
        log.info(
            "%s: %s", endpoints.name, [endpoint.address for endpoint in self._usable] or endpoints.problem
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: the endpoints in any order until one answers."""
        for endpoint in self._chance.sample(self._usable, len(self._usable)):
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
    """Pass on what comes, until nothing does."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def run(service: str, port: str, listen_port: int) -> None:
    """Balance on a port of this machine, for the cluster of your kubeconfig."""
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
