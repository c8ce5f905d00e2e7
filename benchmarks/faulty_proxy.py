"""A TLS proxy with faults on demand: it refuses, resets, truncates, stalls, or answers instead of the API server."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tinykube.server.certificates.authority import CertificateAuthority

Fault = Literal["none", "refused", "reset", "torn", "stalled", "429", "503"]

_HOST = "127.0.0.1"
_TORN_AFTER_BYTES = 900
_CHUNK_BYTES = 65536
_ANSWERS = {
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 4\r\nConnection: close\r\n\r\nbusy",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 10\r\nConnection: close\r\n\r\nno backend",
}


class _Connection(NamedTuple):
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter | None


class FaultyProxy:
    """Runs in its own thread; call all methods from the thread that created it."""

    def __init__(self, server: str, server_ca: bytes, folder: Path) -> None:
        parts = urlsplit(server)
        self._upstream = (parts.hostname or _HOST, parts.port or 443)
        self._upstream_tls = ssl.create_default_context(cadata=server_ca.decode())
        authority = CertificateAuthority("faulty proxy")
        serving = authority.server([_HOST])
        certificate, key = folder / "proxy.crt", folder / "proxy.key"
        certificate.write_bytes(serving.certificate)
        key.write_bytes(serving.private_key)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self.certificate_authority = authority.pem
        self.requests: Counter[str] = Counter()
        """Requests received, by method and path."""
        self.connections = 0
        """Connections accepted."""
        self._fault: Fault = "none"
        self._expired_version = -1
        self._is_behind = False
        self._passes = asyncio.Event()
        self._connections: set[_Connection] = set()
        self._dead: set[_Connection] = set()
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-proxy", daemon=True)
        self._thread.start()
        self._passes.set()
        self._call(self._listen())

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self._port}"

    def begin(self, fault: Fault) -> None:
        """Apply this fault to all traffic until :meth:`end`."""
        self._call(self._begin(fault))

    def end(self) -> None:
        """Forward normally again."""
        self._call(self._begin("none"))

    def expire(self, version: int) -> None:
        """Answer watches from this resource version or an earlier one as after a compaction: 410 Expired."""
        self._call(self._set_versions(version, False))

    def fall_behind(self, is_behind: bool) -> None:
        """Answer each GET that names a resource version as a server does that has not reached it: 504."""
        self._call(self._set_versions(-1, is_behind))

    def abandon(self) -> None:
        """Stop forwarding on the open connections without closing them; new connections work."""
        self._call(self._abandon())

    def close(self) -> None:
        """Close all connections and stop the thread."""
        self._call(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(
            self._serve, _HOST, self._port, ssl=self._tls, ssl_handshake_timeout=30
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _begin(self, fault: Fault) -> None:
        self._fault = fault
        if fault == "stalled":
            self._passes.clear()
        else:
            self._passes.set()
        if fault in ("refused", "reset", "429", "503"):
            for connection in list(self._connections):
                _abort(connection)
        if fault == "refused":
            if self._listener is not None:
                self._listener.close()
            self._listener = None
        elif self._listener is None:
            await self._listen()

    async def _set_versions(self, expired: int, is_behind: bool) -> None:
        self._expired_version, self._is_behind = expired, is_behind

    def _refusal(self, chunk: bytes) -> bytes | None:
        """Return the answer to a request whose resource version this server does not take."""
        if not chunk.startswith(b"GET ") or (self._expired_version < 0 and not self._is_behind):
            return None
        query = parse_qs(urlsplit(chunk.split(b" ", 2)[1].decode()).query)
        version = query.get("resourceVersion", ["0"])[0]
        if not version.isdigit() or version == "0":
            return None
        if self._is_behind:
            message = f"Too large resource version: {version}, current: {int(version) - 1}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            details = {"causes": [cause], "retryAfterSeconds": 1}
            return _http("504 Gateway Timeout", _status(504, "Timeout", message, details))
        if query.get("watch", [""])[0] in ("1", "true", "True") and int(version) <= self._expired_version:
            message = f"too old resource version: {version} ({self._expired_version + 1})"
            return _http("200 OK", {"type": "ERROR", "object": _status(410, "Expired", message, {})})
        return None

    async def _end_all(self) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _abandon(self) -> None:
        self._dead |= self._connections

    async def _serve(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the proxy is closed
            await self._relay(reader, near)

    async def _relay(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        connection = _Connection(near, None)
        self.connections += 1
        try:
            if self._fault == "reset":
                return
            answer = _ANSWERS.get(self._fault)
            if answer is not None:
                await self._answer(reader, near, answer)
                return
            await self._passes.wait()
            far_reader, far = await asyncio.open_connection(*self._upstream, ssl=self._upstream_tls)
            connection = _Connection(near, far)
            self._connections.add(connection)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, far, connection))
                group.create_task(self._back(far_reader, near, connection))
        except* (OSError, EOFError, ssl.SSLError):
            pass
        finally:
            self._connections.discard(connection)
            _abort(connection)

    async def _answer(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter, answer: bytes) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self._count(head)
        near.write(answer)
        await near.drain()
        await asyncio.sleep(0.05)

    async def _forward(
        self, reader: asyncio.StreamReader, far: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            self._count(chunk)
            refusal = self._refusal(chunk)
            if refusal is not None:
                connection.near.write(refusal)
                await connection.near.drain()
                continue
            await self._passes.wait()
            if connection not in self._dead:
                far.write(chunk)
                await far.drain()
        _abort(connection)

    async def _back(
        self, far_reader: asyncio.StreamReader, near: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        sent = 0
        while chunk := await far_reader.read(_CHUNK_BYTES):
            await self._passes.wait()
            if connection in self._dead:
                continue
            if self._fault == "torn" and sent + len(chunk) > _TORN_AFTER_BYTES:
                near.write(chunk[: len(chunk) // 2])
                await near.drain()
                break
            sent += len(chunk)
            near.write(chunk)
            await near.drain()
        if connection not in self._dead:
            _abort(connection)

    def _count(self, chunk: bytes) -> None:
        line = chunk.split(b"\r\n", 1)[0].split(b" ")
        if len(line) == 3 and line[2].startswith(b"HTTP/"):
            self.requests[f"{line[0].decode()} {line[1].decode().partition('?')[0]}"] += 1


def _status(code: int, reason: str, message: str, details: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def _http(status_line: str, document: dict[str, Any]) -> bytes:
    body = json.dumps(document).encode() + b"\n"
    head = f"HTTP/1.1 {status_line}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _abort(connection: _Connection) -> None:
    for writer in connection:
        if writer is not None:
            writer.transport.abort()
