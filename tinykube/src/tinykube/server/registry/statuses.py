"""The ``status`` subresource, shared by all kinds, and validation of its counts."""

from collections.abc import Sequence

from tinykube.server.errors import FieldError, invalid_value
from tinykube.server.json_access import get_int
from tinykube.server.objects import JsonObject
from tinykube.server.registry import validation
from tinykube.server.registry.definition import Subresource


def status_subresource(kind: str) -> Subresource:
    """Return the ``status`` subresource of a kind."""
    return Subresource(name="status", verbs=("get", "patch", "update"), kind=kind)


def count_errors(status: JsonObject, names: Sequence[str]) -> list[FieldError]:
    """Return errors for negative counts in a status."""
    return [
        error for name in names for error in validation.nonnegative(f"status.{name}", get_int(status, name))
    ]


def at_most(status: JsonObject, name: str, limit: str, text: str) -> list[FieldError]:
    """Return an error if one count of a status exceeds another."""
    if get_int(status, name) > get_int(status, limit):
        return [invalid_value(f"status.{name}", get_int(status, name), text)]
    return []


def not_decremented(status: JsonObject, old: JsonObject, name: str) -> list[FieldError]:
    """Return an error if a counter decreased or was removed."""
    if old.get(name) is not None and get_int(status, name) < get_int(old, name):
        return [invalid_value(f"status.{name}", get_int(status, name), "cannot be decremented")]
    return []
