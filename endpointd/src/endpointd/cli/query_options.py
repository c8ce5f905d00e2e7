"""Options shared by explain, check and diff: the cluster or files to read, and the output format."""

import asyncio
import difflib
import gc
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import click
import msgspec

from aiokube.api.events import Event
from aiokube.api.meta import KubernetesObject, ObjectKey
from aiokube.api.printable import printable
from aiokube.client.manifests import ManifestError, read_manifests
from aiokube.clock import SystemClock
from endpointd import __version__
from endpointd.diagnose.snapshot import Snapshot
from endpointd.diagnose.style import Style

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


class QueryError(click.ClickException):
    """The cluster or the files cannot be read: exit code 2.

    The message has one line, or one for each rejected manifest.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(printable, message.split("\n"))))


class Query(msgspec.Struct, frozen=True):
    """The cluster or files to read, from the options."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    """``""`` for the context's namespace."""
    files: tuple[str, ...] = ()
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        """Reject options that exclude each other."""
        if self.all_namespaces and self.namespace:
            raise click.UsageError("--all-namespaces and --namespace are mutually exclusive")


class Source(Protocol):
    """The source of a snapshot: a cluster or files."""

    @property
    def default_namespace(self) -> str:
        """The namespace to use if none is given."""

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster, where an unreadable collection is forbidden; files just lack it."""

    async def snapshot(self, namespace: str, *, also: ObjectKey | None = None) -> Snapshot:
        """Return one namespace, or all for ``""``.

        Raises :class:`QueryError` if the namespace does not exist.
        """

    async def events(self, pods: Iterable[ObjectKey]) -> Sequence[Event]:
        """Return the Events of some pods."""

    async def namespaces_with(self, kind: str, name: str) -> list[str]:
        """Return the readable namespaces that have a ``pod`` or ``service`` with this name."""


def cluster_options(command: F) -> F:
    """Add the options that select the cluster or files."""
    for option in (
        click.option(
            "-f",
            "--filename",
            multiple=True,
            metavar="FILE|DIR|-",
            help="Read these manifests (kubectl get -o yaml) instead of a cluster.",
        ),
        click.option(
            "-n",
            "--namespace",
            default="",
            metavar="NAME",
            help="Namespace; default: the context's namespace.",
        ),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig."),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="Kubeconfig file. Default: $KUBECONFIG, then ~/.kube/config.",
        ),
    ):
        command = option(command)
    return command


def scope_options(command: F) -> F:
    """Add the options that select namespaces and describe the cluster's controller."""
    for option in (
        click.option(
            "--max-endpoints-per-slice",
            type=click.IntRange(1, 1000),
            default=100,
            show_default=True,
            metavar="N",
            help="The setting of the cluster's controller.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Read all namespaces."),
    ):
        command = option(command)
    return command


def scope(query: Query, source: Source) -> str:
    """Return the namespace to read, or ``""`` for all.

    Files are read completely unless a namespace is given.
    """
    if query.all_namespaces or (query.files and not query.namespace):
        return ""
    return query.namespace or source.default_namespace


def output_option(command: F) -> F:
    """Add ``-o``."""
    return _output_option(["text", "json", "yaml"])(command)


def wide_output_option(command: F) -> F:
    """Add ``-o`` with ``wide``: one line per pod."""
    return _output_option(["text", "wide", "json", "yaml"])(command)


def _output_option(choices: Sequence[str]) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default="text",
        show_default=True,
        help="Output format.",
    )


def answer(query: Query, work: Callable[[Source], Awaitable[R]], *, is_single: bool = True) -> R:
    """Open the cluster or the files and return the result of ``work``.

    Set ``is_single`` to False if ``work`` repeats queries.

    Raises :class:`QueryError` with one clear line if they cannot be read.
    """
    was_enabled = gc.isenabled()
    if is_single:
        gc.disable()  # collection would take a tenth of the time, and all objects read stay alive anyway
    try:
        return asyncio.run(_answer(query, work))
    finally:
        if was_enabled:
            gc.enable()


async def _answer(query: Query, work: Callable[[Source], Awaitable[R]]) -> R:
    if query.files:
        return await work(_open_files(query.files))
    from aiokube.client.errors import ClientError
    from aiokube.client.load_config import load_config
    from aiokube.client.rest import Client

    clock = SystemClock()
    try:
        config = load_config(query.kubeconfig, query.context, clock=clock)
        async with Client.from_config(config, clock=clock, user_agent=f"endpointd/{__version__}") as client:
            return await work(_Cluster(client, config.namespace))
    except (ClientError, BaseExceptionGroup) as error:
        first = _first(error)
        if not isinstance(first, ClientError):
            raise
        raise QueryError(str(first)) from error


class _Cluster:
    """A cluster behind an API server."""

    is_cluster = True

    def __init__(self, client: Any, default_namespace: str) -> None:
        self._client = client
        self.default_namespace = default_namespace or "default"

    async def snapshot(self, namespace: str, *, also: ObjectKey | None = None) -> Snapshot:
        from endpointd.cli.cluster_snapshot import namespace_names, read_cluster

        if namespace:
            names = await namespace_names(self._client, namespace)
            if names is not None:
                raise QueryError(_no_namespace(namespace, names))
        return await read_cluster(self._client, namespace, details=True, also=also)

    async def events(self, pods: Iterable[ObjectKey]) -> Sequence[Event]:
        from endpointd.cli.cluster_snapshot import read_events

        return await read_events(self._client, pods)

    async def namespaces_with(self, kind: str, name: str) -> list[str]:
        from aiokube.api.core import PODS, SERVICES
        from endpointd.cli.cluster_snapshot import namespaces_with

        resource: Any = {"pod": PODS, "service": SERVICES}[kind]
        return await namespaces_with(self._client, resource, name)


class _Files:
    """The part of a cluster that some files contain."""

    is_cluster = False
    default_namespace = "default"

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    async def snapshot(self, namespace: str, *, also: ObjectKey | None = None) -> Snapshot:
        whole: Snapshot = self._snapshot
        if not namespace:
            return whole
        items: list[KubernetesObject] = [*whole.services, *whole.pods, *whole.slices]
        namespaces = {item.metadata.namespace for item in items}
        if namespace not in namespaces:
            raise QueryError(
                f"the files have no objects in namespace {namespace}, only in {', '.join(sorted(namespaces)[:5])}"
            )

        def inside(items: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(
                one for one in items if one.metadata.namespace == namespace or one.metadata.key == also
            )

        fields = ("services", "pods", "endpoints", "slices", "details")
        kept: dict[str, Any] = {field: inside(getattr(whole, field)) for field in fields}
        return msgspec.structs.replace(whole, namespace=namespace, **kept)

    async def events(self, pods: Iterable[ObjectKey]) -> Sequence[Event]:
        return self._snapshot.events

    async def namespaces_with(self, kind: str, name: str) -> list[str]:
        items: Iterable[Any] = self._snapshot.pods if kind == "pod" else self._snapshot.services
        return sorted({one.metadata.namespace for one in items if one.metadata.name == name})


def _open_files(files: tuple[str, ...]) -> _Files:
    from endpointd.cli.cluster_snapshot import snapshot_of

    try:
        snapshot = snapshot_of(read_manifests(files), is_complete=False)
    except ManifestError as error:
        raise QueryError(str(error)) from error
    if not snapshot.services and not snapshot.slices and not snapshot.endpoints:
        raise QueryError("the files contain no Service, Endpoints or EndpointSlice")
    return _Files(snapshot)


def _no_namespace(namespace: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(namespace, list(names), n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return f"namespace {namespace} not found{hint}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def style_of_terminal() -> Style:
    """Return the style for standard output: coloured and as wide as the terminal, if it is one."""
    import shutil

    width = shutil.get_terminal_size((100, 24)).columns
    return Style(colours=sys.stdout.isatty(), width=min(width, 140))


_CONTROL = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")
"""Characters that JSON strings may contain unescaped and that a terminal may interpret."""


def print_structured(value: Any, output: str) -> None:
    """Print builtins as JSON or YAML, and escape every character that a terminal might interpret."""
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        click.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
        return
    import yaml

    text = str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    if _CONTROL.search(text):
        text = str(yaml.safe_dump(value, sort_keys=False, allow_unicode=False))
    click.echo(text, nl=False)
