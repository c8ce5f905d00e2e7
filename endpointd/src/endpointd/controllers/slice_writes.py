"""How EndpointSlices are written: in which order, what of a failure the rest waits for, and what the store is told.

What is written, and for whom, is the business of the controller that asks.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from aiokube.api.discovery import ENDPOINT_SLICES, Endpoint, EndpointSlice
from aiokube.api.meta import ObjectKey, key_of
from aiokube.client.errors import ApiError, ClientError, ConflictError, is_gone, is_namespace_terminating
from aiokube.runtime.errors import is_unavailable
from aiokube.runtime.writer import Writer
from endpointd.controllers.rejections import invalid_fields, single_faults
from endpointd.controllers.writes import Failure, write_all


class SliceFailure(Failure, frozen=True, gc=False):
    """A write of a slice that failed.

    ``refused`` says that it is about this one object: other slices may well be written.
    """

    refused: bool = False
    rejected: tuple[tuple[Endpoint, str], ...] = ()
    """The endpoints that the server rejects, and why: without them it may accept the slice."""
    retry_after_seconds: float | None = None
    unavailable: bool = False
    """Whether the server could not be reached, or could not serve us."""


class SliceWrites(msgspec.Struct, frozen=True, gc=False):
    """What came of a set of writes: how many succeeded, and what did not."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    failures: tuple[SliceFailure, ...] = ()
    """In the order in which they happened; each text says which slice, whose, and why."""
    abandoned: bool = False
    """Whether the namespace is going away, so that nothing more is owed to it (S-72, M-41)."""


class WrittenSlices(Protocol):
    """Who is told of what is on the server, as far as a write showed it: the store."""

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Take in a slice as the server answered our write of it; what was sent may be another in detail."""
        ...

    def found(self, item: EndpointSlice) -> None:
        """Take in what the server has in the place of what was expected."""
        ...

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Take in that a slice is no more."""
        ...


_Write = Callable[[EndpointSlice], Awaitable[SliceFailure | None]]
_NAMESPACE_IS_GOING = SliceFailure("")


class SliceWriter:
    """Writes slices, and tells of each success at once, so that the next plan knows it however late the watch is.

    It promises:

    * Creates come first, then updates, then deletes (S-71, M-41), those of one kind several at once. Deletes begin only
      where all else has succeeded: nothing is taken away before what replaces it stands.
    * A slice that the server refuses as it is does not keep others from being written; where the server cannot be
      reached or has no time, nothing more is begun. (Upstream ends at the first failure, whatever it is.)
    * Where the server says that a slice has changed or gone, what it has now is told, and the failure is
      ``outdated``: a plan made anew will know better.
    * A slice that is gone already counts as deleted; another one of the same name is never deleted in its place.
    * Cancelled, it has told of all that was answered; of a write under way the watch will tell.
    """

    def __init__(self, writer: Writer, told: WrittenSlices, *, writes_at_once: int) -> None:
        self._writer = writer
        self._told = told
        self._writes_at_once = writes_at_once

    async def write(
        self,
        owner: str,
        *,
        create: Sequence[EndpointSlice] = (),
        update: Sequence[EndpointSlice] = (),
        delete: Sequence[EndpointSlice] = (),
    ) -> SliceWrites:
        """Write slices of ``owner``, which is how messages name it (``Service default/web``)."""
        succeeded = [0, 0, 0]
        failures: list[SliceFailure] = []
        kinds: tuple[tuple[_Write, Sequence[EndpointSlice]], ...] = (
            (partial(self._create, owner), create),
            (partial(self._update, owner), update),
            (partial(self._delete, owner), delete),
        )

        async def attempt(number: int, write: _Write, endpoint_slice: EndpointSlice) -> SliceFailure | None:
            failure = await write(endpoint_slice)
            if failure is None:
                succeeded[number] += 1
            elif failure is not _NAMESPACE_IS_GOING:
                failures.append(failure)
            return failure if failure is not None and not failure.refused else None

        abandoned = False
        for number, (write, endpoint_slices) in enumerate(kinds):
            if not endpoint_slices:
                continue
            if write is kinds[-1][0] and failures:
                break
            stopped = await write_all(
                [partial(attempt, number, write, endpoint_slice) for endpoint_slice in endpoint_slices],
                at_once=self._writes_at_once,
            )
            if stopped is not None:
                abandoned = stopped is _NAMESPACE_IS_GOING
                break
        created, updated, deleted = succeeded
        return SliceWrites(
            created=created, updated=updated, deleted=deleted, failures=tuple(failures), abandoned=abandoned
        )

    async def delete_all(
        self, owner: str, endpoint_slices: Sequence[EndpointSlice], *, failure: str = "failed to delete"
    ) -> SliceWrites:
        """Delete slices of ``owner``, each of them, whatever comes of the others; ``failure`` begins the messages."""
        failures: list[SliceFailure] = []

        async def attempt(endpoint_slice: EndpointSlice) -> None:
            failed = await self._delete(owner, endpoint_slice, failure)
            if failed is not None:
                failures.append(failed)

        await write_all(
            [partial(attempt, endpoint_slice) for endpoint_slice in endpoint_slices],
            at_once=self._writes_at_once,
        )
        return SliceWrites(deleted=len(endpoint_slices) - len(failures), failures=tuple(failures))

    async def _create(self, owner: str, endpoint_slice: EndpointSlice) -> SliceFailure | None:
        try:
            answer = await self._writer.create(
                ENDPOINT_SLICES, endpoint_slice, namespace=endpoint_slice.metadata.namespace
            )
        except ClientError as error:
            if is_namespace_terminating(error):
                return _NAMESPACE_IS_GOING
            return _failure(
                f"failed to create EndpointSlice for {owner}", error, endpoint_slice=endpoint_slice
            )
        self._told.wrote(endpoint_slice, _as_read_back(answer, endpoint_slice))
        return None

    async def _update(self, owner: str, endpoint_slice: EndpointSlice) -> SliceFailure | None:
        key = key_of(endpoint_slice)
        text = f"failed to update {key.name} EndpointSlice for {owner}"
        try:
            answer = await self._writer.update(ENDPOINT_SLICES, endpoint_slice, key=key)
        except ConflictError as error:
            return await self._conflict(text, error, key, endpoint_slice)
        except ClientError as error:
            gone = is_gone(error, ENDPOINT_SLICES, key)
            if gone:
                self._told.gone(key, endpoint_slice.metadata.uid)
            return _failure(text, error, outdated=gone, endpoint_slice=endpoint_slice)
        self._told.wrote(endpoint_slice, _as_read_back(answer, endpoint_slice))
        return None

    async def _delete(
        self, owner: str, endpoint_slice: EndpointSlice, failure: str = "failed to delete"
    ) -> SliceFailure | None:
        key = key_of(endpoint_slice)
        text = f"{failure} {key.name} EndpointSlice for {owner}"
        try:
            await self._writer.delete(ENDPOINT_SLICES, key, uid=endpoint_slice.metadata.uid)
        except ConflictError as error:  # the name is another slice's by now
            return await self._conflict(text, error, key, endpoint_slice)
        except ClientError as error:
            if not is_gone(
                error, ENDPOINT_SLICES, key
            ):  # S-72 and M-10 call it an error; it is what was wanted
                return _failure(text, error)
        self._told.gone(key, endpoint_slice.metadata.uid)
        return None

    async def _conflict(
        self, text: str, error: ConflictError, key: ObjectKey, endpoint_slice: EndpointSlice
    ) -> SliceFailure:
        """Read what the server has instead, and return the failure: outdated once that is known."""
        obstacle = await self._look(key, endpoint_slice.metadata.uid)
        if obstacle is not None and is_unavailable(obstacle):
            return _failure(text, obstacle)
        return _failure(text, error, outdated=obstacle is None)

    async def _look(self, key: ObjectKey, uid: str) -> ClientError | None:
        """Tell what the server has under a name now; return why it cannot be read, and is left to the watch."""
        try:
            item = await self._writer.get(ENDPOINT_SLICES, key)
        except ClientError as error:
            if not is_gone(error, ENDPOINT_SLICES, key):
                return error
            self._told.gone(key, uid)
        else:
            if item.metadata.uid != uid:
                self._told.gone(key, uid)
            self._told.found(item)
        return None


_ENDPOINT = re.compile(r"endpoints\[(\d+)\]")


def _failure(
    text: str, error: ClientError, *, outdated: bool = False, endpoint_slice: EndpointSlice | None = None
) -> SliceFailure:
    endpoints = (endpoint_slice.endpoints if endpoint_slice is not None else None) or ()
    rejected = {
        number: problem
        for match, problem in invalid_fields(error, _ENDPOINT)
        if (number := int(match[1])) < len(endpoints)
    }
    return SliceFailure(
        f"{text}: {error}",
        outdated=outdated,
        refused=not error.retryable,
        rejected=tuple(
            (endpoints[number], problem) for number, problem in single_faults(rejected, len(endpoints))
        ),
        retry_after_seconds=error.retry_after_seconds if isinstance(error, ApiError) else None,
        unavailable=is_unavailable(error),
    )


def _as_read_back(answer: EndpointSlice, sent: EndpointSlice) -> EndpointSlice:
    """Return the answer as the watch will tell it, so that this is no news.

    Empty lists read back as None (S-53). Where the endpoints equal those that were sent, they are kept once, not twice.
    """
    endpoints = sent.endpoints if answer.endpoints == sent.endpoints else answer.endpoints
    return msgspec.structs.replace(answer, endpoints=endpoints or None, ports=answer.ports or None)
