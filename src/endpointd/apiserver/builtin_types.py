"""The schema and the patches, as the verbs and the wire want them."""

from collections.abc import Sequence

from endpointd.apiserver.errors import StatusError
from endpointd.apiserver.http.plain_decoder import PlainDecoder
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.verbs.ports import PatchType


class BuiltinDecoder(PlainDecoder):
    """Reads bodies."""


class BuiltinSchema:
    """See :class:`~endpointd.apiserver.verbs.ports.Schema`."""

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Take a document as it is."""
        return ()

    def apply_defaults(self, group: str, version: str, kind: str, document: JsonObject) -> None:
        """Fill in nothing."""


class BuiltinPatches:
    """See :class:`~endpointd.apiserver.verbs.ports.Patches`."""

    def apply(
        self, patch_type: PatchType, group: str, version: str, kind: str, document: JsonObject, patch: object
    ) -> JsonObject:
        """Refuse."""
        raise StatusError(415, "UnsupportedMediaType", "no patch of this type is taken")
