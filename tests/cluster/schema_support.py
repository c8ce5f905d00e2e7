"""Raw requests to a real kube-apiserver, and the compared parts of its responses."""

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinykube.testing.control_plane import ControlPlane


class Wire:
    """One reused connection; not thread-safe."""

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
        """Return the status and body of a response. ``body`` is bytes, or a value to encode as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": accept}
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def json(self, method: str, path: str, body: Any = None, **options: str) -> tuple[int, Any]:
        """Return the status and document of a response."""
        code, raw = self.send(method, path, body, **options)
        return code, json.loads(raw)

    def made(self, path: str, body: Any) -> Any:
        """Create an object and return it as stored."""
        code, answer = self.json("POST", path, body)
        assert code == 201, answer
        return answer


@contextmanager
def wire_to(plane: ControlPlane) -> Iterator[Wire]:
    """Connect to a control plane as admin."""
    address = urllib.parse.urlsplit(plane.url)
    context = ssl.create_default_context(cadata=plane.certificate_authority.decode())
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=context, timeout=30
    )
    try:
        yield Wire(connection, plane.admin_token)
    finally:
        connection.close()
