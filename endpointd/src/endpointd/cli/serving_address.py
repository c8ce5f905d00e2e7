"""The address to serve metrics and health checks on: loopback, unless protected or explicitly allowed."""

import ipaddress
import os
import socket
from typing import Literal

import msgspec

_HIGHEST_PORT = 65_535


class BindAddress(msgspec.Struct, frozen=True):
    """An address to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(Exception):
    """Listening failed; the text says where, why, and how to fix it."""


def parse_bind_address(text: str, *, allow_remote: bool, is_protected: bool = False) -> BindAddress:
    """Parse ``127.0.0.1:8080``, ``[::1]:8080``, ``localhost:8080`` or ``:8080`` (all interfaces).

    ``is_protected`` means that both a certificate and a token are configured. Raises ``ValueError`` for an
    invalid address, and for one that other machines can reach unless it is protected or ``allow_remote`` is
    set.
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
            f"{text!r}: {host!r} is not an IP address; the only accepted name is localhost"
        ) from None
    if not (address.is_loopback or allow_remote or is_protected):
        raise ValueError(
            f"{text!r} is reachable from other machines, and anyone could read the metrics: choose a "
            "loopback address; or set --tls-cert-file, --tls-private-key-file and --metrics-token-file; or set "
            "--metrics-allow-remote"
        )
    return BindAddress(host, int(digits))


def open_listener(address: BindAddress, purpose: Literal["metrics", "healthz"] = "metrics") -> socket.socket:
    """Return a listening socket. Raises :class:`ListenError`, which names the flag of this purpose."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, dualstack_ipv6=address.host == "::"
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(
            f"cannot serve {purpose} on {address}: {reason} (choose another --{purpose}-bind-address, or stop "
            "the program that listens there)"
        ) from error
