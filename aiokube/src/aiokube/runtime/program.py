"""Controllers as declarations, and the program around them, in one call."""

import asyncio
import itertools
import logging
import random
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from aiokube.api.meta import KubernetesObject, ObjectKey, OwnerReference, key_of
from aiokube.api.resource import Resource
from aiokube.api.selectors import parse_selector
from aiokube.client.errors import ClientError, ConfigError, NotFoundError, is_gone
from aiokube.client.load_config import load_config
from aiokube.client.rest import Client
from aiokube.clock import Clock, SystemClock
from aiokube.process.logs import LIBRARIES_VERBOSITY, Format, configure
from aiokube.runtime.controller import Controller, RequeueAfter
from aiokube.runtime.events import ClientEventSink, EventRecorder, EventType, EventWriter, reference
from aiokube.runtime.handlers import Predicate, enqueue_many, owner_keys
from aiokube.runtime.informer import Informer
from aiokube.runtime.leader_election import LeaderElector
from aiokube.runtime.leader_election_fence import Fence
from aiokube.runtime.leader_election_machine import Rules
from aiokube.runtime.manager import Manager, NotReadyError, PartFailedError
from aiokube.runtime.shutdown import stop_on_signals
from aiokube.runtime.store import Store
from aiokube.work_queue import WorkQueue

T = TypeVar("T", bound=KubernetesObject)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Watch(Generic[T]):
    """Objects whose changes trigger a controller.

    ``keys`` returns the keys to reconcile for a changed object; it is called for the old and the new object.
    Changes for which ``when`` returns False are ignored (see :func:`generation_changed`, for example). Only
    objects in ``namespace`` (``""`` for all) that match the selectors are listed, cached and watched.
    """

    resource: Resource[T]
    keys: Callable[[T], Iterable[ObjectKey]]
    when: Predicate | None = None
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def covers(self, item: Any) -> bool:
        """Return whether an object is certainly among the watched ones, without asking the server."""
        metadata = item.metadata
        if self.field_selector or self.namespace not in ("", metadata.namespace):
            return False
        labels = getattr(metadata, "labels", None)
        return not self.label_selector or parse_selector(self.label_selector).matches(labels or {})


class Context:
    """What a reconcile works with: caches, and write methods that keep the caches current.

    Every write through it is immediately visible in the caches, and with leader election none is sent
    without the lease.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        clock: Clock,
        recorder: EventRecorder,
        caches: Sequence[tuple[Watch[Any], Store[Any]]],
        fence: Fence | None = None,
    ) -> None:
        self.name = name
        """The controller's name, which is also its field manager and Event source."""
        self.client = client
        """For all other requests. Its writes appear in the caches only when the watch delivers them."""
        self.clock = clock
        self._recorder = recorder
        self._caches = caches
        self._fence = fence

    def cache(self, resource: Resource[T]) -> Store[T]:
        """Return the cache of a resource that this controller watches. Raises ``LookupError`` for others."""
        for watch, store in self._caches:
            if watch.resource is resource:
                return store
        raise LookupError(
            f"controller {self.name!r} does not watch {resource.full_name}: add it to owns= or watches=, or read it"
            " from the server with ctx.client.get"
        )

    def get(self, resource: Resource[T], key: ObjectKey) -> T | None:
        """Return an object from the cache (:meth:`cache`), None if it does not exist."""
        return self.cache(resource).get(key)

    async def apply(self, resource: Resource[T], body: msgspec.Struct, *, force: bool = True) -> T:
        """Create or change an object with server-side apply (:meth:`Client.apply`).

        The controller's name is the field manager. By default it takes over conflicting fields, because a
        controller is the authority on the fields that it applies.
        """
        async with self._passing():
            written = await self.client.apply(resource, body, field_manager=self.name, force=force)
        self._written(resource, written)
        return written

    async def create(self, resource: Resource[T], body: msgspec.Struct) -> T:
        """Create an object (:meth:`Client.create`)."""
        async with self._passing():
            written = await self.client.create(resource, body)
        self._written(resource, written)
        return written

    async def patch(
        self,
        resource: Resource[T],
        key: ObjectKey,
        body: bytes | msgspec.Struct,
        *,
        patch_type: str,
        subresource: str = "",
    ) -> T:
        """Change a part of an object, or of its status (:meth:`Client.patch`)."""
        async with self._passing():
            written = await self.client.patch(
                resource, key, body, patch_type=patch_type, subresource=subresource, field_manager=self.name
            )
        self._written(resource, written)
        return written

    async def delete(self, resource: Resource[T], item: T) -> None:
        """Delete this object, but no later one of the same name; succeeds if it no longer exists."""
        key, uid = key_of(item), item.metadata.uid
        try:
            async with self._passing():
                await self.client.delete(resource, key, uid=uid)
        except NotFoundError as error:
            if not is_gone(error, resource, key):
                raise
        if getattr(item.metadata, "finalizers", None):
            return  # it remains until its finalizers are removed; the watch reports it
        for watch, store in self._caches:
            if watch.resource is resource:
                store.record_delete(key, uid)

    def event(
        self,
        resource: Resource[T],
        item: T,
        reason: str,
        message: str,
        *,
        type: EventType = "Normal",  # noqa: A002
    ) -> None:
        """Record an Event about an object; never blocks or raises (:class:`EventRecorder`)."""
        self._recorder.event(reference(resource, item), type, reason, message)

    def _written(self, resource: Resource[T], written: T) -> None:
        for watch, store in self._caches:
            if watch.resource is resource and watch.covers(written):
                store.record_write(written)

    @asynccontextmanager
    async def _passing(self) -> AsyncIterator[None]:
        if self._fence is None:
            yield
            return
        async with self._fence.passing():
            yield


ReconcileFunction = Callable[[Context, ObjectKey], Awaitable[RequeueAfter | None]]


@dataclass(frozen=True, eq=False)
class ControllerDefinition:
    """A controller declared with :func:`controller`; calling it calls its function."""

    name: str
    reconcile: ReconcileFunction
    watches: tuple[Watch[Any], ...]
    workers: int

    def __call__(self, context: Context, key: ObjectKey) -> Awaitable[RequeueAfter | None]:
        """Reconcile one key."""
        return self.reconcile(context, key)


def controller(
    resource: Resource[Any],
    *,
    owns: Sequence[Resource[Any]] = (),
    watches: Sequence[Watch[Any]] = (),
    when: Predicate | None = None,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    name: str = "",
    workers: int = 1,
) -> Callable[[ReconcileFunction], ControllerDefinition]:
    """Declare a function ``async def f(ctx: Context, key: ObjectKey)`` that reconciles ``resource``.

    The function is called with the key of every object at the start, and again after each change of the
    object, of an object that it owns (``owns``: kinds whose controlling owner reference names it), and of
    objects that ``watches`` maps to its key; also after the object is deleted. ``namespace``, the selectors
    and ``when`` restrict ``resource`` itself, as in :class:`Watch`. The function brings the cluster into the
    desired state and returns; exceptions are retried with backoff, and it may return :class:`RequeueAfter`.
    ``name`` defaults to the function's name, with dashes.
    """

    def declare(reconcile: ReconcileFunction) -> ControllerDefinition:
        function = getattr(reconcile, "__name__", "controller")
        return ControllerDefinition(
            name=name or function.replace("_", "-"),
            reconcile=reconcile,
            watches=(
                Watch(resource, _own_key, when, namespace, label_selector, field_selector),
                *(Watch(owned, owner_keys(resource), namespace=namespace) for owned in owns),
                *watches,
            ),
            workers=workers,
        )

    return declare


def _own_key(item: Any) -> tuple[ObjectKey]:
    return (key_of(item),)


def owner_reference(resource: Resource[T], owner: T) -> OwnerReference:
    """Return an owner reference: the object is deleted with its owner, and its changes trigger ``owns``."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


async def run_controllers(
    client: Client,
    *definitions: ControllerDefinition,
    stop: asyncio.Event,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    leader_election: ObjectKey | None = None,
    grace_seconds: float = 10.0,
) -> None:
    """Run controllers with a client until ``stop`` is set: :func:`run` without the process around it.

    Controllers that watch the same objects share a cache. With ``leader_election``, the key of a Lease, only
    the process that holds the lease runs its controllers. Raises the errors of :meth:`Manager.run`.
    """
    names = [definition.name for definition in definitions]
    if not definitions or len(set(names)) < len(names):
        raise ValueError(f"run needs controllers with different names, got {names or 'none'}")
    clock = clock or SystemClock()
    rng = rng or random.SystemRandom()
    events = EventWriter(ClientEventSink(client), clock=clock, rng=rng)
    fence = gate = None
    writing = client
    if leader_election is not None:
        fence = Fence()
        writing = client.guarded(fence.check)
        gate = LeaderElector(
            client,
            leader_election,
            Rules(identity=f"{socket.gethostname()}_{uuid.uuid4()}"),
            fence=fence,
            clock=clock,
            rng=rng,
            recorder=events.recorder("leader-election"),
        )
    informers: dict[tuple[Any, ...], Informer[Any]] = {}
    controllers = []
    for definition in definitions:
        queue: WorkQueue[ObjectKey] = WorkQueue(definition.name, clock=clock)
        caches: list[tuple[Watch[Any], Store[Any]]] = []
        for watch in definition.watches:
            part = (watch.resource, watch.namespace, watch.label_selector, watch.field_selector)
            if part not in informers:
                source = client.source(
                    watch.resource,
                    namespace=watch.namespace,
                    label_selector=watch.label_selector,
                    field_selector=watch.field_selector,
                )
                name = _informer_name(watch, {informer.name for informer in informers.values()})
                informers[part] = Informer(source, name=name, clock=clock, rng=rng)
            informers[part].store.subscribe(enqueue_many(queue, watch.keys, watch.when))
            caches.append((watch, informers[part].store))
        recorder = events.recorder(definition.name)
        context = Context(definition.name, writing, clock, recorder, caches, fence)
        reconcile = _bound(definition, context)
        controllers.append(Controller(definition.name, queue, reconcile, definition.workers, clock=clock))
    manager = Manager(
        clock=clock,
        services=[events],
        informers=list(informers.values()),
        gate=gate,
        controllers=controllers,
        grace_seconds=grace_seconds,
    )
    await manager.run(stop)


def _informer_name(watch: Watch[Any], taken: Collection[str]) -> str:
    """Return a name for a watch, with a number if two types describe the same kind."""
    restrictions = [part for part in (watch.namespace, watch.label_selector, watch.field_selector) if part]
    name = (
        f"{watch.resource.full_name}({', '.join(restrictions)})" if restrictions else watch.resource.full_name
    )
    return next(
        choice
        for number in itertools.count(1)
        if (choice := name if number == 1 else f"{name}#{number}") not in taken
    )


def _bound(
    definition: ControllerDefinition, context: Context
) -> Callable[[ObjectKey], Awaitable[RequeueAfter | None]]:
    return lambda key: definition.reconcile(context, key)


def run(
    *definitions: ControllerDefinition,
    kubeconfig: str = "",
    context: str = "",
    leader_election: ObjectKey | None = None,
    grace_seconds: float = 10.0,
    verbosity: int = 0,
    logging_format: Format = "text",
) -> None:
    """Run controllers as a program, until SIGTERM or SIGINT.

    The cluster is that of ``kubeconfig`` and ``context``, else that of $KUBECONFIG, ``~/.kube/config``, or
    of the pod (:func:`load_config`). Logs go to standard error. With ``leader_election``, the key of a
    Lease, any number of replicas may run and one of them is active. An invalid configuration is reported and
    exits with 2; a lost lease or a permanent failure of a cache exits with 1.
    """
    configure(verbosity, logging_format)
    if verbosity < LIBRARIES_VERBOSITY:
        logging.getLogger().setLevel(logging.INFO)

    async def main() -> None:
        clock, stop = SystemClock(), asyncio.Event()
        config = load_config(kubeconfig, context, clock=clock)
        async with Client.from_config(config, clock=clock) as client:
            with stop_on_signals(stop):
                await run_controllers(
                    client,
                    *definitions,
                    stop=stop,
                    clock=clock,
                    leader_election=leader_election,
                    grace_seconds=grace_seconds,
                )

    try:
        asyncio.run(main())
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except (PartFailedError, NotReadyError, ClientError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
