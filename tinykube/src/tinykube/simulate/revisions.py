"""Maintain template history as ControllerRevisions."""

from collections.abc import Container

from aiokube.api.apps import CONTROLLER_REVISIONS, ControllerRevision, Template
from aiokube.api.meta import ObjectMeta, key_of
from aiokube.client.errors import AlreadyExistsError, NotFoundError
from aiokube.runtime.errors import ReconcileError
from tinykube.simulate.api import create, merge
from tinykube.simulate.pods import controller_of
from tinykube.simulate.revision_plan import HASH_LABEL, RevisionPlan, plan_revisions
from tinykube.simulate.simulation_state import SimulationState


class Revisions:
    """The ControllerRevisions of one kind of owner."""

    def __init__(self, state: SimulationState) -> None:
        self._state = state
        self._collisions: dict[str, int] = {}  # by uid

    def of(self, owner: ObjectMeta) -> list[ControllerRevision]:
        """Return the revisions of an owner's template."""
        found = self._state.revisions.store.in_namespace(owner.namespace)
        return [
            each
            for each in found
            if (ref := controller_of(each.metadata)) is not None and ref.uid == owner.uid
        ]

    async def keep(
        self,
        owner: ObjectMeta,
        reference: dict[str, object],
        template: Template,
        *,
        limit: int,
        in_use: Container[str],
        label: str = HASH_LABEL,
    ) -> RevisionPlan:
        """Record the current template; return the executed plan, with the revision's name and hash.

        Raises the client's errors, and ReconcileError if the name is taken by another content: the retry uses
        another name.
        """
        state, store = self._state, self._state.revisions.store
        plan = plan_revisions(
            owner,
            reference,
            template,
            self.of(owner),
            limit=limit,
            in_use=in_use,
            collisions=self._collisions.get(owner.uid, 0),
            label=label,
        )
        if plan.create is not None:
            try:
                made = await create(state.api, CONTROLLER_REVISIONS, plan.create, owner.namespace)
            except AlreadyExistsError:
                self._collisions[owner.uid] = self._collisions.get(owner.uid, 0) + 1
                raise ReconcileError(f"the revision {plan.name} is there already") from None
            store.record_write(made)
        if plan.renumber is not None:
            found, number = plan.renumber
            written = await merge(
                state.api, CONTROLLER_REVISIONS, key_of(found), {"revision": number}, uid=found.metadata.uid
            )
            store.record_write(written)
        for each in plan.deletes:
            try:
                await state.api.delete(CONTROLLER_REVISIONS, key_of(each), uid=each.metadata.uid)
            except NotFoundError:
                continue
            store.record_delete(key_of(each), each.metadata.uid)
        return plan
