"""A watch on the wire: one chunked answer that lasts, each batch a chunk, written when it is there."""

from aiohttp import web

from endpointd.apiserver.http.answers import NOT_CACHED, add_warnings
from endpointd.apiserver.http.connections import Connection
from endpointd.apiserver.http.frames import Framer, chunk
from endpointd.apiserver.verbs.watch import Failure, Watch
from endpointd.clock import Clock

_PACE_SECONDS_A_WATCH = 150e-6
_LONGEST_PACE_SECONDS = 0.05
_SHORTEST_PACE_SECONDS = 0.003


def pace_seconds(watches: int) -> float:
    """Return how long a watch waits after it was written to, with so many of them open."""
    pace = min(watches * _PACE_SECONDS_A_WATCH, _LONGEST_PACE_SECONDS)
    return pace if pace >= _SHORTEST_PACE_SECONDS else 0.0


class Streams:
    """The watches that are being served, so that the server can end them all.

    What a delivery costs is nearly all in the system call, not in the bytes. So where many watch, each of them is written
    to at most once in a while (50 ms, from three hundred of them on; below twenty, at once), and what
    happens meanwhile goes out together. The first change after a silence is never held back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: set[Watch] = set()
        self._closing = False

    def __len__(self) -> int:
        """Count the watches that are open."""
        return len(self._open)

    def close(self) -> None:
        """End all watches cleanly, and those that are still to come at once: their clients see the end of the stream."""
        self._closing = True
        for watch in tuple(self._open):
            watch.close()

    async def serve(
        self,
        request: web.BaseRequest,
        opened: Watch | Failure,
        framer: Framer,
        content_type: str,
        *,
        audit_id: str,
        warnings: list[str],
    ) -> web.StreamResponse:
        """Write a watch to its client until one of them ends it.

        The headers go out at once. A client that does not read holds only its own watch: the batches wait in the
        history that all share, until it has been left too far behind.
        """
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        response.headers["Content-Type"] = content_type
        response.headers["Audit-Id"] = audit_id
        response.headers["Cache-Control"] = NOT_CACHED
        add_warnings(response, warnings)
        writer = await response.prepare(request)
        if writer is None or request.transport is None:
            return response
        transport = request.transport
        writer.send_headers()
        if isinstance(opened, Failure):
            transport.write(chunk(framer.frame((opened,))))
            return response
        connection = request.protocol
        assert isinstance(connection, Connection)  # noqa: S101 - the server makes no others
        self._open.add(opened)
        connection.on_lost = opened.close
        if self._closing:
            opened.close()
        try:
            while not transport.is_closing():
                batch = await opened.next_batch()
                if not batch or transport.is_closing():
                    break
                transport.write(chunk(framer.frame(batch)))
                await writer.drain()
                pace = pace_seconds(len(self._open))
                if pace and not self._closing:
                    await self._clock.sleep(pace)
        finally:
            connection.on_lost = None
            self._open.discard(opened)
            opened.close()
        return response
