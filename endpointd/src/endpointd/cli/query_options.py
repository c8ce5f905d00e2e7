"""What the commands that ask have in common: which cluster or which files, and how the answer is written."""

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


class CannotAskError(click.ClickException):
    """The cluster or the files cannot be read: exit code 2. A message is one line, or one for each manifest refused."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__("\n".join(map(printable, message.split("\n"))))


class Query(msgspec.Struct, frozen=True):
    """Where to look, as the options say."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    """``""`` where none is named: the context's namespace."""
    files: tuple[str, ...] = ()
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        """Refuse options that exclude each other."""
        if self.all_namespaces and self.namespace:
            raise click.UsageError("--all-namespaces and --namespace exclude each other")


class Source(Protocol):
    """A cluster, or files: what is asked."""

    @property
    def default_namespace(self) -> str:
        """The namespace to look at when none is named."""

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster: there, what could not be read is forbidden; files just do not have it."""

    async def snapshot(self, namespace: str, *, also: ObjectKey | None = None) -> Snapshot:
        """Return a namespace, all of them for ``""``. Raises :class:`CannotAskError` where there is no such namespace."""

    async def events(self, pods: Iterable[ObjectKey]) -> Sequence[Event]:
        """Return the Events of some pods."""

    async def namespaces_with(self, kind: str, name: str) -> list[str]:
        """Return the namespaces that have a ``pod`` or ``service`` of a name, as far as that can be read."""


def cluster_options(command: F) -> F:
    """Add the options that say where to look."""
    for option in (
        click.option(
            "-f",
            "--filename",
            multiple=True,
            metavar="FILE|DIR|-",
            help="Look at these manifests (kubectl get -o yaml) instead of a cluster.",
        ),
        click.option(
            "-n", "--namespace", default="", metavar="NAME", help="Namespace; without it that of the context."
        ),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig."),
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="Cluster and credentials; $KUBECONFIG or ~/.kube/config without.",
        ),
    ):
        command = option(command)
    return command


def scope_options(command: F) -> F:
    """Add the options that say how much of a cluster is looked at, and how its controller is set."""
    for option in (
        click.option(
            "--max-endpoints-per-slice",
            type=click.IntRange(1, 1000),
            default=100,
            show_default=True,
            metavar="N",
            help="As the controller in the cluster has it.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Look at all namespaces."),
    ):
        command = option(command)
    return command


def scope(query: Query, source: Source) -> str:
    """Return the namespace to look at, ``""`` for all of them: files are looked at whole unless a namespace is named."""
    if query.all_namespaces or (query.files and not query.namespace):
        return ""
    return query.namespace or source.default_namespace


def output_option(command: F) -> F:
    """Add ``-o``."""
    return _output_option(["text", "json", "yaml"])(command)


def wide_output_option(command: F) -> F:
    """Add ``-o`` with ``wide``: a line for every pod."""
    return _output_option(["text", "wide", "json", "yaml"])(command)


def _output_option(choices: Sequence[str]) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default="text",
        show_default=True,
        help="For people, or for programs.",
    )


def answer(query: Query, work: Callable[[Source], Awaitable[R]], *, is_single: bool = True) -> R:
    """Open the cluster or the files, and return what ``work`` makes of them; ``is_single`` unless it goes on asking.

    Raises :class:`CannotAskError` with one clear line where they cannot be read.
    """
    was_enabled = gc.isenabled()
    if is_single:
        gc.disable()  # a tenth of the time would go to looking for cycles among the objects read, which all stay
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
        raise CannotAskError(str(first)) from error


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
                raise CannotAskError(_no_namespace(namespace, names))
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
    """What some files hold of a cluster."""

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
            raise CannotAskError(
                f"the files have nothing in namespace {namespace}, only in {', '.join(sorted(namespaces)[:5])}"
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
        raise CannotAskError(str(error)) from error
    if not snapshot.services and not snapshot.slices and not snapshot.endpoints:
        raise CannotAskError(
            "the files have no Service, Endpoints or EndpointSlice: there is nothing to look at"
        )
    return _Files(snapshot)


def _no_namespace(namespace: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(namespace, list(names), n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return f"there is no namespace {namespace}{hint}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def style_of_terminal() -> Style:
    """Return how to print to standard output: in colours and to its width where it is a terminal."""
    import shutil

    width = shutil.get_terminal_size((100, 24)).columns
    return Style(colours=sys.stdout.isatty(), width=min(width, 140))


_CONTROL = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")
"""What JSON leaves as it is in a string, and a terminal may act on."""


def print_structured(value: Any, output: str) -> None:
    """Print builtins as JSON or YAML, with every character escaped that a terminal might act on."""
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        click.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
        return
    import yaml

    text = str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    if _CONTROL.search(text):
        text = str(yaml.safe_dump(value, sort_keys=False, allow_unicode=False))
    click.echo(text, nl=False)
