"""Check run just before a write's bytes are sent, rather than when the write is requested.

Between a caller's decision and the wire there may be a rate limit, a new connection and retries of a
throttled request. A client that may write only until some deadline (a leader, until its lease expires) must
check the clock after all of them.
"""

import io
from collections.abc import Callable

Guard = Callable[[], None]
"""Returns if the write may be sent, raises otherwise. Must be fast and must not block."""


class GuardedBody(io.BytesIO):
    """A request body that calls its guard before each chunk is sent.

    A server does not act on an incomplete body. If the guard raises before the last chunk, the write
    therefore has no effect. ``refusal`` is then the guard's exception, which the HTTP library hides.
    """

    def __init__(self, content: bytes, guard: Guard) -> None:
        super().__init__(content)
        self._guard = guard
        self._length = len(content)
        self.refusal: Exception | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next chunk, unless the guard raises."""
        if self.tell() < self._length:
            try:
                self._guard()
            except Exception as error:
                self.refusal = error
                raise
        return super().read(size)
