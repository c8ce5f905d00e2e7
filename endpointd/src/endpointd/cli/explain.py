"""``endpointd explain``: why a pod is, or is not, in a service."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.clock import SystemClock
from endpointd.cli.query_options import (
    Query,
    QueryError,
    Source,
    answer,
    cluster_options,
    print_structured,
    style_of_terminal,
    wide_output_option,
)

_SERVICE_WORDS = ("service", "services", "svc")
_POD_WORDS = ("pod", "pods", "po")
_WATCH_SECONDS = 2.0
_MAX_PODS_WITH_EVENTS = 8


class _ExplainGroup(click.Group):
    """Accepts ``svc NAME``, ``svc/NAME`` and ``pod/NAME``, as kubectl does."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a resource, written with a space or a slash."""
        word, slash, rest = args[0].partition("/")
        for words, name in ((_SERVICE_WORDS, "service"), (_POD_WORDS, "pod")):
            if word in words:
                return name, self.get_command(ctx, name), [*([rest] if slash else []), *args[1:]]
        return super().resolve_command(ctx, args)


@click.group(cls=_ExplainGroup)
def explain() -> None:
    """Explain a service or pod: ``explain service NAME``, ``explain pod NAME``, also svc/NAME and pod/NAME."""


_all_namespaces_option = click.option(
    "-A", "--all-namespaces", is_flag=True, help="Explain the services of all namespaces."
)
_watch_option = click.option("-w", "--watch", is_flag=True, help="Print again when the result changes.")


@explain.command("service")
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False, default="")
@click.option(
    "--pod",
    default="",
    metavar="[NAMESPACE/]POD",
    help="Explain only this pod, even if it is unrelated to the service.",
)
@_all_namespaces_option
@_watch_option
@cluster_options
@wide_output_option
def service(
    name: str,
    pod: str,
    all_namespaces: bool,
    watch: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
    filename: tuple[str, ...],
    output: str,
) -> None:
    """Explain for each pod near a service whether it is included, in which slice, and why.

    Without a name: one line per service.

    Near pods are those that the service selects, that its slices publish, or whose labels nearly match. Needs
    permission to list pods and services; uses nodes, endpoints and endpointslices if it can read them. With
    -f it reads files instead of a cluster.
    """
    query = Query(kubeconfig, context, namespace, filename, all_namespaces)
    if not name:
        _print(query, lambda source: _all_services(source, query), output, watch=watch)
        return
    if all_namespaces:
        raise click.UsageError("--all-namespaces explains all services: omit the name")
    _print(query, lambda source: _one_service(source, query, name, pod), output, watch=watch)


@explain.command("pod")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@_watch_option
@cluster_options
@wide_output_option
def pod_command(
    name: str,
    watch: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
    filename: tuple[str, ...],
    output: str,
) -> None:
    """List the services that select a pod or nearly do, and what keeps the pod out of each."""
    query = Query(kubeconfig, context, namespace, filename)
    _print(query, lambda source: _one_pod(source, query, name), output, watch=watch)


class _Answer(msgspec.Struct, frozen=True):
    """A result, for programs and for people."""

    value: Any
    text: Callable[[Any], str]
    """Renders the page in a style."""
    wide: Callable[[Any], str]


async def _one_service(source: Source, query: Query, name: str, pod: str) -> _Answer:
    from endpointd.diagnose.explain import NotFoundError, explain_service, with_events
    from endpointd.diagnose.snapshot import ClusterIndex
    from endpointd.diagnose.text import grouped, service_text

    key = _key(name, query.namespace, source)
    pod_key = _key(pod, "", source, key.namespace) if pod else None
    other_namespace_pod = pod_key if pod_key is not None and pod_key.namespace != key.namespace else None
    index = ClusterIndex(await source.snapshot(key.namespace, also=other_namespace_pod))
    try:
        found = explain_service(index, key, SystemClock().wall(), pod=pod_key)
    except NotFoundError as error:
        raise await _not_found(source, error) from error
    pods_with_problems = [
        group.example.key
        for group in grouped(found.pods)
        if any(reason.weight != "note" for reason in group.example.reasons)
    ]
    found = with_events(found, await source.events(pods_with_problems[:_MAX_PODS_WITH_EVENTS]))
    return _Answer(
        found,
        lambda style: service_text(found, style),
        lambda style: service_text(found, style, wide=True),
    )


async def _all_services(source: Source, query: Query) -> _Answer:
    from endpointd.cli.query_options import scope
    from endpointd.diagnose.explain import explain_service
    from endpointd.diagnose.snapshot import ClusterIndex
    from endpointd.diagnose.text import services_text

    index = ClusterIndex(await source.snapshot(scope(query, source)))
    now = SystemClock().wall()
    keys = sorted(service.metadata.key for service in index.services.values())
    found = [explain_service(index, key, now) for key in keys]
    return _Answer(
        found, lambda style: services_text(found, style), lambda style: services_text(found, style)
    )


async def _one_pod(source: Source, query: Query, name: str) -> _Answer:
    from endpointd.diagnose.explain import NotFoundError, explain_service, services_near, similar, with_events
    from endpointd.diagnose.snapshot import ClusterIndex
    from endpointd.diagnose.text import pod_text

    key = _key(name, query.namespace, source)
    index = ClusterIndex(await source.snapshot(key.namespace))
    near = services_near(index, key)
    if index.pods.get(key) is None and not near:
        raise await _not_found(source, NotFoundError("pod", key, *similar(key, index.pods.values())))
    now = SystemClock().wall()
    found = [explain_service(index, one, now, pod=key) for one in near]
    events = await source.events([key])
    found = [with_events(one, events) for one in found]

    def text(style: Any) -> str:
        return pod_text(key.namespace, key.name, found, style)

    return _Answer(found, text, text)


async def _not_found(source: Source, error: Any) -> QueryError:
    """Return the error, with the namespaces that have such an object if it has no hint yet."""
    hint = ""
    if not error.has_hint:
        namespaces = await source.namespaces_with(error.kind, error.key.name)
        hint = f"; found in namespace {', '.join(namespaces[:5])}" if namespaces else ""
    return QueryError(f"{error}{hint}")


def _print(
    query: Query, run_query: Callable[[Source], Awaitable[_Answer]], output: str, *, watch: bool
) -> None:
    if watch and (output not in ("text", "wide") or query.files):
        raise click.UsageError("--watch needs a cluster, and -o text or wide")
    if watch:
        answer(query, lambda source: _watch(source, run_query, output), is_single=False)
        return
    found = answer(query, run_query)
    if output in ("text", "wide"):
        click.echo(_page(found, output), nl=False)
    else:
        print_structured(msgspec.to_builtins(found.value), output)


def _page(found: _Answer, output: str) -> str:
    style = style_of_terminal()
    return found.wide(style) if output == "wide" else found.text(style)


async def _watch(source: Source, run_query: Callable[[Source], Awaitable[_Answer]], output: str) -> None:
    """Repeat the query; print each changed result, on a terminal over the previous one."""
    last = ""
    clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() else ""
    try:
        while True:
            page = _page(await run_query(source), output)
            if page != last:
                click.echo(f"{clear}{page}" if clear or not last else f"\n{page}", nl=False)
                last = page
            await SystemClock().sleep(_WATCH_SECONDS)
    except asyncio.CancelledError:
        return  # Ctrl-C


def _key(name: str, namespace: str, source: Source, default: str = "") -> ObjectKey:
    first, slash, last = name.partition("/")
    if slash and namespace and namespace != first:
        raise click.UsageError(f"{name} conflicts with --namespace {namespace}: name one namespace")
    key = (
        ObjectKey(first, last)
        if slash
        else ObjectKey(namespace or default or source.default_namespace, first)
    )
    if not key.name or not key.namespace or "/" in key.name:
        raise click.UsageError(f"{name!r} is not a name: write NAME or NAMESPACE/NAME")
    return key
