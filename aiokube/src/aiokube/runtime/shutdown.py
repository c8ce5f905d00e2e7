"""Graceful shutdown on signals."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals(
    stop: asyncio.Event, signals: tuple[signal.Signals, ...] = STOP_SIGNALS
) -> Iterator[None]:
    """Set ``stop`` on the first signal; a second signal terminates the process immediately.

    The second signal has its default effect: no cleanup, and the parent sees which signal it was. Requires a
    running loop on the main thread (POSIX). On exit the default signal handlers are restored.
    """
    loop = asyncio.get_running_loop()

    def on_signal(received: signal.Signals) -> None:
        if stop.is_set():
            loop.remove_signal_handler(received)
            signal.signal(received, signal.SIG_DFL)
            os.kill(os.getpid(), received)
            return
        logger.info("stopping, a second signal terminates the process immediately: signal=%s", received.name)
        stop.set()

    for wanted in signals:
        loop.add_signal_handler(wanted, on_signal, wanted)
    try:
        yield
    finally:
        for wanted in signals:
            loop.remove_signal_handler(wanted)
