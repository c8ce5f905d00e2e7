"""Import tricks that make our processes start sooner, and would be intrusive in a library."""

import ssl
from collections.abc import Callable
from typing import Any


def import_aiohttp() -> None:
    """Import aiohttp without loading the system's certificate authorities: half of its import time.

    On import, aiohttp makes two TLS contexts for requests that pass none. Our requests always pass one
    (:mod:`aiokube.client.tls`); a request without one would trust no server, and fail.
    """
    made: Callable[..., Any] = ssl.create_default_context

    def empty(*_: Any, **__: Any) -> ssl.SSLContext:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def read_nothing(context: ssl.SSLContext) -> None:
        """Skip loading the system's authorities; this context never verifies a certificate."""

    context_class: Any = ssl.SSLContext
    ssl.create_default_context = empty
    # Shadows the inherited method of the same name for the duration of the import.
    context_class.set_default_verify_paths = read_nothing
    try:
        import aiohttp.connector  # noqa: F401
    finally:
        ssl.create_default_context = made
        del context_class.set_default_verify_paths
