"""The schema as the verbs want it: by group, version and kind, with refusals that are answers."""

from collections.abc import Sequence

from endpointd.apiserver.errors import bad_request
from endpointd.apiserver.objects import JsonObject
from endpointd.apiserver.schema.conform import conform
from endpointd.apiserver.schema.defaults import apply_defaults
from endpointd.apiserver.schema.errors import ConformError
from endpointd.apiserver.schema.loader import kind_type


class TypeSchema:
    """What is known of the types (:class:`endpointd.apiserver.verbs.ports.Schema`). Has no state of its own."""

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Bring a document into the form of its type, in place; return its unknown fields.

        Raises a StatusError of 400 where a value has the wrong type, UnknownTypeError for a kind that is not described.
        """
        try:
            return conform(kind_type(group, version, kind), document)
        except ConformError as error:
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
            ) from None
        except RecursionError:
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: it is nested too deeply'
            ) from None

    def apply_defaults(self, group: str, version: str, kind: str, document: JsonObject) -> None:
        """Fill in the fixed defaults of a conformed document, in place."""
        apply_defaults(kind_type(group, version, kind), document)
