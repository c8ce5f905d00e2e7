"""What makes a process of ours start sooner, and would be rude in a library."""

import ssl
from collections.abc import Callable
from typing import Any


def import_aiohttp() -> None:
    """Import aiohttp without having it read the certificate authorities of the system: a third of its import time.

    It makes a TLS context when it is imported, for requests that name none. Ours always name one
    (:mod:`endpointd.client.tls`), so nobody misses it; a request without one would trust nobody, and fail.
    """
    made: Callable[..., Any] = ssl.create_default_context

    def empty(*_: Any, **__: Any) -> ssl.SSLContext:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    ssl.create_default_context = empty
    try:
        import aiohttp.connector  # noqa: F401
    finally:
        ssl.create_default_context = made
