"""The schema as the verbs want it: by group, version and kind, with refusals that are answers."""

from collections.abc import Sequence

from tinykube.server.errors import bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.schema.conform import conform
from tinykube.server.schema.defaults import apply_defaults
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import kind_type


class TypeSchema:
    """What is known of the types (:class:`tinykube.server.verbs.interfaces.Schema`). Has no state of its own."""

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
