"""Write EndpointSlices in a safe order, classify failures and report results to the store.

The controllers decide which slices to write, and for which owner.
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
    """A failed write of a slice.

    ``refused`` means that only this object is affected: other slices may still be written.
    """

    refused: bool = False
    rejected: tuple[tuple[Endpoint, str], ...] = ()
    """The endpoints that the server rejects, and why; it may accept the slice without them."""
    retry_after_seconds: float | None = None
    unavailable: bool = False
    """Whether the server was unreachable or unable to serve the request."""


class SliceWrites(msgspec.Struct, frozen=True, gc=False):
    """The result of a set of writes."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    failures: tuple[SliceFailure, ...] = ()
    """In the order in which they happened; each text names the slice, its owner and the cause."""
    abandoned: bool = False
    """Whether the namespace is terminating, so that no further writes are needed (S-72, M-41)."""


class WrittenSlices(Protocol):
    """Receives the state of the server as shown by writes: implemented by the controllers for their stores."""

    def wrote(self, sent: EndpointSlice, answer: EndpointSlice) -> None:
        """Record the server's response to our write of a slice; it may differ from the sent slice."""
        ...

    def found(self, item: EndpointSlice) -> None:
        """Record the server's current slice in place of the expected one."""
        ...

    def gone(self, key: ObjectKey, uid: str) -> None:
        """Record the deletion of a slice."""
        ...


_Write = Callable[[EndpointSlice], Awaitable[SliceFailure | None]]
_NAMESPACE_TERMINATING = SliceFailure("")


class SliceWriter:
    """Writes slices and reports each success immediately, so that the next plan does not depend on the watch.

    Guarantees:

    * Creates come first, then updates, then deletes (S-71, M-41); writes of one kind run concurrently.
      Deletes start only after all other writes have succeeded: nothing is removed before its replacement
      exists.
    * A slice that the server refuses does not stop other writes; if the server is unreachable or overloaded,
      no further write starts. (Upstream stops at the first failure of any kind.)
    * If the server reports that a slice was changed or deleted, its current state is read and reported, and
      the failure is ``outdated``: a new plan will be correct.
    * A slice that no longer exists counts as deleted; another slice with the same name is never deleted
      instead.
    * After cancellation, every completed write has been reported; the watch reports writes that were in
      flight.
    """

    def __init__(self, writer: Writer, sink: WrittenSlices, *, max_concurrent_writes: int) -> None:
        self._writer = writer
        self._sink = sink
        self._max_concurrent_writes = max_concurrent_writes

    async def write(
        self,
        owner: str,
        *,
        create: Sequence[EndpointSlice] = (),
        update: Sequence[EndpointSlice] = (),
        delete: Sequence[EndpointSlice] = (),
    ) -> SliceWrites:
        """Write the slices of ``owner``, as named in messages (``Service default/web``)."""
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
            elif failure is not _NAMESPACE_TERMINATING:
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
                concurrency=self._max_concurrent_writes,
            )
            if stopped is not None:
                abandoned = stopped is _NAMESPACE_TERMINATING
                break
        created, updated, deleted = succeeded
        return SliceWrites(
            created=created, updated=updated, deleted=deleted, failures=tuple(failures), abandoned=abandoned
        )

    async def delete_all(
        self, owner: str, endpoint_slices: Sequence[EndpointSlice], *, failure: str = "failed to delete"
    ) -> SliceWrites:
        """Delete all given slices of ``owner``, even if some deletes fail; ``failure`` starts the messages."""
        failures: list[SliceFailure] = []

        async def attempt(endpoint_slice: EndpointSlice) -> None:
            failed = await self._delete(owner, endpoint_slice, failure)
            if failed is not None:
                failures.append(failed)

        await write_all(
            [partial(attempt, endpoint_slice) for endpoint_slice in endpoint_slices],
            concurrency=self._max_concurrent_writes,
        )
        return SliceWrites(deleted=len(endpoint_slices) - len(failures), failures=tuple(failures))

    async def _create(self, owner: str, endpoint_slice: EndpointSlice) -> SliceFailure | None:
        try:
            answer = await self._writer.create(
                ENDPOINT_SLICES, endpoint_slice, namespace=endpoint_slice.metadata.namespace
            )
        except ClientError as error:
            if is_namespace_terminating(error):
                return _NAMESPACE_TERMINATING
            return _failure(
                f"failed to create EndpointSlice for {owner}", error, endpoint_slice=endpoint_slice
            )
        self._sink.wrote(endpoint_slice, _as_read_back(answer, endpoint_slice))
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
                self._sink.gone(key, endpoint_slice.metadata.uid)
            return _failure(text, error, outdated=gone, endpoint_slice=endpoint_slice)
        self._sink.wrote(endpoint_slice, _as_read_back(answer, endpoint_slice))
        return None

    async def _delete(
        self, owner: str, endpoint_slice: EndpointSlice, failure: str = "failed to delete"
    ) -> SliceFailure | None:
        key = key_of(endpoint_slice)
        text = f"{failure} {key.name} EndpointSlice for {owner}"
        try:
            await self._writer.delete(ENDPOINT_SLICES, key, uid=endpoint_slice.metadata.uid)
        except ConflictError as error:  # the name now belongs to another slice
            return await self._conflict(text, error, key, endpoint_slice)
        except ClientError as error:
            if not is_gone(
                error, ENDPOINT_SLICES, key
            ):  # S-72 and M-10 call it an error, but the slice is deleted as desired
                return _failure(text, error)
        self._sink.gone(key, endpoint_slice.metadata.uid)
        return None

    async def _conflict(
        self, text: str, error: ConflictError, key: ObjectKey, endpoint_slice: EndpointSlice
    ) -> SliceFailure:
        """Read and report the server's current object; return the failure, outdated if that succeeded."""
        obstacle = await self._read_current(key, endpoint_slice.metadata.uid)
        if obstacle is not None and is_unavailable(obstacle):
            return _failure(text, obstacle)
        return _failure(text, error, outdated=obstacle is None)

    async def _read_current(self, key: ObjectKey, uid: str) -> ClientError | None:
        """Report the server's current object under a name; return the error if it cannot be read."""
        try:
            item = await self._writer.get(ENDPOINT_SLICES, key)
        except ClientError as error:
            if not is_gone(error, ENDPOINT_SLICES, key):
                return error
            self._sink.gone(key, uid)
        else:
            if item.metadata.uid != uid:
                self._sink.gone(key, uid)
            self._sink.found(item)
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
    """Return the response in the form in which the watch will report it, so that the watch event changes nothing.

    Empty lists are read back as None (S-53). Endpoints equal to those sent are kept once in memory, not
    twice.
    """
    endpoints = sent.endpoints if answer.endpoints == sent.endpoints else answer.endpoints
    return msgspec.structs.replace(answer, endpoints=endpoints or None, ports=answer.ports or None)
