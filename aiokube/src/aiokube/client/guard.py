"""The last word before a write: asked when its bytes are about to go to the socket, not when it was asked for.

Between a caller's decision and the wire lie the turn of a rate limit, a connection that is set up, a busy server
that is waited out. Whoever may write only until a moment (a leader, until its lease ends) has to look at the clock
after all of that.
"""

import io
from collections.abc import Callable

Guard = Callable[[], None]
"""Returns where the write may go out, raises where it may not. Must be quick and must not wait."""


class GuardedBody(io.BytesIO):
    """The body of a request, which asks its guard as each piece is taken to be sent.

    A server does not act on a body that it has only a part of. So where the guard raises before the last piece,
    nothing happens there. ``refusal`` is then what the guard raised, as the HTTP library hides it.
    """

    def __init__(self, content: bytes, guard: Guard) -> None:
        super().__init__(content)
        self._guard = guard
        self._length = len(content)
        self.refusal: Exception | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next piece, if the guard has nothing against it."""
        if self.tell() < self._length:
            try:
                self._guard()
            except Exception as error:
                self.refusal = error
                raise
        return super().read(size)
