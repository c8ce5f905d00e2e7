"""Live endpoints for programs with threads: the views of this package, kept current by a background loop."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Self

from aiokube.api.addresses import Family
from aiokube.api.meta import ObjectKey
from aiokube.clock import SystemClock
from aiokube.discovery.background import LOOP, ForkedError
from aiokube.discovery.changes import ServiceEndpoints
from aiokube.discovery.endpoint import NOWHERE, EndpointView, Location
from aiokube.discovery.live import watch_service
from aiokube.discovery.live_view import LiveView
from aiokube.discovery.pods import watch_pods

_CLOCK = SystemClock()
log = logging.getLogger(__name__)

OnChange = Callable[[ServiceEndpoints], object]


class View:
    """A :class:`~aiokube.discovery.live_view.LiveView` for threads; open it with ``with``, or :meth:`open`.

    * **Thread-safe.** Every property may be read from any thread, without blocking and without I/O.
    * **One loop.** All views of a process share one background thread, which ends with the last view.
    * **Changes.** :meth:`wait_for_change` waits for a state that differs. ``on_change`` is called with the
      first state and then with each different one, one call at a time, in a separate thread; states that
      arrive during a call coalesce into the last one. Its exceptions are logged and do not end the view.
    * **Fork.** In a child process every use raises :class:`~aiokube.discovery.background.ForkedError`: open
      views after forking.
    * **Exit.** Leaving the block stops the watches; open views are closed when the interpreter exits.
    """

    def __init__(self, make_view: Callable[[], LiveView], on_change: OnChange | None) -> None:
        self._make_view = make_view
        self._on_change = on_change
        self._generation = LOOP.generation
        self._condition = threading.Condition()
        self._live: LiveView | None = None
        self._current: ServiceEndpoints | None = None
        self._version = 0
        self._done: Future[None] | None = None
        self._is_open = False

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self) -> None:
        """Start watching; return once the endpoints are known.

        Raises ConfigError and NotSyncedError as the asyncio view does, and RuntimeError if it was opened before.
        """
        self._check_process()
        if self._done is not None:
            raise RuntimeError("the view was opened before: create another one")
        self._done = LOOP.start(self._run, "blocking view")
        self._done.add_done_callback(lambda _: self._wake())
        try:
            with self._condition:
                while self._current is None and not self._done.done():
                    self._condition.wait()
        except BaseException:  # KeyboardInterrupt: the caller cannot close it
            self._done.cancel()
            raise
        if self._current is None:
            self._done.result()

    def close(self) -> None:
        """Stop watching; :attr:`current` keeps the last state. Does nothing if the view is closed already."""
        if self._done is None or self._generation != LOOP.generation:
            return
        self._done.cancel()
        with self._condition:
            while self._is_open:
                self._condition.wait()

    @property
    def current(self) -> ServiceEndpoints:
        """The last known state. Raises RuntimeError before :meth:`open`, and ForkedError in a child process."""
        self._check_process()
        if self._current is None:
            raise RuntimeError("nothing is known yet: open the view with a with block")
        return self._current

    @property
    def usable(self) -> tuple[EndpointView, ...]:
        """The endpoints to send new connections to: ``current.usable``."""
        return self.current.usable

    @property
    def age(self) -> float:
        """Seconds since the last proof that the view was current; see :attr:`LiveView.age`."""
        self._check_process()
        return self._live.age if self._live is not None else float("inf")

    def check(self) -> None:
        """Raise an error if the view must not be trusted: StaleViewError, or RuntimeError if it ended."""
        self._check_process()
        if self._live is None or not self._is_open:
            cause = self._failure()
            raise RuntimeError(f"the view is not open{f': {cause}' if cause else ''}") from cause
        self._live.check()

    def wait_for_change(self, timeout_seconds: float | None = None) -> bool:
        """Wait for a state that differs from the one at the call. Return False after the timeout or when closed."""
        self._check_process()
        deadline = None if timeout_seconds is None else _CLOCK.monotonic() + timeout_seconds
        with self._condition:
            seen = self._version
            while self._version == seen and self._is_open:
                left_seconds = None if deadline is None else deadline - _CLOCK.monotonic()
                if left_seconds is not None and left_seconds <= 0:
                    return False
                self._condition.wait(left_seconds)
            return self._version != seen

    # --------------------------------------------------------------------------------- in the background loop

    async def _run(self) -> None:
        live = self._make_view()
        try:
            async with live, asyncio.TaskGroup() as group:
                with self._condition:
                    self._live, self._is_open = live, True
                calls: asyncio.Queue[ServiceEndpoints] = asyncio.Queue(1)
                if self._on_change is not None:
                    group.create_task(self._call(self._on_change, calls), name="on_change")
                async for endpoints in live:
                    self._publish(endpoints)
                    if calls.full():
                        calls.get_nowait()
                    calls.put_nowait(endpoints)
        finally:
            with self._condition:
                self._is_open = False
                self._condition.notify_all()

    def _publish(self, endpoints: ServiceEndpoints) -> None:
        with self._condition:
            if self._current is not None:
                self._version += 1
            self._current = endpoints
            self._condition.notify_all()

    async def _call(self, on_change: OnChange, calls: "asyncio.Queue[ServiceEndpoints]") -> None:
        while True:
            endpoints = await calls.get()
            try:
                await asyncio.to_thread(on_change, endpoints)
            except Exception:
                log.exception("on_change failed: view=%s", endpoints.name)

    def _wake(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def _check_process(self) -> None:
        if self._generation != LOOP.generation:
            raise ForkedError(
                "this view was opened before a fork, and the thread that keeps it current is in the parent process: "
                "open a view in the child, for example in post_fork of gunicorn"
            )

    def _failure(self) -> BaseException | None:
        if self._done is None or not self._done.done():
            return None
        with contextlib.suppress(CancelledError):
            return self._done.exception()
        return None


class ServiceView(View):
    """The endpoints of a service for threads.

    For example::

        with ServiceView("shop/web", port="http") as view:
            connect(random.choice(view.usable).address)

    The arguments are those of :func:`~aiokube.discovery.live.watch_service`; ``cluster`` is the path of a
    kubeconfig, or None for the default cluster. Raises ValueError for invalid arguments.
    """

    def __init__(
        self,
        service: str | ObjectKey,
        *,
        port: str | int | None = None,
        protocol: str = "TCP",
        family: Family | None = None,
        location: Location = NOWHERE,
        cluster: str | Path | None = None,
        timeout_seconds: float = 30.0,
        stale_after: float | None = None,
        on_change: OnChange | None = None,
    ) -> None:
        def make() -> LiveView:
            return watch_service(
                cluster,
                service,
                port=port,
                protocol=protocol,
                family=family,
                location=location,
                timeout_seconds=timeout_seconds,
                stale_after=stale_after,
            )

        make()
        super().__init__(make, on_change)


class PodView(View):
    """The pods that a label selector matches, for threads.

    For example::

        with PodView("llm", "app=vllm", port=8000, labels=["model"]) as view:
            urls = [f"http://{each.address}" for each in view.usable if each.labels.get("model") == model]

    The arguments are those of :func:`~aiokube.discovery.pods.watch_pods`.
    """

    def __init__(
        self,
        namespace: str,
        selector: str,
        *,
        port: str | int,
        protocol: str = "TCP",
        labels: Iterable[str] = (),
        annotations: Iterable[str] = (),
        family: Family | None = None,
        node_zones: bool = False,
        location: Location = NOWHERE,
        cluster: str | Path | None = None,
        timeout_seconds: float = 30.0,
        stale_after: float | None = None,
        on_change: OnChange | None = None,
    ) -> None:
        wanted_labels, wanted_annotations = tuple(labels), tuple(annotations)

        def make() -> LiveView:
            return watch_pods(
                cluster,
                namespace,
                selector,
                port=port,
                protocol=protocol,
                labels=wanted_labels,
                annotations=wanted_annotations,
                family=family,
                node_zones=node_zones,
                location=location,
                timeout_seconds=timeout_seconds,
                stale_after=stale_after,
            )

        make()
        super().__init__(make, on_change)
