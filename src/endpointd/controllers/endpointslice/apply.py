"""The only place that writes EndpointSlices: does what a plan says and tells the store what came of it."""

from functools import partial
from typing import Protocol

import msgspec

from endpointd.api.core import Service
from endpointd.api.discovery import ENDPOINT_SLICES, EndpointSlice
from endpointd.api.meta import ObjectKey, key_of
from endpointd.client.errors import ClientError, ConflictError
from endpointd.controllers.endpointslice.metrics import Operation, SliceObserver
from endpointd.controllers.endpointslice.plan import FamilyPlan
from endpointd.controllers.endpointslice.state import ServicePlan
from endpointd.controllers.writes import Failure, Writer, is_gone, is_namespace_terminating, write_all

_NAMESPACE_IS_GOING = Failure("")


class WrittenSlices(Protocol):
    """The store, as far as it is told what was written."""

    def record_write(self, item: EndpointSlice) -> None:
        """Take in a slice as the server answered it."""
        ...

    def record_delete(self, key: ObjectKey, uid: str) -> None:
        """Take in that a slice is gone."""
        ...


class SliceApplier:
    """Carries plans out.

    The order within an address type is creates, updates, deletes; the first failure ends that type and leaves the
    others alone (S-21, S-71). Each success enters the store at once, so that the next plan knows it, however late the
    watch is. Where the server says that a slice has changed or gone, what it has now enters the store, too.
    """

    def __init__(
        self,
        writer: Writer,
        store: WrittenSlices,
        *,
        writes_at_once: int,
        observer: SliceObserver | None = None,
    ) -> None:
        self._writer = writer
        self._store = store
        self._writes_at_once = writes_at_once
        self._observer = observer

    async def apply(self, service: Service, plan: ServicePlan) -> list[Failure]:
        """Write what a plan says; return what failed."""
        failures = [
            failure
            for _, family_plan in plan.families
            if (failure := await self._apply_family(service, family_plan)) is not None
        ]
        for piece in plan.strays:  # S-22: after all supported types
            text = f"error deleting {piece.metadata.name} EndpointSlice for Service {key_of(service)}"
            failure = await self._delete(text, piece)
            if failure is not None:
                failures.append(failure)
        return failures

    async def _apply_family(self, service: Service, plan: FamilyPlan) -> Failure | None:
        key = key_of(service)
        phases = (
            [
                partial(self._create, f"failed to create EndpointSlice for Service {key}", piece)
                for piece in plan.create
            ],
            [
                partial(
                    self._update,
                    f"failed to update {piece.metadata.name} EndpointSlice for Service {key}",
                    piece,
                )
                for piece in plan.update
            ],
            [
                partial(
                    self._delete,
                    f"failed to delete {piece.metadata.name} EndpointSlice for Service {key}",
                    piece,
                )
                for piece in plan.delete
            ],
        )
        for writes in phases:
            if writes:
                failure = await write_all(writes, at_once=self._writes_at_once)
                if failure is not None:
                    return None if failure is _NAMESPACE_IS_GOING else failure
        if self._observer is not None and not plan.is_empty:
            self._observer.family_written(service, plan)
        return None

    def _tell(self, operation: Operation) -> None:
        if self._observer is not None:
            self._observer.changed(operation)

    async def _create(self, text: str, piece: EndpointSlice) -> Failure | None:
        try:
            answer = await self._writer.create(ENDPOINT_SLICES, piece, namespace=piece.metadata.namespace)
        except ClientError as error:
            return _NAMESPACE_IS_GOING if is_namespace_terminating(error) else Failure(f"{text}: {error}")
        self._tell("create")
        self._store.record_write(_sharing(answer, piece))
        return None

    async def _update(self, text: str, piece: EndpointSlice) -> Failure | None:
        key = key_of(piece)
        try:
            answer = await self._writer.update(ENDPOINT_SLICES, piece, key=key)
        except ConflictError as error:
            return Failure(f"{text}: {error}", outdated=await self._refresh(key, piece.metadata.uid))
        except ClientError as error:
            gone = is_gone(error, key)
            if gone:
                self._store.record_delete(key, piece.metadata.uid)
            return Failure(f"{text}: {error}", outdated=gone)
        self._tell("update")
        self._store.record_write(_sharing(answer, piece))
        return None

    async def _delete(self, text: str, piece: EndpointSlice) -> Failure | None:
        key = key_of(piece)
        try:
            await self._writer.delete(ENDPOINT_SLICES, key, uid=piece.metadata.uid)
        except ConflictError as error:  # the name is another slice's by now
            return Failure(f"{text}: {error}", outdated=await self._refresh(key, piece.metadata.uid))
        except ClientError as error:
            if not is_gone(error, key):  # S-72 calls it an error; it is what was wanted
                return Failure(f"{text}: {error}")
        else:
            self._tell("delete")
        self._store.record_delete(key, piece.metadata.uid)
        return None

    async def _refresh(self, key: ObjectKey, uid: str) -> bool:
        """Take in what the server has under a name now; False where it cannot be read, and is left to the watch."""
        try:
            self._store.record_write(await self._writer.get(ENDPOINT_SLICES, key))
        except ClientError as error:
            if not is_gone(error, key):
                return False
            self._store.record_delete(key, uid)
        return True


def _sharing(answer: EndpointSlice, sent: EndpointSlice) -> EndpointSlice:
    """Return the answer holding the endpoints that were sent, where they are equal: they are kept once, not twice."""
    if answer.endpoints == sent.endpoints:
        return msgspec.structs.replace(answer, endpoints=sent.endpoints)
    return answer
