"""One event loop in a background thread, shared by all blocking views of a process."""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

_STOP_SECONDS = 10.0


class ForkedError(RuntimeError):
    """A view is used in a child process: the thread that kept it current did not survive the fork."""


class BackgroundLoop:
    """An event loop in a daemon thread. The first task starts the thread, and the last one to end stops it.

    Every task belongs to one task group in that thread. At exit of the interpreter the tasks are cancelled and
    awaited. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._group: asyncio.TaskGroup | None = None
        self._users = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.generation = 0
        """Grows with each fork; a view of an earlier generation is dead."""

    def start(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> Future[None]:
        """Run a coroutine as a named task; return its future. Cancelling the future cancels the task."""
        with self._lock:
            if self._users == 0:
                self._start_thread()
            self._users += 1
            loop, group = self._loop, self._group
        assert loop is not None  # noqa: S101 - set by _start_thread
        done: Future[None] = Future()

        def begin() -> None:
            assert group is not None  # noqa: S101 - set by _start_thread
            task = group.create_task(self._guard(run, done), name=name)
            self._tasks.add(task)
            task.add_done_callback(self._release)  # also if it is cancelled before its first step
            done.add_done_callback(lambda _: cancel(task))

        def cancel(task: asyncio.Task[None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the task has ended
                loop.call_soon_threadsafe(task.cancel)

        loop.call_soon_threadsafe(begin)
        return done

    async def _guard(self, run: Callable[[], Coroutine[Any, Any, None]], done: Future[None]) -> None:
        """Report the failure of one view to its future only, so that the other views continue."""
        try:
            await run()
        except asyncio.CancelledError:
            done.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - passed to the future
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(None)

    def _release(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._stop is not None:
                self._stop.set()
                self._loop = self._thread = self._stop = self._group = None

    def _start_thread(self) -> None:
        ready = threading.Event()

        async def serve() -> None:
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                self._loop, self._stop, self._group = asyncio.get_running_loop(), stop, group
                ready.set()
                await stop.wait()

        self._thread = threading.Thread(
            target=lambda: asyncio.run(serve()), name="aiokube-discovery", daemon=True
        )
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """Cancel all tasks and join the thread; registered with atexit."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return

        def cancel_all() -> None:
            for task in self._tasks:
                task.cancel()

        loop.call_soon_threadsafe(cancel_all)
        thread.join(_STOP_SECONDS)

    def forget_after_fork(self) -> None:
        """Start over in a child process, where the thread does not exist and the lock may never be released."""
        generation = self.generation
        self.__init__()  # type: ignore[misc]
        self.generation = generation + 1


LOOP = BackgroundLoop()
atexit.register(LOOP.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOOP.forget_after_fork)
