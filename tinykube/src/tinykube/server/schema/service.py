"""The schema interface of the verbs: by group, version and kind; errors are API responses."""

from collections.abc import Sequence
from typing import Protocol

from tinykube.server.errors import bad_request
from tinykube.server.objects import JsonObject
from tinykube.server.schema.conform import conform
from tinykube.server.schema.defaults import apply_defaults
from tinykube.server.schema.errors import ConformError
from tinykube.server.schema.loader import kind_type


class Schema(Protocol):
    """The types of all kinds. Documents are changed in place."""

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Check the type of every field and remove unknown fields; return a description of each unknown field.

        The descriptions are those of strict validation (``unknown field "spec.foo"``). Raises a
        :class:`~tinykube.server.errors.StatusError` of 400 for a value of the wrong type.
        """
        ...

    def apply_defaults(self, group: str, version: str, kind: str, document: JsonObject) -> None:
        """Set the static defaults of a type."""
        ...


class TypeSchema:
    """The :class:`Schema` of the built-in kinds. Stateless."""

    def conform(self, group: str, version: str, kind: str, document: JsonObject) -> Sequence[str]:
        """Conform a document to its type, in place; return its unknown fields.

        Raises a StatusError of 400 for values of a wrong type, UnknownTypeError for a kind without a
        description.
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
        """Set the static defaults of a conformed document, in place."""
        apply_defaults(kind_type(group, version, kind), document)
