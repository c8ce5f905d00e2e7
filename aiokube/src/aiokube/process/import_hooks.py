"""What makes a process of ours start sooner, and would be rude in a library."""

import ssl
from collections.abc import Callable
from typing import Any


def import_aiohttp() -> None:
    """Import aiohttp without having it read the certificate authorities of the system: half of its import time.

    It makes two TLS contexts when it is imported, for requests that name none. Ours always name one
    (:mod:`aiokube.client.tls`), so nobody misses them; a request without one would trust nobody, and fail.
    """
    made: Callable[..., Any] = ssl.create_default_context

    def empty(*_: Any, **__: Any) -> ssl.SSLContext:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def read_nothing(context: ssl.SSLContext) -> None:
        """Leave the paths of the system's authorities unread, though nothing would be verified by them."""

    context_class: Any = ssl.SSLContext
    ssl.create_default_context = empty
    # Hides the method of the same name that the class inherits, and is taken away again.
    context_class.set_default_verify_paths = read_nothing
    try:
        import aiohttp.connector  # noqa: F401
    finally:
        ssl.create_default_context = made
        del context_class.set_default_verify_paths
