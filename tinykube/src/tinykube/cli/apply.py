"""Apply manifests to a server: all of them, or an error for each one that was rejected.

Every manifest is sent as a dry run first. A dry run cannot cover namespaces and kinds that the same manifests
create; if the real request is rejected, the error lists the applied and the remaining manifests.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from aiokube.client.api_resources import ApiResource, Discovery, UnknownKindError, object_path
from aiokube.client.errors import AlreadyExistsError, ApiError, NotFoundError
from aiokube.client.manifests import Manifest
from aiokube.client.rest import Client
from tinykube.server.registry.stored import STORED_KINDS

_MERGE_PATCH = "application/merge-patch+json"
_DEFINITION = "CustomResourceDefinition"
_ORDER = {"Namespace": 0, _DEFINITION: 1}

Outcome = Literal["created", "configured", "skipped"]


class Applied(msgspec.Struct, frozen=True):
    """The result of applying one manifest."""

    manifest: Manifest
    outcome: Outcome


class Refusal(msgspec.Struct, frozen=True):
    """The reason why one manifest was rejected."""

    manifest: Manifest
    problem: str
    unknown_kind: bool = False

    def __str__(self) -> str:
        """Return a line with the place, object and problem."""
        return f"{self.manifest.place}: {self.manifest.kind} {self.manifest.name}: {self.problem}"


class RefusedError(Exception):
    """Some manifests were rejected. ``applied`` lists those already on the server; it is empty after a failed dry run."""

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
    is_defined_here: bool = False
    """Whether a CustomResourceDefinition of the same manifests defines the kind; no dry run is possible then."""

    def path(self, *, with_name: bool) -> str:
        name = self.manifest.name if with_name else ""
        return object_path(self.manifest.api_version, self.resource, self.namespace, name)


async def apply_manifests(
    client: Client,
    manifests: Sequence[Manifest],
    *,
    default_namespace: str = "default",
    skip_unknown: bool = False,
) -> tuple[Applied, ...]:
    """Create missing objects and merge the others into the existing ones.

    Namespaces come first, then CustomResourceDefinitions, then the rest in the given order. In an existing
    object, the fields of the manifest are overwritten and all other fields are kept; lists are replaced. With
    ``skip_unknown``, objects of kinds that the server does not serve are skipped. The server derives the
    field manager from the client's user agent.

    Raises :class:`RefusedError` with every rejection of the dry run (nothing is applied then), or with the
    first rejection of the real run, and :class:`aiokube.client.errors.TransportError` if the server cannot be
    reached.
    """
    targets, unknown = await _targets(client, manifests, default_namespace)
    if unknown and not skip_unknown:
        raise RefusedError(unknown, (), [target.manifest for target in targets])
    await _dry_run(client, targets)
    applied = [Applied(refusal.manifest, "skipped") for refusal in unknown]
    for number, target in enumerate(targets):
        try:
            done = Applied(target.manifest, await _apply(client, target, dry_run=False))
        except ApiError as error:
            left = [later.manifest for later in targets[number + 1 :]]
            raise RefusedError([Refusal(target.manifest, str(error))], applied, left) from error
        applied.append(done)
    return tuple(applied)


async def _targets(
    client: Client, manifests: Sequence[Manifest], default_namespace: str
) -> tuple[list[_Target], list[Refusal]]:
    """Return the target of each manifest, and a refusal for each kind that the server does not serve."""
    discovery = Discovery(client)
    defined = {
        key: resource
        for manifest in manifests
        if manifest.kind == _DEFINITION
        for key, resource in _defined_kinds(manifest.document.get("spec"))
    }
    targets: list[_Target] = []
    refusals: list[Refusal] = []
    unknown: list[Refusal] = []
    for manifest in sorted(manifests, key=lambda manifest: _ORDER.get(manifest.kind, len(_ORDER))):
        is_defined_here = False
        try:
            resource = await discovery.find(manifest.api_version, manifest.kind)
        except UnknownKindError as error:
            found = defined.get((manifest.api_version, manifest.kind))
            if found is None:
                unknown.append(Refusal(manifest, str(error), unknown_kind=True))
                continue
            resource, is_defined_here = found, True
        if manifest.namespace and not resource.namespaced:
            refusals.append(
                Refusal(manifest, f"{manifest.kind} is cluster-scoped: remove metadata.namespace")
            )
        namespace = (manifest.namespace or default_namespace) if resource.namespaced else ""
        targets.append(_Target(manifest, resource, namespace, is_defined_here))
    if refusals:
        raise RefusedError(unknown + refusals, (), [target.manifest for target in targets])
    return targets, unknown


def _defined_kinds(spec: Any) -> Iterator[tuple[tuple[str, str], ApiResource]]:
    """Yield the kinds that a CustomResourceDefinition defines; invalid definitions are left to the server."""
    try:
        names = spec["names"]
        resource = ApiResource(str(names["plural"]), str(names["kind"]), spec.get("scope") != "Cluster")
        for version in spec["versions"]:
            yield (f"{spec['group']}/{version['name']}", resource.kind), resource
    except (AttributeError, KeyError, TypeError):
        return


async def _dry_run(client: Client, targets: Sequence[_Target]) -> None:
    coming = {target.manifest.name for target in targets if target.manifest.kind == "Namespace"}
    refusals = []
    for target in targets:
        if target.is_defined_here:
            continue
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
    query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
    body = msgspec.json.encode(target.manifest.document)
    try:
        await client.request("POST", target.path(with_name=False), query=query, body=body)
    except AlreadyExistsError:
        path = target.path(with_name=True)
        await client.request("PATCH", path, query=query, body=body, content_type=_MERGE_PATCH)
        return "configured"
    return "created"


def summary_lines(applied: Sequence[Applied]) -> Iterator[str]:
    """Summarise the applied manifests, and list kinds that no controller here acts on."""
    counts = Counter(one.outcome for one in applied)
    yield ", ".join(
        f"{count} {'object' if count == 1 else 'objects'} {outcome}" for outcome, count in counts.items()
    )
    for one in applied:
        if one.outcome == "skipped":
            yield f"skipped: {one.manifest}: the server does not serve {one.manifest.api_version} {one.manifest.kind}"
    stored = {(one.kind, one.api_version) for one in STORED_KINDS}
    idle = Counter(
        one.manifest.kind for one in applied if (one.manifest.kind, one.manifest.api_version) in stored
    )
    if idle:
        yield f"stored, but no controller here acts on: {', '.join(f'{count} {kind}' for kind, count in idle.items())}"


def refusal_text(error: RefusedError) -> str:
    """Return one line per refusal, followed by the applied and the remaining manifests."""
    lines = ["the manifests were rejected:", *(f"  {refusal}" for refusal in error.refusals)]
    if error.applied:
        done: Sequence[Applied] = error.applied
        lines.append(f"applied before that: {', '.join(str(one.manifest) for one in done)}")
        lines.append(f"not applied: {', '.join(map(str, error.left)) or 'nothing else'}")
    else:
        lines.append("nothing was applied")
    if any(refusal.unknown_kind for refusal in error.refusals):
        lines.append("Add --skip-unknown to skip kinds that the server does not serve.")
    return "\n".join(lines)
