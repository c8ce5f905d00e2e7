"""How loudly a failure is logged: the first ones of a namespace in full, then a count a minute."""

import msgspec

from aiokube.clock import Clock

BURST = 20
WINDOW_SECONDS = 60.0
_REMEMBERED_NAMESPACES = 4096


class _Window(msgspec.Struct):
    began_at: float
    logged: int = 0
    folded: int = 0


class FailureLog:
    """Bounds the log lines that the failures of one namespace cost: 20 a minute, and one that counts the others.

    A thousand Services that fail for one reason, such as a quota, need not log it at every retry. Another
    namespace's failures are logged as before.
    """

    def __init__(self, clock: Clock, *, burst: int = BURST, window_seconds: float = WINDOW_SECONDS) -> None:
        self._clock = clock
        self._burst = burst
        self._window_seconds = window_seconds
        self._windows: dict[str, _Window] = {}

    def note(self, namespace: str) -> tuple[bool, int]:
        """Count a failure; return whether to log it, and how many of the window before were not logged."""
        now = self._clock.monotonic()
        window = self._windows.get(namespace)
        folded = 0
        if window is None or now - window.began_at >= self._window_seconds:
            folded = window.folded if window is not None else 0
            self._windows.pop(namespace, None)  # the newest window is the last
            window = self._windows[namespace] = _Window(now)
            if len(self._windows) > _REMEMBERED_NAMESPACES:
                del self._windows[next(iter(self._windows))]
        if window.logged < self._burst:
            window.logged += 1
            return True, folded
        window.folded += 1
        return False, 0
