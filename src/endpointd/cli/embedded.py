"""The embedded API server as a command starts it: its settings checked, its kubeconfig written, its failures in a line."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import click

from endpointd.apiserver.registry.builtin import RegistrySettings, builtin_registry
from endpointd.apiserver.server import ApiServer
from endpointd.apiserver.settings import ServerSettings, SettingsError
from endpointd.apiserver.storage.model import StorageOpenError
from endpointd.runtime.shutdown import stop_on_signals

_COLLECTION_THRESHOLDS = (50_000, 20, 100)


class CannotServeError(click.ClickException):
    """The server cannot start: one line, exit code 2."""

    exit_code = 2


def check_settings(settings: ServerSettings) -> None:
    """Refuse settings that cannot be, as a mistake of the command line."""
    try:
        settings.check()
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Turn what keeps a server from starting into one line and exit code 2."""
    try:
        yield
    except* CannotServeError as group:  # as it is, out of the tasks it came through
        raise first_of(group) from None
    except* (StorageOpenError, SettingsError) as group:
        raise CannotServeError(str(first_of(group))) from group
    except* OSError as group:
        raise CannotServeError(_os_problem(group)) from group


@contextlib.asynccontextmanager
async def embedded_server(settings: ServerSettings, kubeconfig: Path) -> AsyncIterator[ApiServer]:
    """Run a server for as long as the block lasts, with its kubeconfig in a file that only its owner may read."""
    registry = builtin_registry(RegistrySettings())
    async with ApiServer(settings, registry) as server, _few_collections():
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        server.write_kubeconfig(kubeconfig)
        yield server


@contextlib.asynccontextmanager
async def _few_collections() -> AsyncIterator[None]:
    """Let the garbage collector look seldom, and never at what was there before: hardly anything here is in a cycle."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def serve_until_told(settings: ServerSettings, kubeconfig: Path) -> None:
    """Serve until SIGTERM or SIGINT, and say how to get at it."""
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with embedded_server(settings, kubeconfig) as server:
            click.echo(f"serving the Kubernetes API at {server.url}")
            click.echo(f"  {how_to_reach(kubeconfig)}")
            await stop.wait()


def how_to_reach(kubeconfig: Path) -> str:
    """Return the line that points kubectl at the server."""
    return f"export KUBECONFIG={kubeconfig.absolute()}"


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group, however deep."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _os_problem(group: BaseExceptionGroup[Any]) -> str:
    error = first_of(group)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror or error}"
    return f"{error}"
