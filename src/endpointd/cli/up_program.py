"""What ``endpointd up`` is made of: the server, what runs pods, the controllers, and a view of it, in one task group."""

import asyncio
import contextlib
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from endpointd import __version__
from endpointd.api.core import SERVICES
from endpointd.api.discovery import ENDPOINT_SLICES
from endpointd.apiserver.registry.stored import STORED_KINDS
from endpointd.apiserver.settings import ServerSettings
from endpointd.cli.applying import Applied, RefusedError, apply_manifests
from endpointd.cli.assembly import Assembly
from endpointd.cli.embedded import CannotServeError, embedded_server, how_to_reach
from endpointd.cli.manifests import Manifest
from endpointd.cli.overview import Overview, as_json, as_text, as_yaml, overview
from endpointd.cli.run import CONTROLLERS
from endpointd.cli.run_settings import RunSettings
from endpointd.cli.settling import unsettled
from endpointd.client.discover import load_config
from endpointd.client.rest import Client
from endpointd.clock import Clock, SystemClock
from endpointd.runtime.informer import Informer
from endpointd.runtime.shutdown import stop_on_signals
from endpointd.simulate.pod_log import simulated_log
from endpointd.simulate.settings import SimulateSettings
from endpointd.simulate.simulation import run_simulation

if TYPE_CHECKING:
    from rich.console import Console

_LOOK_SECONDS = 0.3
_LOOKS_IN_A_ROW = 2
_MOST_LOOKS = 50
_REDRAW_SECONDS = 0.5


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``endpointd up`` was asked for. ``simulation`` None runs no pods."""

    server: ServerSettings
    simulation: SimulateSettings | None
    with_controllers: bool
    kubeconfig: Path | None
    """Where it is written; None leaves the place to us."""
    once: bool
    timeout_seconds: float
    output: str
    skip_unknown: bool


class NotSettledError(Exception):
    """It was not all settled in time; the text names what is not."""


async def run_up(settings: UpSettings, manifests: Sequence[Manifest]) -> None:
    """Run everything until a signal; with ``once`` until all is settled and printed.

    Raises :class:`NotSettledError`, and :class:`~endpointd.cli.embedded.CannotServeError` where manifests are refused.
    """
    clock = SystemClock()
    stop = asyncio.Event()
    with stop_on_signals(stop):
        pod_logs = simulated_log if settings.simulation is not None else None
        async with embedded_server(settings.server, settings.kubeconfig, pod_logs) as (server, kubeconfig):
            notes = (f"the Kubernetes API is at {server.url}; to use it:", f"  {how_to_reach(kubeconfig)}")
            if not settings.once:
                click.echo("\n".join(notes))
            config = load_config(str(kubeconfig), clock=clock)
            async with Client.from_config(
                config, clock=clock, user_agent=f"endpointd/{__version__}"
            ) as client:
                await _run(settings, manifests, client, clock, stop, notes)


async def _run(
    settings: UpSettings,
    manifests: Sequence[Manifest],
    client: Client,
    clock: Clock,
    stop: asyncio.Event,
    notes: Sequence[str],
) -> None:
    rng = random.Random(settings.simulation.seed if settings.simulation else None)  # noqa: S311 - jitter, no secret
    board = Board(client, clock, rng)
    async with asyncio.TaskGroup() as group:
        # What keeps running is told to stop once the rest is done, or has failed.
        running = []
        if settings.with_controllers:
            manager = Assembly(RunSettings(kubeconfig="", controllers=CONTROLLERS), client, clock).manager()
            running.append(group.create_task(manager.run(stop), name="controllers"))
        if settings.simulation is not None:
            simulation = run_simulation(client, settings.simulation, stop, clock=clock)
            running.append(group.create_task(simulation, name="simulation"))
        watching = group.create_task(board.run(), name="view")
        try:
            await _apply(client, manifests, settings)
            await board.wait_synced()
            if settings.once:
                await _settle(settings, client, clock, stop)
                click.echo(_printed(await board.settled_view(), settings.output))
            else:
                await _show(settings, board, client, clock, stop, notes)
        finally:
            stop.set()
            await asyncio.gather(*running, return_exceptions=True)
            watching.cancel()


async def _apply(client: Client, manifests: Sequence[Manifest], settings: UpSettings) -> None:
    if not manifests:
        return
    try:
        applied = await apply_manifests(client, manifests, skip_unknown=settings.skip_unknown)
    except RefusedError as error:
        raise CannotServeError(_refused(error)) from error
    # What --once prints is for programs: all else goes to standard error.
    for line in _summary(applied):
        click.echo(line, err=settings.once)


def _summary(applied: Sequence[Applied]) -> Iterator[str]:
    """Say what was done, and what has no effect here."""
    counts = Counter(one.outcome for one in applied)
    yield ", ".join(
        f"{count} {'object' if count == 1 else 'objects'} {outcome}" for outcome, count in counts.items()
    )
    for one in applied:
        if one.outcome == "skipped":
            yield f"skipped: {one.manifest}: the server does not serve {one.manifest.api_version} {one.manifest.kind}"
    stored = {(one.kind, one.api_version) for one in STORED_KINDS}
    idle = Counter(
        one.manifest.kind for one in applied if (one.manifest.kind, one.manifest.api_version) in stored
    )
    if idle:
        yield f"stored, but nothing here acts on them: {', '.join(f'{count} {kind}' for kind, count in idle.items())}"


def _refused(error: RefusedError) -> str:
    lines = ["the manifests are refused:", *(f"  {refusal}" for refusal in error.refusals)]
    if error.applied:
        done: Sequence[Applied] = error.applied
        lines.append(f"applied before that: {', '.join(str(one.manifest) for one in done)}")
        lines.append(f"not applied: {', '.join(map(str, error.left)) or 'nothing else'}")
    else:
        lines.append("nothing was applied")
    if any(refusal.unknown_kind for refusal in error.refusals):
        lines.append("Add --skip-unknown to leave out the kinds that the server does not know.")
    return "\n".join(lines)


async def _settle(settings: UpSettings, client: Client, clock: Clock, stop: asyncio.Event) -> None:
    """Wait until nothing is left to be done, seen so twice in a row."""
    deadline = clock.monotonic() + settings.timeout_seconds
    quiet = 0
    while quiet < _LOOKS_IN_A_ROW and not stop.is_set():
        began = clock.monotonic()
        left = await unsettled(
            client, with_workloads=settings.simulation is not None, with_slices=settings.with_controllers
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
