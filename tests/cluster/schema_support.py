"""Requests to a real kube-apiserver as they stand on the wire, and what is compared of the answers."""

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinykube.testing.control_plane import ControlPlane


class Wire:
    """One connection, used again and again; not for several threads."""

    def __init__(self, connection: http.client.HTTPSConnection, token: str) -> None:
        self._connection = connection
        self._token = token

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer. ``body`` is bytes, or what is to be JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": accept}
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def json(self, method: str, path: str, body: Any = None, **options: str) -> tuple[int, Any]:
        """Return the status and the document of an answer."""
        code, raw = self.send(method, path, body, **options)
        return code, json.loads(raw)

    def made(self, path: str, body: Any) -> Any:
        """Create an object; return it as it is now."""
        code, answer = self.json("POST", path, body)
        assert code == 201, answer
        return answer


@contextmanager
def wire_to(plane: ControlPlane) -> Iterator[Wire]:
    """Connect to a control plane as its admin."""
    address = urllib.parse.urlsplit(plane.url)
    context = ssl.create_default_context(cadata=plane.certificate_authority.decode())
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=context, timeout=30
    )
    try:
        yield Wire(connection, plane.admin_token)
    finally:
        connection.close()
