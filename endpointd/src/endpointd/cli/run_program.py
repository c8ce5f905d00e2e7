"""Run ``endpointd run`` from its settings to its exit code."""

import asyncio
import contextlib
import gc
import logging
import sys

from aiokube.client.config import ClusterConfig
from aiokube.client.errors import ConfigError
from aiokube.client.http import RetryPolicy
from aiokube.client.load_config import load_config
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from aiokube.runtime.leader_election import LeaseLostError, request_seconds
from aiokube.runtime.manager import PartFailedError
from aiokube.runtime.shutdown import stop_on_signals
from aiokube.token_bucket import TokenBucket
from endpointd import __version__
from endpointd.cli.assembly import Assembly
from endpointd.cli.assembly_parts import Observability
from endpointd.cli.run_settings import RunSettings, election_rules
from endpointd.cli.serving_address import ListenError, open_listener
from endpointd.cli.serving_secrets import ServingFileError, ServingSecrets
from endpointd.cli.tracing import TracingUnavailableError, open_tracing

logger = logging.getLogger(__name__)

EXIT_DONE = 0
EXIT_LEASE_LOST = 1
EXIT_UNUSABLE = 2


def run_controllers(settings: RunSettings) -> int:
    """Run until a signal; return the exit code."""
    clock = SystemClock()
    try:
        config = load_config(settings.kubeconfig, settings.context, clock=clock)
        observability = _open_observability(settings, clock)
    except (ConfigError, ListenError, ServingFileError, TracingUnavailableError) as error:
        print(f"endpointd: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    # Cached objects live long and form no cycles, so frequent collections only cost time.
    gc.set_threshold(50_000, 20, 100)
    with contextlib.ExitStack() as stack:
        for listener in filter(None, (observability.listener, observability.healthz_listener)):
            stack.enter_context(contextlib.closing(listener))
        return asyncio.run(_run(settings, config, clock, observability))


def _open_observability(settings: RunSettings, clock: Clock) -> Observability:
    tracing = open_tracing(settings.tracing, clock=clock) if settings.tracing is not None else None
    listener = healthz_listener = secrets = None
    if settings.metrics_address is not None:
        secrets = ServingSecrets(settings.serving_files)
        listener = open_listener(settings.metrics_address)
    if settings.healthz_address is not None:
        healthz_listener = open_listener(settings.healthz_address, "healthz")
    return Observability(listener, healthz_listener, secrets, tracing)


async def _run(
    settings: RunSettings, config: ClusterConfig, clock: Clock, observability: Observability
) -> int:
    limiter = None
    if settings.qps > 0:
        burst = settings.burst or max(int(settings.qps * 1.5), 1)
        limiter = TokenBucket(per_second=settings.qps, burst=burst, clock=clock)
    stop = asyncio.Event()
    agent = f"endpointd/{__version__}"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.from_config(config, clock=clock, limiter=limiter, user_agent=agent)
        )
        if settings.shadow_grace_seconds is not None:
            from endpointd.diagnose.shadow import refuse_writes

            client = client.guarded(refuse_writes)  # shadow mode sends no writes; this enforces it
            logger.info("shadow mode, no writes: grace_seconds=%g", settings.shadow_grace_seconds)
        assembly = Assembly(settings, client, clock, observability)
        if settings.election is not None:
            rules = election_rules(settings.election)
            # As upstream: a separate client, which no other request can delay and which does not retry.
            leases = Client.from_config(
                config,
                clock=clock,
                user_agent=f"{agent}/leader-election",
                retry=RetryPolicy(attempts=0),
                timeout_seconds=request_seconds(rules),
            )
            assembly.elect(await stack.enter_async_context(leases), rules, settings.election)
        logger.info(
            "starting: version=%s server=%s config=%s controllers=%s",
            __version__,
            client.server,
            config.origin,
            ",".join(settings.controllers),
        )
        with stop_on_signals(stop):
            try:
                await assembly.manager().run(stop)
            except PartFailedError as error:
                if not isinstance(error.__cause__, LeaseLostError):
                    raise
                logger.error(
                    "leader election lost, exiting; restart to become a candidate again: cause=%s",
                    error.__cause__,
                )
                return EXIT_LEASE_LOST
    logger.info("stopped")
    return EXIT_DONE
