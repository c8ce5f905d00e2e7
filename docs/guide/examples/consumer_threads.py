"""Requests from threads to a service: ``python consumer_threads.py shop/web http /``."""

import http.client
import sys
from pathlib import Path

from aiokube.discovery import ServiceView
from docs.guide.examples.consumer_picker import LeastUsed

ATTEMPTS = 3


def fetch(picker: LeastUsed, path: str) -> tuple[int, bytes]:
    """Return status and body, from another endpoint if one refuses the connection."""
    failed: set[str] = set()
    for _ in range(ATTEMPTS):
        with picker.pick(avoid=frozenset(failed)) as endpoint:
            connection = http.client.HTTPConnection(endpoint.ip, endpoint.port, timeout=10)
            try:
                connection.connect()
            except OSError:
                failed.add(endpoint.address)
                continue
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()
    raise ConnectionError(f"no connection to {', '.join(sorted(failed))}")


def run(service: str, port: str, path: str, *, kubeconfig: str | Path | None = None) -> tuple[int, bytes]:
    """Fetch one page from a service."""
    picker = LeastUsed()
    with ServiceView(service, port=port, cluster=kubeconfig, on_change=picker.use) as view:
        picker.use(view.current)
        return fetch(picker, path)


if __name__ == "__main__":
    status, body = run(sys.argv[1], sys.argv[2], sys.argv[3])
    sys.stdout.write(f"{status}\n{body.decode(errors='replace')}\n")
