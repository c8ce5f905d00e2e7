"""The only place that writes Endpoints: does what a plan says and tells the store what came of it."""

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
    """A write that failed: in words, and under which reason and on what an Event tells of it (E-22)."""

    text: str
    reason: str | None = None
    regarding: ObjectReference | None = None
    outdated: bool = False
    """Whether it was planned from what is no longer so, and the store now knows better."""
    rejected: tuple[tuple[EndpointAddress, str], ...] = ()
    """The addresses that the server rejects, and why: without them it may accept the object."""
    retry_after_seconds: float | None = None
    unavailable: bool = False
    """Whether the server could not be reached, or could not serve us."""


class WrittenEndpoints(Protocol):
    """Who is told of what is on the server, as far as a write showed it."""

    def wrote(self, sent: Endpoints, answer: Endpoints) -> None:
        """Take in the answer to a write; the server may have stored something else than was sent."""
        ...

    def found(self, item: Endpoints) -> None:
        """Take in what the server has in the place of what was expected."""
        ...

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that an object is no more."""
        ...


class EndpointsApplier:
    """Carries plans out: at most one write each.

    Each success is told at once, so that the next plan knows it, however late the watch is. Where the server says
    that the object has changed, came or went, what it has now is told, too, and the failure is ``outdated``.
    Cancelled in the middle, a write may or may not have been done; the watch will tell.
    """

    def __init__(self, writer: Writer, told: WrittenEndpoints) -> None:
        self._writer = writer
        self._told = told

    async def apply(self, plan: Plan, observed: Endpoints | None) -> WriteFailure | None:
        """Write what a plan says, made from what was observed; return what failed, None where all is well."""
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
                return None  # E-22: nothing is owed to it any more
            exists = isinstance(error, AlreadyExistsError)
            if exists:
                await self._look(key, "")
            return WriteFailure(
                f"Failed to create endpoint for service {key}: {error}",
                reason="FailedToCreateEndpoint",
                # E-22: without the namespace, so that the Event stands in "default".
                regarding=ObjectReference(
                    kind=ENDPOINTS.kind, api_version=ENDPOINTS.api_version, name=key.name
                ),
                outdated=exists,
                rejected=_rejected(error, plan.body),
                retry_after_seconds=_wait_seconds(error),
                unavailable=is_unavailable(error),
            )
        self._tell(answer, plan.body)
        return None

    async def _update(self, plan: Update, observed: Endpoints | None) -> WriteFailure | None:
        key = plan.key
        try:
            answer = await self._writer.update(ENDPOINTS, plan.body, key=key)
        except ClientError as error:
            # A PUT to what is gone is answered with a conflict, too, as it names a uid.
            outdated = isinstance(error, ConflictError) or is_gone(error, ENDPOINTS, key)
            # Without knowing what is there now, planning again would come to the same.
            unreachable = outdated and not await self._look(key, plan.body.metadata.uid)
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
        self._tell(answer, plan.body)
        return None

    async def _delete(self, plan: Delete) -> WriteFailure | None:
        """Delete what has no service, once the server itself has said that there is none (E-10).

        Our knowledge of services may be behind that of endpoints, and nothing brings deleted ones back.
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
            log.info("endpoints kept, for their service has come back: endpoints=%s", key)
            return None
        try:
            await self._writer.delete(ENDPOINTS, key, uid=plan.uid, resource_version=plan.resource_version)
        except ConflictError as error:
            await self._look(key, plan.uid)
            return WriteFailure(f"{text}: {error}", outdated=True)
        except ClientError as error:
            if not is_gone(error, ENDPOINTS, key):
                return WriteFailure(
                    f"{text}: {error}",
                    retry_after_seconds=_wait_seconds(error),
                    unavailable=is_unavailable(error),
                )
        self._told.gone(key, plan.uid)
        return None

    def _tell(self, answer: Endpoints, sent: Endpoints) -> None:
        if answer.subsets == sent.subsets:  # a thousand addresses are kept once, not twice
            answer = msgspec.structs.replace(answer, subsets=sent.subsets)
        self._told.wrote(sent, answer)

    async def _look(self, key: ObjectKey, uid: str) -> bool:
        """Tell what the server has under a name now; leave it to the watch where it cannot be read.

        Return False where the server could not be reached, or could not serve us.
        """
        try:
            item = await self._writer.get(ENDPOINTS, key)
        except ClientError as error:
            if is_gone(error, ENDPOINTS, key):
                self._told.gone(key, uid)
            else:
                log.info("endpoints not read after a failed write: endpoints=%s error=%s", key, error)
                return not is_unavailable(error)
        else:
            self._told.found(item)
        return True


_ADDRESS = re.compile(r"subsets\[(\d+)\]\.(addresses|notReadyAddresses)\[(\d+)\]")


def _rejected(error: ClientError, body: Endpoints) -> tuple[tuple[EndpointAddress, str], ...]:
    """Return the addresses that a refusal names as invalid, each with the problem."""
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
