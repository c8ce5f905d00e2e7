"""Splitting of a byte stream into lines, for any chunk boundaries."""

from aiokube.client.errors import LineTooLongError

MAX_LINE_BYTES = 16 * 1024 * 1024


class LineSplitter:
    """Collects chunks and returns complete lines without their newline; empty lines are skipped.

    Every byte is scanned once and copied once or twice, for any line length and chunk size. At most
    ``max_line_bytes`` of an incomplete line are buffered.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []
        self._pending_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """The size of the buffered incomplete line."""
        return self._pending_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that ``chunk`` completes, in order.

        Raises LineTooLongError if a line, complete or not, exceeds the limit; the splitter must not be used
        afterwards.
        """
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        lines = chunk[:end].split(b"\n") if end else [b""]
        if self._parts:
            self._keep(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._pending_bytes = 0
        rest = chunk[end + 1 :]
        if rest:
            self._keep(rest)
        if len(chunk) > self._max_line_bytes:
            for line in lines:
                self._check(len(line))
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> None:
        self._check(self._pending_bytes + len(part))
        if part:
            self._parts.append(part)
            self._pending_bytes += len(part)

    def _check(self, length: int) -> None:
        if length > self._max_line_bytes:
            raise LineTooLongError(
                f"a line of the watch is longer than {self._max_line_bytes} bytes; no object is that large: "
                "is this the address of an API server?"
            )
