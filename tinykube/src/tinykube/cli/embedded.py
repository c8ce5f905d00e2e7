"""The API server inside a command: checked settings, a kubeconfig, one-line errors."""

import asyncio
import contextlib
import errno
import gc
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from aiokube.runtime.shutdown import stop_on_signals
from tinykube.cli.own_kubeconfig import KubeconfigTakenError, claim_kubeconfig
from tinykube.server.api_server import ApiServer
from tinykube.server.http.pod_logs import LogSource
from tinykube.server.registry.builtin import RegistrySettings, builtin_registry
from tinykube.server.settings import ServerSettings, SettingsError, is_loopback
from tinykube.server.storage.model import StorageOpenError

_ADDRESS_ERRORS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
_OPEN_FILES = 65_536
_COLLECTION_THRESHOLDS = (50_000, 20, 100)


class CannotServeError(click.ClickException):
    """The server cannot start: one line, exit code 2."""

    exit_code = 2


def check_settings(settings: ServerSettings) -> None:
    """Raise ``click.UsageError`` for invalid settings."""
    try:
        if not settings.allow_remote and not is_loopback(settings.host):
            raise SettingsError(
                f"--bind-address {settings.host} is reachable from other machines, and the token grants full access: "
                "choose a loopback address such as 127.0.0.1, or add --allow-remote"
            )
        settings.check()
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Convert errors that prevent the start to one line and exit code 2."""
    try:
        yield
    except* (CannotServeError, KubeconfigTakenError) as group:  # task groups wrap them
        raise first_of(group) from None
    except* StorageOpenError as group:
        raise CannotServeError(f"--data-dir: {first_of(group)}") from group
    except* SettingsError as group:
        raise CannotServeError(str(first_of(group))) from group
    except* OSError as group:
        raise CannotServeError(_os_problem(group)) from group


@contextlib.asynccontextmanager
async def embedded_server(
    settings: ServerSettings,
    kubeconfig: Path | None,
    pod_logs: LogSource | None = None,
    *,
    program: str = "tinykube",
) -> AsyncIterator[tuple[ApiServer, Path]]:
    """Run a server for a block; yield it and the path of its kubeconfig (mode 0600).

    If ``kubeconfig`` is None, a free file name is chosen. The file is removed at the end of the block.
    """
    _allow_open_files()
    settings = replace(settings, user=f"{program}-admin", cluster_name=program)
    registry = builtin_registry(RegistrySettings())
    with claim_kubeconfig(kubeconfig, program) as own:
        async with (
            _listening(ApiServer(settings, registry, pod_logs=pod_logs), settings) as server,
            _few_collections(),
        ):
            own.write(server.kubeconfig())
            yield server, own.path


def _allow_open_files() -> None:
    """Raise the soft limit of open files to the hard limit, as Go programs do: each client needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.asynccontextmanager
async def _listening(server: ApiServer, settings: ServerSettings) -> AsyncIterator[ApiServer]:
    try:
        await server.__aenter__()
    except OSError as error:
        if error.errno not in _ADDRESS_ERRORS:
            raise
        raise CannotServeError(_address_problem(error, settings)) from error
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_exit(server)
        yield server


def _address_problem(error: OSError, settings: ServerSettings) -> str:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot serve on {where}: this machine has no such address; choose another --bind-address"
    if error.errno == errno.EACCES:
        return f"cannot serve on {where}: ports below 1024 require privileges; choose another --port"
    return (
        f"cannot serve on {where}: the port is in use; choose another --port (0 picks a free one), or stop the "
        "process that listens there"
    )


@contextlib.asynccontextmanager
async def _few_collections() -> AsyncIterator[None]:
    """Run the garbage collector rarely, and exclude objects created at start-up: few objects here form cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def serve_until_signal(
    settings: ServerSettings,
    kubeconfig: Path | None,
    *,
    program: str = "tinykube",
    prepare: Callable[[ApiServer], None] = lambda server: None,
) -> None:
    """Call ``prepare``, serve until SIGTERM or SIGINT; print the URL and the kubeconfig to export."""
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with embedded_server(settings, kubeconfig, program=program) as (server, written):
            prepare(server)
            click.echo(f"serving the Kubernetes API at {server.url}")
            click.echo(f"  {how_to_reach(written)}")
            await stop.wait()


def how_to_reach(kubeconfig: Path) -> str:
    """Return the shell command that points kubectl at the server."""
    return f"export KUBECONFIG={kubeconfig.absolute()}"


def first_of(error: BaseException) -> BaseException:
    """Return the first leaf error of a (nested) exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _os_problem(group: BaseExceptionGroup[Any]) -> str:
    error = first_of(group)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror or error}"
    return f"{error}"
