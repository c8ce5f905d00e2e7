"""Small pieces of an assembly: start-once state, workers with their caches, the audit, observability."""

import asyncio
import gc
import socket
from collections.abc import Callable, Collection
from typing import NamedTuple

from aiokube.api.meta import ObjectKey
from aiokube.runtime.controller import Controller, ControllerStop
from aiokube.runtime.pacing import LoopPacer, Steps
from endpointd.cli.serving_secrets import ServingSecrets
from endpointd.cli.tracing import Tracing
from endpointd.controllers.audit import Audited, Auditor


class Observability(NamedTuple):
    """The listener, secrets and tracing of a program; None switches each off."""

    listener: socket.socket | None = None
    healthz_listener: socket.socket | None = None
    secrets: ServingSecrets | None = None
    tracing: Tracing | None = None


_NO_OUTLETS = Observability()


def in_one_step(build: Callable[[], None]) -> Steps[None]:
    """Return a one-step generator that calls ``build``."""
    build()
    yield 1


class StartOnce:
    """State built once, when its caches have synced. The audit skips it until then."""

    def __init__(self, audited: Audited, build: Callable[[], Steps[None]], pacer: LoopPacer) -> None:
        self._audited = audited
        self._build = build
        self._pacer = pacer
        self._lock = asyncio.Lock()
        self._is_built = False

    async def __call__(self) -> None:
        """Build the state unless it has been built, and return when it is complete."""
        async with self._lock:
            if not self._is_built:
                await self._pacer.run(self._build())
                self._is_built = True

    def audited_keys(self) -> Collection[ObjectKey]:
        """Return the keys to audit, or none before the state is built."""
        return self._audited.audited_keys() if self._is_built else ()

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Audit one key."""
        return self._audited.audit_steps(key)


class Workers:
    """A controller's workers, which wait only for the caches that the controller reads."""

    def __init__(
        self, controller: Controller[ObjectKey], informers: Collection[str], starts: Collection[StartOnce]
    ) -> None:
        self._controller = controller
        self._starts = starts
        self.name = controller.name
        self.needed_informers = informers

    async def run(self) -> None:
        """Build the state, then run the workers until stopped."""
        for build in self._starts:
            await build()
        gc.freeze()
        await self._controller.run()

    async def stop(self, grace_seconds: float) -> ControllerStop:
        """Stop the controller."""
        return await self._controller.stop(grace_seconds)


class AuditRunnable:
    """Runs the audit. It waits for no cache, because it skips state that has not been built."""

    name = Auditor.name
    needed_informers: Collection[str] = ()

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    async def run(self) -> None:
        """Audit until cancelled."""
        await self._auditor.run()
