"""The small parts of an assembly: what begins when, what needs which cache, what tells others."""

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


class Outlets(NamedTuple):
    """What tells others how the program is: nothing, unless asked for."""

    listener: socket.socket | None = None
    healthz_listener: socket.socket | None = None
    secrets: ServingSecrets | None = None
    tracing: Tracing | None = None


_NO_OUTLETS = Outlets()


def in_one_step(begin: Callable[[], None]) -> Steps[None]:
    """Return work that is done in one step."""
    begin()
    yield 1


class Begin:
    """State that is built from the caches once they are complete, once; the audit leaves it alone until then."""

    def __init__(self, audited: Audited, begin: Callable[[], Steps[None]], pacer: LoopPacer) -> None:
        self._audited = audited
        self._begin = begin
        self._pacer = pacer
        self._lock = asyncio.Lock()
        self._has_begun = False

    async def __call__(self) -> None:
        """Build the state, unless that was done before; return once it is complete."""
        async with self._lock:
            if not self._has_begun:
                await self._pacer.run(self._begin())
                self._has_begun = True

    def audited_keys(self) -> Collection[ObjectKey]:
        """Return the keys to audit: none before the beginning."""
        return self._audited.audited_keys() if self._has_begun else ()

    def audit_steps(self, key: ObjectKey) -> Steps[str | None]:
        """Audit one key."""
        return self._audited.audit_steps(key)


class Workers:
    """A controller's workers, for which those caches alone are needed that it reads."""

    def __init__(
        self, controller: Controller[ObjectKey], informers: Collection[str], begins: Collection[Begin]
    ) -> None:
        self._controller = controller
        self._begins = begins
        self.name = controller.name
        self.needed_informers = informers

    async def run(self) -> None:
        """Begin what has not begun, then work until stopped."""
        for begin in self._begins:
            await begin()
        gc.freeze()
        await self._controller.run()

    async def stop(self, grace_seconds: float) -> ControllerStop:
        """Stop as the controller does."""
        return await self._controller.stop(grace_seconds)


class AuditPart:
    """The audit, which needs no cache: what has not begun is left alone."""

    name = Auditor.name
    needed_informers: Collection[str] = ()

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    async def run(self) -> None:
        """Audit for as long as it is not cancelled."""
        await self._auditor.run()
