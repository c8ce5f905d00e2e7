"""Run ``endpointd up``: the server, the simulation, the controllers and the table, in one task group."""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from aiokube.api.core import SERVICES
from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from aiokube.runtime.informer import Informer
from aiokube.runtime.shutdown import stop_on_signals
from endpointd.cli.assembly import Assembly
from endpointd.cli.overview import Overview, as_json, as_text, as_yaml, overview
from endpointd.cli.readiness import unsettled
from endpointd.cli.run import CONTROLLERS
from endpointd.cli.run_settings import RunSettings
from tinykube.cli.local_cluster import ClusterSettings, LocalCluster, local_cluster

if TYPE_CHECKING:
    from rich.console import Console

_CHECK_SECONDS = 0.3
_SETTLED_CHECKS = 2
_MAX_CHECKS = 50
_REDRAW_SECONDS = 0.5


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``endpointd up``."""

    cluster: ClusterSettings
    with_controllers: bool
    once: bool
    timeout_seconds: float
    output: str


class NotSettledError(Exception):
    """The cluster was not settled in time; the text lists the unsettled objects."""


async def run_up(settings: UpSettings) -> None:
    """Run everything until a signal, or with ``once`` until the settled table is printed.

    Raises :class:`NotSettledError`, and :class:`~tinykube.cli.embedded.CannotServeError` if the server
    rejects manifests.
    """
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with local_cluster(settings.cluster, SystemClock()) as cluster:
            if not settings.once:
                click.echo("\n".join(cluster.notes))
            await _run(settings, cluster, stop)


async def _run(settings: UpSettings, cluster: LocalCluster, stop: asyncio.Event) -> None:
    simulation = settings.cluster.simulation
    client, clock = cluster.client, cluster.clock
    rng = random.Random(simulation.seed if simulation else None)  # noqa: S311 - jitter, no secret
    board = Board(client, clock, rng)
    async with asyncio.TaskGroup() as group:
        # These tasks are stopped after all others have ended or failed.
        running: list[asyncio.Task[Any]] = [group.create_task(cluster.simulate(stop), name="simulation")]
        if settings.with_controllers:
            manager = Assembly(RunSettings(kubeconfig="", controllers=CONTROLLERS), client, clock).manager()
            running.append(group.create_task(manager.run(stop), name="controllers"))
        watching = group.create_task(board.run(), name="view")
        try:
            # The output of --once is for programs: everything else goes to standard error.
            await cluster.apply(to_stderr=settings.once)
            await board.wait_synced()
            if settings.once:
                await _settle(settings, client, clock, stop)
                click.echo(_printed(await board.settled_view(), settings.output))
            else:
                await _show(settings, board, client, clock, stop, cluster.notes)
        finally:
            stop.set()
            await asyncio.gather(*running, return_exceptions=True)
            watching.cancel()


async def _settle(settings: UpSettings, client: Client, clock: Clock, stop: asyncio.Event) -> None:
    """Wait until two checks in a row find nothing unsettled."""
    deadline = clock.monotonic() + settings.timeout_seconds
    quiet = 0
    while quiet < _SETTLED_CHECKS and not stop.is_set():
        began = clock.monotonic()
        left = await unsettled(
            client,
            with_workloads=settings.cluster.simulation is not None,
            with_slices=settings.with_controllers,
        )
        quiet = 0 if left else quiet + 1
        if left and clock.monotonic() > deadline:
            shown = "\n  ".join(left[:20])
            raise NotSettledError(
                f"not settled after {settings.timeout_seconds:g} s:\n  {shown}"
                + (f"\n  and {len(left) - 20} more" if len(left) > 20 else "")
            )
        with contextlib.suppress(TimeoutError):
            # Checking takes CPU time from the simulation and the controllers: spend at most a quarter of it.
            async with asyncio.timeout(max(_CHECK_SECONDS, 3 * (clock.monotonic() - began))):
                await stop.wait()


def _printed(found: Overview, output: str) -> str:
    return {"json": as_json, "yaml": as_yaml}.get(output, as_text)(found)


async def _show(
    settings: UpSettings,
    board: "Board",
    client: Client,
    clock: Clock,
    stop: asyncio.Event,
    notes: Sequence[str],
) -> None:
    """Keep the table on the screen of a terminal; otherwise print it once when settled."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        await _show_live(console, board, stop, notes)
        return
    try:
        await _settle(settings, client, clock, stop)
    except NotSettledError as error:
        click.echo(f"{error}", err=True)
    click.echo(as_text(await board.settled_view()))
    await stop.wait()


async def _show_live(console: "Console", board: "Board", stop: asyncio.Event, notes: Sequence[str]) -> None:
    """Redraw the table when data, scroll position or terminal size change."""
    from rich.live import Live

    from endpointd.cli.live_table import Scroll, keyboard, parse_keys, screen

    loop = asyncio.get_running_loop()
    scroll = Scroll()
    redraw = asyncio.Event()

    def typed(keys: bytes) -> None:
        nonlocal scroll
        if not keys:  # the terminal is closed
            loop.remove_reader(sys.stdin.fileno())
        for command in parse_keys(keys):
            if command == "quit":
                stop.set()
            scroll = scroll.moved(command)
        redraw.set()

    with (
        Live(console=console, auto_refresh=False, screen=True) as live,
        keyboard(loop.add_reader, typed) as reads,
    ):
        loop.add_signal_handler(signal.SIGWINCH, redraw.set)
        try:
            while not stop.is_set():
                redraw.clear()
                shown, scroll = screen(board.view(), scroll, notes, *console.size)
                live.update(shown, refresh=True)
                while not (stop.is_set() or redraw.is_set() or board.take_changed()):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_REDRAW_SECONDS):
                            await redraw.wait()
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            if reads:
                loop.remove_reader(sys.stdin.fileno())


class Board:
    """The current services and slices, with a flag for changes."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._services = Informer(client.source(SERVICES), name="services", clock=clock, rng=rng)
        self._slices = Informer(client.source(ENDPOINT_SLICES), name="endpointslices", clock=clock, rng=rng)
        self._changed = True
        self._services.add_handler(self._note)
        self._slices.add_handler(self._note)

    def _note(self, old: Any, new: Any) -> None:
        self._changed = True

    async def run(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._services.run(), name="view of services")
            group.create_task(self._slices.run(), name="view of slices")

    async def wait_synced(self) -> None:
        """Wait until both caches have synced."""
        await self._services.wait_synced()
        await self._slices.wait_synced()

    def take_changed(self) -> bool:
        """Return whether anything has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def view(self) -> Overview:
        """Return the current table."""
        return overview(self._services.lister.values(), self._slices.lister.values())

    async def settled_view(self) -> Overview:
        """Return the table once it has stopped changing for a moment, so that the watch has delivered the settled state."""
        self.take_changed()
        for _ in range(_MAX_CHECKS):
            await self._clock.sleep(_CHECK_SECONDS / 3)
            if not self.take_changed():
                break
        return self.view()
