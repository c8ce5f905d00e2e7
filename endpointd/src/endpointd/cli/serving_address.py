"""Where metrics and health are served: an address of loopback, unless others are kept out or it is said that they may come."""

import ipaddress
import os
import socket
from typing import Literal

import msgspec

_HIGHEST_PORT = 65_535


class BindAddress(msgspec.Struct, frozen=True):
    """An address to listen on; port 0 leaves the choice to the system."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(Exception):
    """It cannot be listened there; the text says where, why, and what to do."""


def parse_bind_address(text: str, *, allow_remote: bool, is_protected: bool = False) -> BindAddress:
    """Return the address of ``127.0.0.1:8080``, ``[::1]:8080``, ``localhost:8080`` or ``:8080`` (all interfaces).

    ``is_protected`` says that there are both a certificate and a token. Raises ``ValueError`` for what is no address, and
    for what others can reach where it is neither protected nor allowed.
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
    if not (address.is_loopback or allow_remote or is_protected):
        raise ValueError(
            f"{text!r} can be reached from other machines, and anyone there could read the metrics: choose a "
            "loopback address; or give --tls-cert-file, --tls-private-key-file and --metrics-token-file; or say "
            "--metrics-allow-remote"
        )
    return BindAddress(host, int(digits))


def open_listener(address: BindAddress, purpose: Literal["metrics", "healthz"] = "metrics") -> socket.socket:
    """Return a socket that listens. Raises :class:`ListenError`, which names the flag of this purpose."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, dualstack_ipv6=address.host == "::"
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(
            f"cannot serve {purpose} on {address}: {reason} (choose another --{purpose}-bind-address, or end what "
            "listens there)"
        ) from error
