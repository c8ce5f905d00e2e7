"""What the commands that ask have in common: which cluster or which files, and how the answer is written."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from endpointd.cli.manifests import ManifestError, read_manifests
from endpointd.clock import Clock
from endpointd.diagnose.snapshot import Snapshot

F = TypeVar("F", bound=Callable[..., Any])


class CannotAskError(click.ClickException):
    """The cluster or the files cannot be read: one line, exit code 2."""

    exit_code = 2


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
        click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace; default without."),
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


def scope(all_namespaces: bool, namespace: str, files: tuple[str, ...]) -> str:
    """Return the namespace to look at, ``""`` for all. Raises ``click.UsageError`` where both are asked for."""
    if all_namespaces and namespace:
        raise click.UsageError("--all-namespaces and --namespace exclude each other")
    return "" if all_namespaces or files else namespace or "default"


def output_option(command: F) -> F:
    """Add ``-o``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="For people, or for programs.",
    )(command)


async def ask(
    kubeconfig: str,
    context: str,
    namespace: str,
    files: tuple[str, ...],
    *,
    details: bool,
    clock: Clock,
) -> Snapshot:
    """Return the snapshot of the cluster, or of the files where there are any.

    Raises :class:`CannotAskError` with one clear line.
    """
    from endpointd.cli.reading import read_cluster, snapshot_of

    if files:
        try:
            return snapshot_of(read_manifests(files))
        except ManifestError as error:
            raise CannotAskError(str(error)) from error
    from endpointd.client.discover import load_config
    from endpointd.client.errors import ClientError
    from endpointd.client.rest import Client

    try:
        config = load_config(kubeconfig, context, clock=clock)
        async with Client.from_config(config, clock=clock) as client:
            return await read_cluster(client, namespace, details=details)
    except* ClientError as group:
        raise CannotAskError(str(_first(group))) from group


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def print_structured(value: Any, output: str) -> None:
    """Print builtins as JSON or YAML."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        return
    import yaml

    click.echo(str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)), nl=False)
