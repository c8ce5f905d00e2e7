"""The interface of patches for the verbs: by patch type and kind; errors are API responses."""

from typing import Literal, Protocol

from tinykube.server.errors import StatusError
from tinykube.server.objects import JsonObject
from tinykube.server.patch.errors import PatchError
from tinykube.server.patch.json_patch import apply_json_patch
from tinykube.server.patch.merge_patch import apply_merge_patch
from tinykube.server.patch.strategic_merge import apply_strategic_merge
from tinykube.server.schema.loader import kind_type

_REASONS = {400: "BadRequest", 413: "RequestEntityTooLarge", 422: "Invalid"}


PatchType = Literal["json", "merge", "strategic"]


class Patches(Protocol):
    """Applies patches. Neither argument is modified; a rejected patch raises a StatusError."""

    def apply(
        self, patch_type: PatchType, group: str, version: str, kind: str, document: JsonObject, patch: object
    ) -> JsonObject:
        """Return the patched document."""
        ...


class TypedPatches:
    """The :class:`Patches` of the built-in kinds. Stateless."""

    def apply(
        self,
        patch_type: PatchType,
        group: str,
        version: str,
        kind: str,
        document: JsonObject,
        patch: object,
    ) -> JsonObject:
        """Return the patched document, not yet conformed; neither argument is modified.

        Raises a StatusError of 400, 413 or 422, and UnknownTypeError for a strategic merge patch of a kind
        without a description.
        """
        try:
            match patch_type:
                case "json":
                    patched = apply_json_patch(document, patch)
                case "merge":
                    patched = apply_merge_patch(document, patch)
                case "strategic":
                    patched = apply_strategic_merge(kind_type(group, version, kind), document, patch)
            if not isinstance(patched, dict):
                raise PatchError(422, "the patch makes a list of the object")
        except PatchError as error:
            details: JsonObject | None = {} if error.code == 422 else None
            raise StatusError(error.code, _REASONS[error.code], error.message, details=details) from None
        except RecursionError:
            raise StatusError(400, "BadRequest", "the patch is nested too deeply") from None
        return patched
