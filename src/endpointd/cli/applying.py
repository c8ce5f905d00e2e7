"""Manifests put on a server: all of them, or a word for each that is not.

Everything is tried as a dry run first. What a dry run cannot know (a namespace that is only about to be) is left to
the real one; whatever that refuses is named, with what has been done and what has not.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from endpointd.cli.manifests import Manifest
from endpointd.client.discovery import ApiResource, Discovery, UnknownKindError, object_path
from endpointd.client.errors import AlreadyExistsError, ApiError, NotFoundError
from endpointd.client.rest import Client

FIELD_MANAGER = "endpointd"
_MERGE_PATCH = "application/merge-patch+json"
_EARLY_KINDS = ("Namespace", "CustomResourceDefinition")

Outcome = Literal["created", "configured"]


class Applied(msgspec.Struct, frozen=True):
    """What became of one manifest."""

    manifest: Manifest
    outcome: Outcome


class Refusal(msgspec.Struct, frozen=True):
    """Why one manifest could not be applied."""

    manifest: Manifest
    problem: str

    def __str__(self) -> str:
        """Return a line that names place, object and problem."""
        return f"{self.manifest.place}: {self.manifest.kind} {self.manifest.name}: {self.problem}"


class RefusedError(Exception):
    """Some manifests were refused. ``applied`` are on the server all the same; it is empty after a dry run."""

    def __init__(
        self, refusals: Sequence[Refusal], applied: Sequence[Applied], left: Sequence[Manifest]
    ) -> None:
        super().__init__("\n".join(str(refusal) for refusal in refusals))
        self.refusals = tuple(refusals)
        self.applied = tuple(applied)
        self.left = tuple(left)


class _Target(msgspec.Struct, frozen=True):
    manifest: Manifest
    resource: ApiResource
    namespace: str

    def path(self, *, with_name: bool) -> str:
        name = self.manifest.name if with_name else ""
        return object_path(self.manifest.api_version, self.resource, self.namespace, name)


async def apply_manifests(
    client: Client,
    manifests: Sequence[Manifest],
    *,
    default_namespace: str = "default",
    tell: Callable[[Applied], None] = lambda applied: None,
) -> tuple[Applied, ...]:
    """Create what is not there, and merge the rest into what is; namespaces first, the rest in its order.

    An object that is there gets every field the manifest sets and keeps all others; lists are put in place of
    lists. Raises :class:`RefusedError` with every refusal where the dry run finds any (nothing is applied then), or
    with the first of the real run, and :class:`endpointd.client.errors.TransportError` where the server cannot be
    reached.
    """
    targets = await _targets(client, manifests, default_namespace)
    await _rehearse(client, targets)
    applied: list[Applied] = []
    for number, target in enumerate(targets):
        try:
            done = Applied(target.manifest, await _apply(client, target, dry_run=False))
        except ApiError as error:
            left = [later.manifest for later in targets[number + 1 :]]
            raise RefusedError([Refusal(target.manifest, str(error))], applied, left) from error
        applied.append(done)
        tell(done)
    return tuple(applied)


async def _targets(client: Client, manifests: Sequence[Manifest], default_namespace: str) -> list[_Target]:
    discovery = Discovery(client)
    targets, refusals = [], []
    for manifest in sorted(manifests, key=lambda manifest: manifest.kind not in _EARLY_KINDS):
        try:
            resource = await discovery.find(manifest.api_version, manifest.kind)
        except UnknownKindError as error:
            refusals.append(Refusal(manifest, str(error)))
            continue
        if manifest.namespace and not resource.namespaced:
            refusals.append(Refusal(manifest, f"a {manifest.kind} belongs to no namespace"))
        namespace = (manifest.namespace or default_namespace) if resource.namespaced else ""
        targets.append(_Target(manifest, resource, namespace))
    if refusals:
        raise RefusedError(refusals, (), [target.manifest for target in targets])
    return targets


async def _rehearse(client: Client, targets: Sequence[_Target]) -> None:
    coming = {target.manifest.name for target in targets if target.manifest.kind == "Namespace"}
    refusals = []
    for target in targets:
        try:
            await _apply(client, target, dry_run=True)
        except NotFoundError as error:
            if target.namespace not in coming:
                refusals.append(Refusal(target.manifest, str(error)))
        except ApiError as error:
            refusals.append(Refusal(target.manifest, str(error)))
    if refusals:
        raise RefusedError(refusals, (), [target.manifest for target in targets])


async def _apply(client: Client, target: _Target, *, dry_run: bool) -> Outcome:
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"} | (
        {"dryRun": "All"} if dry_run else {}
    )
    body = msgspec.json.encode(target.manifest.document)
    try:
        await client.request("POST", target.path(with_name=False), query=query, body=body)
    except AlreadyExistsError:
        path = target.path(with_name=True)
        await client.request("PATCH", path, query=query, body=body, content_type=_MERGE_PATCH)
        return "configured"
    return "created"
