"""``endpointd explain``: why a pod is, or is not, in a service."""

import asyncio
import shutil
import sys

import click
import msgspec

from endpointd.api.meta import ObjectKey
from endpointd.cli.questions import ask, cluster_options, output_option, print_structured
from endpointd.clock import SystemClock


@click.group()
def explain() -> None:
    """Say why something is as it is."""


@explain.command("service")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option(
    "--pod", default="", metavar="POD", help="Explain this pod alone, however far it is from the service."
)
@cluster_options
@output_option
def service(
    name: str,
    pod: str,
    kubeconfig: str,
    context: str,
    namespace: str,
    filename: tuple[str, ...],
    output: str,
) -> None:
    """Say of each pod near a service whether it is in, where, and why (not).

    Near are the pods it selects, those its slices hold, and those whose labels nearly match. Needs to list pods, services,
    nodes, endpoints and endpointslices; what may not be read is said. With -f it reads files instead of a cluster.
    """
    from endpointd.diagnose.explain import explain_service
    from endpointd.diagnose.snapshot import World
    from endpointd.diagnose.text import Style, service_text

    key = _key(name, namespace)
    snapshot = asyncio.run(
        ask(kubeconfig, context, key.namespace, filename, details=True, clock=SystemClock())
    )
    try:
        found = explain_service(
            World(snapshot), key, SystemClock().wall(), pod=_key(pod, key.namespace) if pod else None
        )
    except LookupError as error:
        raise click.UsageError(str(error)) from error
    if output != "text":
        print_structured(msgspec.to_builtins(found), output)
        return
    width = shutil.get_terminal_size((100, 24)).columns
    click.echo(service_text(found, Style(colours=sys.stdout.isatty(), width=min(width, 120))), nl=False)


def _key(name: str, namespace: str) -> ObjectKey:
    first, slash, last = name.partition("/")
    if slash and namespace and namespace != first:
        raise click.UsageError(
            f"{name} is in namespace {first}, and --namespace says {namespace}: which one is it?"
        )
    key = ObjectKey(first, last) if slash else ObjectKey(namespace or "default", first)
    if not key.name or not key.namespace or "/" in key.name:
        raise click.UsageError(f"{name!r} is no name: write NAME or NAMESPACE/NAME")
    return key
