"""The API client of the server's own controllers: the same verbs that HTTP requests use."""

from tinykube.server.errors import conflict, not_found
from tinykube.server.lifecycle.interfaces import Make, PropagationPolicy
from tinykube.server.objects import JsonObject, StorageKey, metadata_of
from tinykube.server.registry.definition import Subresource, UserInfo
from tinykube.server.verbs.context import Backend, Caller, Target, new_request
from tinykube.server.verbs.delete import delete
from tinykube.server.verbs.options import DeleteOptions, WriteOptions
from tinykube.server.verbs.subresources import modify_subresource
from tinykube.server.verbs.write import create, modify

_CALLER = Caller(UserInfo("system:kube-controller-manager", groups=("system:masters",)), "tinykube-lifecycle")


class LoopbackClient:
    """The :mod:`~tinykube.server.lifecycle.interfaces` for the lifecycle controllers, without HTTP."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def create(self, key: StorageKey, body: JsonObject) -> None:
        """Create an object with this key's name and namespace. Raises a StatusError."""
        target = Target(self._target(key).definition, key.namespace)
        metadata = {**metadata_of(body), "name": key.name, "namespace": key.namespace}
        request = new_request(self._backend, _CALLER, dry_run=False)
        await create(self._backend, target, request, WriteOptions(), {**body, "metadata": metadata})

    async def delete(
        self,
        key: StorageKey,
        uid: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
    ) -> None:
        """Delete the object with this uid. Raises a StatusError: 404, or 409 if the object was replaced."""
        options = DeleteOptions(
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            precondition_uid=uid,
        )
        request = new_request(self._backend, _CALLER, dry_run=False)
        await delete(self._backend, self._target(key), request, options)

    async def update(self, key: StorageKey, make: Make, *, subresource: str = "") -> None:
        """Update an object or subresource with ``make(current)``."""
        target = self._target(key, subresource)
        request = new_request(self._backend, _CALLER, dry_run=False)
        if target.subresource is not None and target.subresource.handler is not None:
            await modify_subresource(self._backend, target, request, target.subresource, make)
        else:
            await modify(self._backend, target, request, make)

    def _target(self, key: StorageKey, subresource: str = "") -> Target:
        definition = self._backend.registry.stored_at(key.resource)
        if definition is None:
            raise not_found(key.resource, key.name)
        found: Subresource | None = None
        if subresource:
            found = next((one for one in definition.subresources if one.name == subresource), None)
            if found is None:
                raise conflict(key.resource, key.name, f"there is no {subresource} to write to")
        return Target(definition, key.namespace, key.name, found)
