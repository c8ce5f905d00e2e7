"""Fault injection for tests of clients: rejected, slow, lost and stale responses, and broken watches.

Without rules, requests bypass this module: :class:`~.resources.Resources` checks :attr:`Faults.rules` once
per request.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self

import msgspec
from aiohttp import web

from aiokube.clock import Clock
from tinykube.server.errors import StatusError, expired
from tinykube.server.http.fault_names import FAULT_NAMES, FaultName
from tinykube.server.http.request_info import RequestInfo
from tinykube.server.objects import GroupResource, StorageKey
from tinykube.server.registry.definition import ALL_VERBS, Verb
from tinykube.server.storage.model import RevisionCompactedError, Snapshot, Storage, StoredObject
from tinykube.server.verbs.context import Backend, Target
from tinykube.server.verbs.watch import Batch, Event, Failure, Watch

ReplaceWatch = Callable[[Watch], Watch]
READS: tuple[Verb, ...] = ("get", "list")
WRITES: tuple[Verb, ...] = ("create", "update", "patch", "delete", "deletecollection")

_WATCH_FAULTS = frozenset(name for name in FAULT_NAMES if name.endswith(("-watch", "-events")))
_FOREVER_SECONDS = 24 * 3600.0
_LOG_LENGTH = 10_000
_REFUSALS: dict[int, tuple[str, str]] = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden: injected fault"),
    404: ("NotFound", "the server could not find the requested resource"),
    409: (
        "Conflict",
        "Operation cannot be fulfilled: the object has been modified; please apply your changes to it again",
    ),
    410: ("Expired", "The resourceVersion for the provided list is too old."),
    429: ("TooManyRequests", "too many requests, please try again later"),
    500: ("InternalError", "Internal error occurred: injected fault"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}
REFUSAL_CODES = tuple(_REFUSALS)
_RETRY_AFTER = frozenset({429, 503})


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure. The name determines which parameters apply."""

    name: FaultName
    code: int = 503
    """refuse: the HTTP status code."""
    retry_after_seconds: int | None = 1
    """refuse with 429 or 503: the Retry-After header."""
    seconds: float | None = None
    """delay: how long; hang, stall-watch: when the connection is dropped (None: never)."""
    after_events: int = 0
    """Watch faults: how many events are delivered first."""
    changes: int = 0
    """stale-read: how many changes of the whole server the response lags behind."""
    revision: int = 0
    """stale-read: the revision of the response, instead of ``changes``."""


class Injected(msgspec.Struct, frozen=True):
    """A fault injected into a request."""

    fault: FaultName
    verb: Verb
    resource: str
    namespace: str
    name: str


class FaultRule:
    """One rule; as a context manager it is removed at the end of the block. Created by the methods of :class:`Faults`."""

    def __init__(
        self,
        faults: "Faults",
        choices: Sequence[Fault],
        *,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        user_agent: str | None = None,
        times: int | None = None,
        skip: int = 0,
        rate: float = 1.0,
        seed: int = 0,
    ) -> None:
        verbs = (verb,) if isinstance(verb, str) else verb
        self._faults = faults
        self._choices = tuple(choices)
        self._verbs = None if verbs is None else frozenset(verbs)
        unknown = (self._verbs or frozenset()) - frozenset(ALL_VERBS)
        if unknown:
            raise ValueError(f"unknown verb {min(unknown)!r}: use {', '.join(ALL_VERBS)}")
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"rate is {rate}: it is a probability from 0 to 1")
        self._resource = resource
        self._namespace = namespace
        self._name = name
        self._user_agent = user_agent
        self._left = times
        self._skip = skip
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311 - faults, not secrets
        self.hits = 0
        """The number of requests that the rule affected."""

    def remove(self) -> None:
        """Remove the rule; faults that are already injected continue."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def choose(self, verb: Verb, target: Target, user_agent: str) -> Fault | None:
        """Return the fault for a request, if any. Updates counters and random state: call it once per request."""
        if self._left == 0 or (self._verbs is not None and verb not in self._verbs):
            return None
        if self._resource not in (None, target.definition.plural, str(target.definition.resource)):
            return None
        if self._namespace not in (None, target.namespace) or self._name not in (None, target.name):
            return None
        if self._user_agent is not None and self._user_agent not in user_agent:
            return None
        fitting = [fault for fault in self._choices if applies(fault.name, verb)]
        if len(self._choices) > 1:
            fitting = [fault for fault in fitting if _is_plausible(fault, verb)]
        if not fitting:
            return None
        if self._rate < 1.0 and self._random.random() >= self._rate:
            return None
        if self._skip > 0:
            self._skip -= 1
            return None
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        return fitting[0] if len(fitting) == 1 else self._random.choice(fitting)


class Faults:
    """The faults of a server. Thread-safe; a rule applies to requests that start later.

    Each method adds a rule and returns it. ``scope`` restricts it: ``verb`` (one or several), ``resource``
    (``pods``, ``deployments.apps``), ``namespace``, ``name``, ``user_agent`` (a substring), ``times`` (the
    maximum number of faults), ``skip`` (matching requests to let through first), ``rate`` (a probability) and
    ``seed``. The first matching rule decides. Faults only affect requests for resources, not discovery,
    health checks and OpenAPI.
    """

    def __init__(self, revision: Callable[[], int] = lambda: 0) -> None:
        self.rules: tuple[FaultRule, ...] = ()
        self.log: deque[Injected] = deque(maxlen=_LOG_LENGTH)
        """Injected faults in order; the last 10,000."""
        self._revision = revision
        self._lock = threading.Lock()

    def add(self, fault: Fault | Sequence[Fault], **scope: Any) -> FaultRule:
        """Add a rule with one fault, or several from which one is drawn. Raises ValueError for an invalid scope."""
        rule = FaultRule(self, (fault,) if isinstance(fault, Fault) else fault, **scope)
        with self._lock:
            self.rules = (*self.rules, rule)
        return rule

    def remove(self, rule: FaultRule) -> None:
        """Remove a rule. Idempotent."""
        with self._lock:
            self.rules = tuple(one for one in self.rules if one is not rule)

    def clear(self) -> None:
        """Remove all rules and clear the log."""
        with self._lock:
            self.rules = ()
        self.log.clear()

    # ------------------------------------------------------------------------------------------- faults

    def refuse(self, code: int, *, retry_after_seconds: int | None = 1, **scope: Any) -> FaultRule:
        """Respond with this status (401 to 504) without executing the request; 429 and 503 include Retry-After."""
        if code not in _REFUSALS:
            raise ValueError(f"unsupported code {code}: use {', '.join(map(str, REFUSAL_CODES))}")
        return self.add(Fault(name="refuse", code=code, retry_after_seconds=retry_after_seconds), **scope)

    def delay(self, seconds: float, **scope: Any) -> FaultRule:
        """Delay execution and response."""
        return self.add(Fault(name="delay", seconds=seconds), **scope)

    def lose_request(self, **scope: Any) -> FaultRule:
        """Drop the connection before executing the request."""
        return self.add(Fault(name="lose-request"), **scope)

    def lose_answer(self, **scope: Any) -> FaultRule:
        """Execute the request, then drop the connection: the client cannot know that its write succeeded."""
        return self.add(Fault(name="lose-answer"), **scope)

    def hang(self, seconds: float | None = None, **scope: Any) -> FaultRule:
        """Neither execute nor respond; drop the connection after ``seconds``, if given."""
        return self.add(Fault(name="hang", seconds=seconds), **scope)

    def stale_reads(self, changes: int | None = None, **scope: Any) -> FaultRule:
        """Serve gets and lists from the past: from now, or from a number of changes ago.

        Lists with a resource version (other than 0) are answered as requested.
        """
        fault = Fault(name="stale-read", changes=changes or 0, revision=0 if changes else self._revision())
        return self.add(fault, **scope)

    def drop_watch(self, after_events: int = 0, **scope: Any) -> FaultRule:
        """Drop the connection of a watch after a number of events."""
        return self.add(Fault(name="drop-watch", after_events=after_events), **scope)

    def end_watch(self, after_events: int = 0, **scope: Any) -> FaultRule:
        """End a watch cleanly after a number of events, as after its timeout."""
        return self.add(Fault(name="end-watch", after_events=after_events), **scope)

    def expire_watch(self, after_events: int = 0, **scope: Any) -> FaultRule:
        """End a watch with an ERROR event of code 410 after a number of events: the client must relist."""
        return self.add(Fault(name="expire-watch", after_events=after_events), **scope)

    def stall_watch(self, after_events: int = 0, *, seconds: float | None = None, **scope: Any) -> FaultRule:
        """Stop delivering events after a number of them; keep the connection open (for ``seconds``, if given)."""
        return self.add(Fault(name="stall-watch", after_events=after_events, seconds=seconds), **scope)

    def duplicate_events(self, **scope: Any) -> FaultRule:
        """Deliver each event of a watch twice."""
        return self.add(Fault(name="duplicate-events"), **scope)

    def random(self, seed: int, rate: float = 0.05, **scope: Any) -> FaultRule:
        """Inject a random fault, drawn from the seed, into this share of the requests.

        The same seed and the same order of requests give the same faults.
        """
        return self.add(RANDOM_FAULTS, seed=seed, rate=rate, **scope)

    # -------------------------------------------------------------------------------------------- injection

    def choose(self, info: RequestInfo, verb: Verb, target: Target) -> Fault | None:
        """Return the fault for a request, if any, and log it."""
        for rule in self.rules:
            fault = rule.choose(verb, target, info.caller.user_agent)
            if fault is not None:
                definition = target.definition
                self.log.append(
                    Injected(fault.name, verb, str(definition.resource), target.namespace, target.name)
                )
                return fault
        return None


RANDOM_FAULTS: tuple[Fault, ...] = (
    Fault(name="refuse", code=409),
    Fault(name="refuse", code=410),
    Fault(name="refuse", code=429),
    Fault(name="refuse", code=500),
    Fault(name="refuse", code=504),
    Fault(name="delay", seconds=0.2),
    Fault(name="lose-request"),
    Fault(name="lose-answer"),
    Fault(name="stale-read", changes=10),
    Fault(name="drop-watch", after_events=2),
    Fault(name="end-watch", after_events=2),
    Fault(name="expire-watch", after_events=2),
    Fault(name="duplicate-events"),
)
"""The faults that :meth:`Faults.random` draws from: clients survive them without setting timeouts."""


def applies(name: FaultName, verb: Verb) -> bool:
    """Return whether a fault applies to requests with this verb."""
    if name in _WATCH_FAULTS:
        return verb == "watch"
    if name == "stale-read":
        return verb in READS
    return not (name == "lose-answer" and verb == "watch")


def _is_plausible(fault: Fault, verb: Verb) -> bool:
    """Return whether kube-apiserver may respond so: conflicts only to writes, lost history only to lists and watches."""
    if fault.name != "refuse":
        return True
    if fault.code == 409:
        return verb in WRITES
    return fault.code != 410 or verb in ("list", "watch")


async def faulty_answer(
    fault: Fault,
    info: RequestInfo,
    backend: Backend,
    answer: Callable[[Backend, ReplaceWatch | None], Awaitable[web.StreamResponse]],
) -> web.StreamResponse:
    """Handle a request with a fault. ``answer`` executes it on a backend; its second argument wraps the watch.

    Raises StatusError, and ConnectionAbortedError once the connection has been dropped.
    """
    match fault.name:
        case "refuse":
            raise refusal(fault.code, fault.retry_after_seconds)
        case "delay":
            await asyncio.sleep(fault.seconds or 0.0)
            return await answer(backend, None)
        case "lose-request":
            raise _dropped(info)
        case "lose-answer":
            await answer(backend, None)
            raise _dropped(info)
        case "hang":
            await asyncio.sleep(_FOREVER_SECONDS if fault.seconds is None else fault.seconds)
            raise _dropped(info)
        case "stale-read":
            storage: Any = _StaleStorage(backend.storage, fault)
            return await answer(msgspec.structs.replace(backend, storage=storage), None)
        case _:
            return await answer(backend, lambda watch: _FaultyWatch(watch, fault, backend.clock))


def refusal(code: int, retry_after_seconds: int | None) -> StatusError:
    """Return the error for a code of :data:`REFUSAL_CODES`; only 429 and 503 have a Retry-After."""
    reason, message = _REFUSALS[code]
    details: dict[str, Any] | None = None
    headers = {}
    if code in _RETRY_AFTER and retry_after_seconds is not None:
        details = {"retryAfterSeconds": retry_after_seconds}
        headers["Retry-After"] = str(retry_after_seconds)
    return StatusError(code, reason, message, details=details, headers=headers)


def _dropped(info: RequestInfo) -> ConnectionAbortedError:
    transport = info.request.transport
    if transport is not None:
        transport.abort()
    return ConnectionAbortedError("the connection was dropped by an injected fault")


class _StaleStorage:
    """A storage with stale reads; everything else is delegated."""

    def __init__(self, storage: Storage, fault: Fault) -> None:
        self._storage = storage
        newest = storage.revision
        self._stale_revision = max(1, min(newest, fault.revision or newest - fault.changes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get(self, key: StorageKey) -> StoredObject | None:
        snapshot = self.snapshot(key.resource, key.namespace)
        return next((one for one in snapshot.after("", "") if one.key == key), None)

    def snapshot(self, resource: GroupResource, namespace: str = "", revision: int | None = None) -> Snapshot:
        try:
            return self._storage.snapshot(
                resource, namespace, self._stale_revision if revision is None else revision
            )
        except RevisionCompactedError as error:
            if revision is not None:
                raise
            return self._storage.snapshot(resource, namespace, error.oldest)


class _FaultyWatch(Watch):
    """A watch that fails after a number of events."""

    def __init__(self, watch: Watch, fault: Fault, clock: Clock) -> None:
        self._watch = watch
        self._fault = fault
        self._clock = clock
        self._events_left = fault.after_events
        self._stalled_until: float | None = None
        self._is_over = False
        self._woken: Callable[[], None] | None = None

    def close(self) -> None:
        self._is_over = True
        self._watch.close()
        woken, self._woken = self._woken, None
        if woken is not None:
            woken()

    @property
    def due_at(self) -> float:
        return self._watch.due_at if self._stalled_until is None else self._stalled_until

    def take(self) -> Batch | None:
        if self._is_over:
            return ()
        if self._stalled_until is not None:
            if self._clock.monotonic() < self._stalled_until:
                return None
            raise ConnectionAbortedError("a stalled watch was dropped by an injected fault")
        if self._fault.name == "duplicate-events":
            batch = self._watch.take()
            return batch and [event for event in batch for _ in range(2 if isinstance(event, Event) else 1)]
        if self._events_left <= 0:
            return self._fail()
        batch = self._watch.take()
        if not batch:
            return batch
        cut = batch[: self._events_left]
        self._events_left -= sum(isinstance(event, Event) for event in cut)
        return cut

    def _fail(self) -> Batch | None:
        match self._fault.name:
            case "end-watch":
                return ()
            case "expire-watch":
                self._is_over = True
                return (Failure(expired("too old resource version: injected fault")),)
            case "stall-watch":
                seconds = self._fault.seconds
                wait_seconds = _FOREVER_SECONDS if seconds is None else seconds
                self._stalled_until = self._clock.monotonic() + wait_seconds
                return None
            case _:
                raise ConnectionAbortedError("the watch was dropped by an injected fault")

    def arm(self, woken: Callable[[], None]) -> None:
        if self._stalled_until is not None:
            self._woken = woken
        elif self._events_left <= 0 and self._fault.name != "duplicate-events":
            woken()
        else:
            self._watch.arm(woken)

    def disarm(self) -> None:
        self._woken = None
        self._watch.disarm()
