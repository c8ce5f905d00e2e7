"""The only place that writes Endpoints: executes a plan and reports the result to the store."""

import logging
import re
from typing import Protocol, assert_never

import msgspec

from aiokube.api.core import SERVICES
from aiokube.api.endpoints import ENDPOINTS, EndpointAddress, Endpoints
from aiokube.api.meta import ObjectKey, ObjectReference
from aiokube.client.errors import (
    AlreadyExistsError,
    ApiError,
    ClientError,
    ConflictError,
    is_gone,
    is_namespace_terminating,
)
from aiokube.runtime.errors import is_unavailable
from aiokube.runtime.events import reference
from aiokube.runtime.writer import Writer
from endpointd.controllers.endpoints.plan import Create, Delete, Nothing, Plan, Update
from endpointd.controllers.rejections import invalid_fields, single_faults

log = logging.getLogger(__name__)


class WriteFailure(msgspec.Struct, frozen=True, gc=False):
    """A failed write, with the reason and object of its Event (E-22)."""

    text: str
    reason: str | None = None
    regarding: ObjectReference | None = None
    outdated: bool = False
    """Whether it was planned from stale state that the store has since replaced."""
    rejected: tuple[tuple[EndpointAddress, str], ...] = ()
    """The addresses that the server rejects, and why; it may accept the object without them."""
    retry_after_seconds: float | None = None
    unavailable: bool = False
    """Whether the server was unreachable or unable to serve the request."""


class WrittenEndpoints(Protocol):
    """Receives the state of the server as shown by writes."""

    def wrote(self, sent: Endpoints, answer: Endpoints) -> None:
        """Record the response to a write; the server may have stored something else than was sent."""
        ...

    def found(self, item: Endpoints) -> None:
        """Record the server's current object in place of the expected one."""
        ...

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of an object."""
        ...


class EndpointsApplier:
    """Executes plans, with at most one write each.

    Each success is reported immediately, so that the next plan does not depend on the watch. If the server
    reports that the object was changed, created or deleted, its current state is reported, too, and the
    failure is ``outdated``. After a cancellation, the watch reports whether the write happened.
    """

    def __init__(self, writer: Writer, sink: WrittenEndpoints) -> None:
        self._writer = writer
        self._sink = sink

    async def apply(self, plan: Plan, observed: Endpoints | None) -> WriteFailure | None:
        """Execute a plan made from ``observed``; return the failure, or None."""
        match plan:
            case Nothing():
                return None
            case Create():
                return await self._create(plan)
            case Update():
                return await self._update(plan, observed)
            case Delete():
                return await self._delete(plan)
            case _:
                assert_never(plan)

    async def _create(self, plan: Create) -> WriteFailure | None:
        key = plan.key
        try:
            answer = await self._writer.create(ENDPOINTS, plan.body, namespace=key.namespace)
        except ClientError as error:
            if is_namespace_terminating(error):
                return None  # E-22: a terminating namespace needs no Endpoints
            exists = isinstance(error, AlreadyExistsError)
            if exists:
                await self._read_current(key, "")
            return WriteFailure(
                f"Failed to create endpoint for service {key}: {error}",
                reason="FailedToCreateEndpoint",
                # E-22: without the namespace, so the Event is created in "default".
                regarding=ObjectReference(
                    kind=ENDPOINTS.kind, api_version=ENDPOINTS.api_version, name=key.name
                ),
                outdated=exists,
                rejected=_rejected(error, plan.body),
                retry_after_seconds=_wait_seconds(error),
                unavailable=is_unavailable(error),
            )
        self._report(answer, plan.body)
        return None

    async def _update(self, plan: Update, observed: Endpoints | None) -> WriteFailure | None:
        key = plan.key
        try:
            answer = await self._writer.update(ENDPOINTS, plan.body, key=key)
        except ClientError as error:
            # A PUT of a deleted object returns a conflict, because the body has a uid.
            outdated = isinstance(error, ConflictError) or is_gone(error, ENDPOINTS, key)
            # Without the server's current object, another plan would be the same.
            unreachable = outdated and not await self._read_current(key, plan.body.metadata.uid)
            outdated = outdated and not unreachable
            return WriteFailure(
                f"Failed to update endpoint {key}: {error}",
                reason="FailedToUpdateEndpoint",
                regarding=reference(ENDPOINTS, observed if observed is not None else plan.body),
                outdated=outdated,
                rejected=_rejected(error, plan.body),
                retry_after_seconds=_wait_seconds(error),
                unavailable=unreachable or is_unavailable(error),
            )
        self._report(answer, plan.body)
        return None

    async def _delete(self, plan: Delete) -> WriteFailure | None:
        """Delete Endpoints without a service, after the server has confirmed that the service does not exist (E-10).

        Our cache of services may be behind that of Endpoints, and nothing restores deleted ones.
        """
        key = plan.key
        text = f"failed to delete endpoint {key}"
        try:
            await self._writer.get(SERVICES, key)
        except ClientError as error:
            if not is_gone(error, SERVICES, key):
                return WriteFailure(
                    f"{text}: {error}",
                    retry_after_seconds=_wait_seconds(error),
                    unavailable=is_unavailable(error),
                )
        else:
            log.info("keeping endpoints, their service exists again: endpoints=%s", key)
            return None
        try:
            await self._writer.delete(ENDPOINTS, key, uid=plan.uid, resource_version=plan.resource_version)
        except ConflictError as error:
            await self._read_current(key, plan.uid)
            return WriteFailure(f"{text}: {error}", outdated=True)
        except ClientError as error:
            if not is_gone(error, ENDPOINTS, key):
                return WriteFailure(
                    f"{text}: {error}",
                    retry_after_seconds=_wait_seconds(error),
                    unavailable=is_unavailable(error),
                )
        self._sink.gone(key, plan.uid)
        return None

    def _report(self, answer: Endpoints, sent: Endpoints) -> None:
        if answer.subsets == sent.subsets:  # saves memory: equal addresses are kept once
            answer = msgspec.structs.replace(answer, subsets=sent.subsets)
        self._sink.wrote(sent, answer)

    async def _read_current(self, key: ObjectKey, uid: str) -> bool:
        """Report the server's current object under a name; leave it to the watch if it cannot be read.

        Returns False if the server was unreachable or unable to serve the request.
        """
        try:
            item = await self._writer.get(ENDPOINTS, key)
        except ClientError as error:
            if is_gone(error, ENDPOINTS, key):
                self._sink.gone(key, uid)
            else:
                log.info("cannot read endpoints after a failed write: endpoints=%s error=%s", key, error)
                return not is_unavailable(error)
        else:
            self._sink.found(item)
        return True


_ADDRESS = re.compile(r"subsets\[(\d+)\]\.(addresses|notReadyAddresses)\[(\d+)\]")


def _rejected(error: ClientError, body: Endpoints) -> tuple[tuple[EndpointAddress, str], ...]:
    """Return the addresses that an error names as invalid, each with the problem."""
    lists = {
        (number, name): addresses or ()
        for number, subset in enumerate(body.subsets or ())
        for name, addresses in (
            ("addresses", subset.addresses),
            ("notReadyAddresses", subset.not_ready_addresses),
        )
    }
    rejected = {
        address: problem
        for match, problem in invalid_fields(error, _ADDRESS)
        for address in lists.get((int(match[1]), match[2]), ())[int(match[3]) :][:1]
    }
    return single_faults(rejected, len({address for addresses in lists.values() for address in addresses}))


def _wait_seconds(error: ClientError) -> float | None:
    return error.retry_after_seconds if isinstance(error, ApiError) else None
