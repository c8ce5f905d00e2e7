"""Where metrics are read: ``GET /metrics`` over plain HTTP, on loopback unless told otherwise."""

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from endpointd.runtime.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

_HIGHEST_PORT = 65_535
_END_SECONDS = 1.0


class BindAddress(msgspec.Struct, frozen=True):
    """An address to listen on; port 0 leaves the choice to the system."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(Exception):
    """It cannot be listened there; the text says where, why, and what to do."""


def parse_bind_address(text: str, *, allow_remote: bool) -> BindAddress:
    """Return the address of ``127.0.0.1:8080``, ``[::1]:8080``, ``localhost:8080`` or ``:8080`` (all interfaces).

    Raises ``ValueError`` for what is none, and for what others can reach where that is not allowed.
    """
    host, colon, digits = text.rpartition(":")
    if not colon or not (digits.isascii() and digits.isdigit()) or int(digits) > _HIGHEST_PORT:
        raise ValueError(
            f"{text!r} is not an address with a port: write 127.0.0.1:8080, [::1]:8080 or localhost:8080"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:8080")
    everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - refused unless asked for
    host = {"localhost": "127.0.0.1", "": everywhere}.get(host, host)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(
            f"{text!r}: {host!r} is not an IP address; of names only localhost is taken"
        ) from None
    if not address.is_loopback and not allow_remote:
        raise ValueError(
            f"{text!r} can be reached from other machines, and anyone there could read the metrics: choose a "
            "loopback address, or say --metrics-allow-remote"
        )
    return BindAddress(host, int(digits))


def open_listener(address: BindAddress) -> socket.socket:
    """Return a socket that listens. Raises :class:`ListenError`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, dualstack_ipv6=address.host == "::"
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(
            f"cannot serve metrics on {address}: {reason} (choose another --metrics-bind-address, or end what "
            "listens there)"
        ) from error


class MetricsServer:
    """A part for the manager that answers ``GET /metrics``, and nothing else, until cancelled.

    The socket is closed when it has been served and :meth:`run` ends. Answers are made in the event loop: what they tell is
    one moment of the program.
    """

    name = "metrics"

    def __init__(self, listener: socket.socket, render: Callable[[], bytes]) -> None:
        self._listener = listener
        self._render = render

    async def run(self) -> None:
        """Serve until cancelled."""
        from aiohttp import web  # it takes a while, and most do without

        application = web.Application()
        application.router.add_get("/metrics", self._answer, allow_head=False)
        runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=_END_SECONDS
        )
        await runner.setup()
        try:
            await web.SockSite(runner, self._listener).start()
            host, port = self._listener.getsockname()[:2]
            logger.info("metrics are served: url=http://%s/metrics", BindAddress(host, port))
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        return web.Response(body=self._render(), headers={"Content-Type": CONTENT_TYPE})
