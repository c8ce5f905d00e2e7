"""Patches, as the verbs want them."""

from endpointd.apiserver.errors import StatusError
from endpointd.apiserver.http.plain_decoder import PlainDecoder
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.verbs.ports import PatchType


class BuiltinDecoder(PlainDecoder):
    """Reads bodies."""


class BuiltinPatches:
    """See :class:`~endpointd.apiserver.verbs.ports.Patches`."""

    def apply(
        self, patch_type: PatchType, group: str, version: str, kind: str, document: JsonObject, patch: object
    ) -> JsonObject:
        """Refuse."""
        raise StatusError(415, "UnsupportedMediaType", "no patch of this type is taken")
