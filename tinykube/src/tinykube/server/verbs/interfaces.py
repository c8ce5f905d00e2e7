"""What the verbs need of others: a schema and patches. Whoever composes the server hands them in."""

from collections.abc import Sequence
from typing import Literal, Protocol

from tinykube.server.objects import JsonObject

PatchType = Literal["json", "merge", "strategic"]


class Schema(Protocol):
    """What is known of the types. Documents are changed in place."""

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Check the types of all fields, and take out those that are unknown; return what was wrong with these.

        The returned texts are as strict validation tells them (``unknown field "spec.foo"``). Raises a
        :class:`~tinykube.server.errors.StatusError` of 400 where a value has the wrong type.
        """
        ...

    def apply_defaults(self, group: str, version: str, kind: str, document: JsonObject) -> None:
        """Fill in what a type has of fixed defaults."""
        ...


class Patches(Protocol):
    """What a patch makes of a document. Neither argument is changed; refusals are StatusErrors."""

    def apply(
        self, patch_type: PatchType, group: str, version: str, kind: str, document: JsonObject, patch: object
    ) -> JsonObject:
        """Return the patched document."""
        ...
