"""Serve metrics and health checks, with limits that protect the controllers from any client behaviour."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn

from aiokube.clock import Clock
from aiokube.runtime.errors import describe
from endpointd.cli.serving_address import BindAddress
from endpointd.cli.serving_answers import Answer, Request, parse_head, plain
from endpointd.cli.serving_secrets import ServingFileError, ServingSecrets

logger = logging.getLogger(__name__)

CONNECTIONS = 256
CONNECTION_SECONDS = 10.0
HANDSHAKE_SECONDS = 5.0
HEAD_BYTES = 8 * 1024
FILE_CHECK_SECONDS = 5.0
_PAUSE_WITHOUT_FILES_SECONDS = 1.0
_PAUSE_WHEN_FULL_SECONDS = 0.01
_MIN_CONNECTION_SECONDS = 0.5


class _Open(NamedTuple):
    """An open connection."""

    task: asyncio.Task[None]
    since: float


class Server:
    """A runnable that answers requests until cancelled, one per connection.

    Guarantees: a connection lives at most ``connection_seconds``, regardless of its client; at most
    ``connections`` are open, and a new one replaces the oldest once that has had half a second, so that
    probes are answered during a flood of connections; at most 8 KiB of a request are read, and no body.
    Responses are made in the event loop, so each shows one consistent moment of the program. With
    ``secrets``, changed certificate and token files take effect within 5 seconds; without, it serves plain
    HTTP.

    The socket is closed when :meth:`run` ends. Nothing of a request is logged.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[Request], Answer],
        *,
        secrets: ServingSecrets | None = None,
        clock: Clock,
        name: str = "serving",
        connections: int = CONNECTIONS,
        connection_seconds: float = CONNECTION_SECONDS,
    ) -> None:
        self.name = name
        self._listener = listener
        self._answer = answer
        self._secrets = secrets
        self._clock = clock
        self._connections = connections
        self._connection_seconds = connection_seconds
        self._open: dict[int, _Open] = {}
        self._closing: set[int] = set()
        self._number = 0

    async def run(self) -> NoReturn:
        """Serve until cancelled."""
        context = self._secrets.server_context() if self._secrets is not None else None
        host, port = self._listener.getsockname()[:2]
        url = f"{'http' if context is None else 'https'}://{BindAddress(host, port)}"
        logger.info("serving: listener=%s url=%s", self.name, url)
        self._listener.setblocking(False)
        try:
            async with asyncio.TaskGroup() as group:
                if self._secrets is not None:
                    group.create_task(self._reload_files(self._secrets), name=f"{self.name}-files")
                while True:
                    connection = await self._accept()
                    if len(self._open) >= self._connections:
                        await self._close_oldest()
                    self._number += 1
                    number = self._number
                    task = group.create_task(self._serve(connection, context), name=f"{self.name}-{number}")
                    self._open[number] = _Open(task, self._clock.monotonic())
                    task.add_done_callback(partial(self._closed, number))
                    # Accepting from a full backlog does not suspend: let the accepted connections run.
                    await self._clock.sleep(0)
        finally:
            self._listener.close()

    async def _close_oldest(self) -> None:
        number, oldest = next(iter(self._open.items()))
        left_seconds = oldest.since + _MIN_CONNECTION_SECONDS - self._clock.monotonic()
        if left_seconds > 0:
            await self._clock.sleep(left_seconds)
        if self._open.pop(number, None) is not None:  # otherwise it has already ended
            self._closing.add(number)
            oldest.task.cancel()

    async def _accept(self) -> socket.socket:
        while True:
            # At most as many as may be open, plus those being closed.
            if len(self._open) + len(self._closing) < 2 * self._connections:
                try:
                    connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
                except OSError as error:  # usually out of file descriptors: the server must survive it
                    logger.warning("cannot accept connection: error=%s", describe(error))
                else:
                    return connection
                await self._clock.sleep(_PAUSE_WITHOUT_FILES_SECONDS)
            else:
                await self._clock.sleep(_PAUSE_WHEN_FULL_SECONDS)

    def _closed(self, number: int, _: asyncio.Task[None]) -> None:
        self._open.pop(number, None)
        self._closing.discard(number)

    async def _reload_files(self, secrets: ServingSecrets) -> NoReturn:
        while True:
            await self._clock.sleep(FILE_CHECK_SECONDS)
            try:
                if secrets.refresh():
                    logger.info("reloaded certificate and token files")
            except ServingFileError as error:
                logger.warning("cannot reload changed files, keeping the previous ones: error=%s", error)

    async def _serve(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=HEAD_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(self._connection_seconds):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol,
                    connection,
                    ssl=context,
                    ssl_handshake_timeout=None if context is None else HANDSHAKE_SECONDS,
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                transport.set_write_buffer_limits(0)
                writer.write(await self._respond(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError) as error:  # ssl.SSLError is an OSError
            logger.debug("connection ended early: error=%s", describe(error))
        finally:
            if transport is not None:
                transport.abort()
            else:
                connection.close()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return plain(431, f"request headers are limited to {HEAD_BYTES} bytes").encode()
        request = parse_head(head)
        if request is None:
            return plain(400, "not an HTTP request").encode()
        try:
            answer = self._answer(request)
        except Exception:
            logger.exception("request failed")
            answer = plain(500, "internal error; see the log")
        return answer.encode(with_body=request.method != b"HEAD")
