"""Requests of an administrator to a control plane, past every proxy and client that is measured."""

import json
import ssl
import urllib.request
from typing import Any


class AdminApi:
    """Sends one request at a time and returns the decoded answer. Raises urllib.error.URLError."""

    def __init__(self, url: str, certificate_authority: bytes, token: str) -> None:
        self._url = url
        self._token = token
        self._tls = ssl.create_default_context(cadata=certificate_authority.decode())

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request; a PATCH is a strategic merge patch."""
        patch = "application/strategic-merge-patch+json"
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": patch if method == "PATCH" else "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
            return json.loads(answer.read())
