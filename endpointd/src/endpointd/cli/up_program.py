"""What ``endpointd up`` is made of: the server, what runs pods, the controllers, and a view of it, in one task group."""

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

_LOOK_SECONDS = 0.3
_LOOKS_IN_A_ROW = 2
_MOST_LOOKS = 50
_REDRAW_SECONDS = 0.5


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``endpointd up``."""

    cluster: ClusterSettings
    with_controllers: bool
    once: bool
    timeout_seconds: float
    output: str


class NotSettledError(Exception):
    """It was not all settled in time; the text names what is not."""


async def run_up(settings: UpSettings) -> None:
    """Run everything until a signal; with ``once`` until all is settled and printed.

    Raises :class:`NotSettledError`, and :class:`~tinykube.cli.embedded.CannotServeError` if the server refuses manifests.
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
        # These tasks are told to stop once the rest has ended or failed.
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
    """Wait until nothing is left to be done, seen so twice in a row."""
    deadline = clock.monotonic() + settings.timeout_seconds
    quiet = 0
    while quiet < _LOOKS_IN_A_ROW and not stop.is_set():
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
                f"after {settings.timeout_seconds:g} s this is not settled:\n  {shown}"
                + (f"\n  and {len(left) - 20} more" if len(left) > 20 else "")
            )
        with contextlib.suppress(TimeoutError):
            # Looking takes time from those who are to settle: at most a quarter of it.
            async with asyncio.timeout(max(_LOOK_SECONDS, 3 * (clock.monotonic() - began))):
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
    """Keep the table on the screen of a terminal; print it once, settled, elsewhere."""
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
    """Redraw the table when something has changed, a key was pressed or the terminal was resized."""
    from rich.live import Live

    from endpointd.cli.live_table import Scroll, keyboard, parse_keys, screen

    loop = asyncio.get_running_loop()
    scroll = Scroll()
    redraw = asyncio.Event()

    def typed(keys: bytes) -> None:
        nonlocal scroll
        if not keys:  # the terminal is gone
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
    """Services and slices as they are now, and whether that is news."""

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
        """Keep it up to date; for as long as it is not cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._services.run(), name="view of services")
            group.create_task(self._slices.run(), name="view of slices")

    async def wait_synced(self) -> None:
        """Wait until everything has been read once."""
        await self._services.wait_synced()
        await self._slices.wait_synced()

    def take_changed(self) -> bool:
        """Tell whether anything has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def view(self) -> Overview:
        """Return the table as of now."""
        return overview(self._services.lister.values(), self._slices.lister.values())

    async def settled_view(self) -> Overview:
        """Return the table once it has stopped changing for a moment: what was settled has then come through the watch."""
        self.take_changed()
        for _ in range(_MOST_LOOKS):
            await self._clock.sleep(_LOOK_SECONDS / 3)
            if not self.take_changed():
                break
        return self.view()
