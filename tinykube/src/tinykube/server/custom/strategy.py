"""The strategy of custom resources: everything specific to one of them is in its schema."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from tinykube.server.custom.list_and_embedded_validation import conform_embedded, embedded_errors, list_errors
from tinykube.server.custom.scale import scale_errors
from tinykube.server.custom.structural_schema import (
    Schema,
    drop_nulls,
    fill_defaults,
    is_embedded,
    nodes,
    properties,
    prune,
)
from tinykube.server.custom.validation_result import NEW
from tinykube.server.custom.values import value_errors
from tinykube.server.errors import FieldError, forbidden
from tinykube.server.json_access import get_int, get_list, get_str
from tinykube.server.objects import GroupResource, JsonObject, metadata_of
from tinykube.server.registry.definition import Request, Strategy

_BESIDE_SPEC = ("metadata", "apiVersion")
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")


def shape(document: JsonObject, schema: Schema) -> None:
    """Adapt a stored object to the current schema, in place: it may have been stored with another one."""
    prune(document, schema)
    drop_nulls(document, schema)
    fill_defaults(document, schema)


class VersionView:
    """One version's form of objects that are stored in another version, or with an older schema."""

    def __init__(self, api_version: str, stored_version: str, schemas: Mapping[str, Schema]) -> None:
        self._api_version = api_version
        self._stored_version = stored_version
        self._schemas = schemas

    def to_storage(self, obj: JsonObject) -> JsonObject:
        """Return the stored form: versions differ only in ``apiVersion``."""
        return {**obj, "apiVersion": self._stored_version}

    def from_storage(self, obj: JsonObject) -> JsonObject:
        """Return a copy in this version's form."""
        copy: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
        stored_version, schema = copy.get("apiVersion", ""), self._schemas[self._api_version]
        shape(copy, self._schemas.get(stored_version, schema))
        if stored_version != self._api_version:
            copy["apiVersion"] = self._api_version
            prune(
                copy, schema
            )  # this version's defaults are not applied to a copy that another version stored
        return copy


class CustomStrategy(Strategy):
    """The strategy of one custom resource in one version."""

    plain_finalizers: ClassVar[bool] = True

    def __init__(
        self,
        resource: GroupResource,
        schema: Schema,
        *,
        view: VersionView | None,
        has_status: bool,
        scale: JsonObject | None,
        is_terminating: bool,
    ) -> None:
        self._resource = resource
        self._schema = schema
        self._view = view
        self._has_status = has_status
        self._scale = scale
        self._is_terminating = is_terminating
        self._has_embedded = any(is_embedded(one) for one in nodes(schema))

    def prepare_for_create(self, request: Request, obj: JsonObject) -> None:
        """Drop the status if it is a subresource. Raises 403 while the definition is being deleted."""
        if self._is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self._resource, get_str(metadata_of(obj), "name"), why)
        if self._has_status:
            obj.pop("status", None)
        self._leave_out(obj)
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Keep the status if it is a subresource; any change outside metadata increments the generation."""
        self._leave_out(obj)
        before = self._shaped(old)
        if self._has_status:
            if "status" in before:
                obj["status"] = before["status"]
            else:
                obj.pop("status", None)
        metadata = metadata_of(obj)
        metadata["generation"] = get_int(metadata_of(old), "generation")
        if _content(obj) != _content(before):
            metadata["generation"] += 1

    def prepare_for_status_update(self, request: Request, obj: JsonObject, old: JsonObject) -> None:
        """Restore everything except the status."""
        has_status, status = "status" in obj, obj.get("status")
        managed, version = metadata_of(obj).get("managedFields"), obj.get("apiVersion")
        obj.clear()
        obj.update(self._shaped(old))
        obj["apiVersion"] = version
        if managed:
            metadata_of(obj)["managedFields"] = managed
        else:
            metadata_of(obj).pop("managedFields", None)
        if has_status:
            obj["status"] = status
        else:
            obj.pop("status", None)
        self._leave_out(obj)

    def _leave_out(self, obj: JsonObject) -> None:
        """Remove values that an apply may contain but that are not stored: nulls of unknown type, also in embedded metadata."""
        drop_nulls(obj, self._schema, untyped=True)
        if self._has_embedded:
            conform_embedded(obj, {**self._schema, "x-kubernetes-embedded-resource": False}, "", [])

    def _shaped(self, old: JsonObject) -> JsonObject:
        """Return the stored object as a client would have read it, for comparison with the update."""
        if self._view is not None:
            return self._view.from_storage(old)
        copy: JsonObject = msgspec.json.decode(msgspec.json.encode(old))
        return copy

    def validate(self, request: Request, obj: JsonObject) -> Sequence[FieldError]:
        """Return the errors of a new object; :meth:`validate_update` covers updates."""
        if "resourceVersion" in metadata_of(obj):
            return ()
        errors = value_errors(obj, self._schema)
        errors += scale_errors(obj, self._scale) if self._scale else []
        return errors + embedded_errors(obj, self._schema) + list_errors(obj, self._schema)

    def validate_update(self, request: Request, obj: JsonObject, old: JsonObject) -> Sequence[FieldError]:
        """Return the errors of the changes in an update."""
        before = self._shaped(old)
        of_status = self._status_errors(obj, before)
        errors = value_errors(obj, self._schema, old=before) if of_status is None else of_status
        errors += scale_errors(obj, self._scale) if self._scale else []
        if of_status is None:  # embedded objects are not validated on status updates
            errors += embedded_errors(obj, self._schema)
        if not list_errors(before, self._schema):
            errors += list_errors(obj, self._schema)
        return errors

    def _status_errors(self, obj: JsonObject, before: JsonObject) -> list[FieldError] | None:
        """Return the errors of a status written through the status subresource; ``None`` for other updates."""
        if not self._has_status or obj.get("status", NEW) == before.get("status", NEW):
            return None
        schema = properties(self._schema).get("status")
        if schema is None or "status" not in obj:
            return []
        return value_errors(obj["status"], schema, field="status", old=before.get("status", NEW))

    def warnings(self, request: Request, obj: JsonObject) -> Sequence[str]:
        """Return warnings about unqualified finalizers."""
        found = []
        for name in get_list(metadata_of(obj), "finalizers"):
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in name else ""
                found.append(
                    f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name{path} to avoid '
                    "accidental conflicts with other finalizer writers"
                )
        return found


def _content(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in _BESIDE_SPEC}
