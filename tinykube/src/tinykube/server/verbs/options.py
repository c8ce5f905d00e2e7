"""The options of the verbs, and the combinations that are rejected (422)."""

from typing import TypeVar

import msgspec

from tinykube.server.errors import FieldError, forbidden_field, invalid_value, not_supported
from tinykube.server.objects import JsonObject
from tinykube.server.verbs.context import options_invalid

T = TypeVar("T")

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"
_PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a list or watch; strings are not parsed yet."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None

    def check_list(self) -> None:
        """Raise 422 for options that are invalid for a list."""
        errors: list[FieldError] = []
        match = self.resource_version_match
        if match:
            if not self.resource_version:
                errors.append(
                    _match_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
                )
            if self.continue_token:
                errors.append(_match_forbidden("resourceVersionMatch is forbidden when continue is provided"))
            if match not in (EXACT, NOT_OLDER_THAN):
                errors.append(not_supported("resourceVersionMatch", match, (EXACT, NOT_OLDER_THAN, "")))
            if match == EXACT and self.resource_version == "0":
                errors.append(
                    _match_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
                )
        if self.send_initial_events is not None:
            errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        if errors:
            raise options_invalid("ListOptions", errors)

    def check_watch(self) -> None:
        """Raise 422 for options that are invalid for a watch."""
        errors: list[FieldError] = []
        match = self.resource_version_match
        if self.send_initial_events is not None and match != NOT_OLDER_THAN:
            errors.append(
                _match_forbidden(
                    f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
                )
            )
        if match:
            if self.send_initial_events is None:
                errors.append(
                    _match_forbidden(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                    )
                )
            if match != NOT_OLDER_THAN:
                errors.append(not_supported("resourceVersionMatch", match, (NOT_OLDER_THAN,)))
            if self.continue_token:
                errors.append(_match_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        if errors:
            raise options_invalid("ListOptions", errors)


def _match_forbidden(detail: str) -> FieldError:
    return forbidden_field("resourceVersionMatch", detail)


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a create, update or patch. ``kind`` is the kind named in errors."""

    kind: str = "CreateOptions"
    dry_run: tuple[str, ...] = ()
    field_manager: str = ""
    field_validation: str = ""
    force: bool | None = None

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is stored."""
        return bool(self.dry_run)

    def check(self, *, is_apply: bool = False) -> None:
        """Raise 422 for invalid options."""
        errors = dry_run_errors(self.dry_run)
        if self.kind == "PatchOptions" and not is_apply and self.force is not None:
            errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
        if is_apply and not self.field_manager:
            errors.append(
                FieldError(
                    "FieldValueRequired", "fieldManager", "Required value: is required for apply patch"
                )
            )
        if len(self.field_manager.encode()) > 128:
            errors.append(
                FieldError("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes")
            )
        if not self.field_manager.isprintable():
            errors.append(
                invalid_value("fieldManager", self.field_manager, "should only contain printable characters")
            )
        if self.field_validation and self.field_validation not in _FIELD_VALIDATIONS:
            errors.append(
                not_supported("fieldValidation", self.field_validation, ("", "Ignore", "Strict", "Warn"))
            )
        if errors:
            raise options_invalid(self.kind, errors)


def dry_run_errors(values: tuple[str, ...]) -> list[FieldError]:
    """Return the errors of ``dryRun``: the only valid value is ``All``."""
    return (
        [not_supported("dryRun", list(values), ("All",))] if any(value != "All" for value in values) else []
    )


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a delete."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    precondition_uid: str | None = None
    precondition_resource_version: str | None = None
    dry_run: tuple[str, ...] = ()

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is stored."""
        return bool(self.dry_run)

    def check(self) -> None:
        """Raise 422 for invalid options."""
        errors = dry_run_errors(self.dry_run)
        if self.propagation_policy is not None and self.orphan_dependents is not None:
            errors.append(
                invalid_value(
                    "propagationPolicy",
                    self.propagation_policy,
                    "orphanDependents and deletionPropagation cannot be both set",
                )
            )
        if self.propagation_policy is not None and self.propagation_policy not in _PROPAGATION_POLICIES:
            errors.append(
                not_supported("propagationPolicy", self.propagation_policy, (*_PROPAGATION_POLICIES, "nil"))
            )
        if errors:
            raise options_invalid("DeleteOptions", errors)

    @classmethod
    def from_document(cls, document: JsonObject) -> "DeleteOptions":
        """Read the body of a DELETE. Fields of a wrong type count as absent: the schema has already checked them."""
        preconditions = document.get("preconditions")
        if not isinstance(preconditions, dict):
            preconditions = {}
        dry_run = document.get("dryRun")
        return cls(
            grace_period_seconds=_typed(document.get("gracePeriodSeconds"), int),
            propagation_policy=_typed(document.get("propagationPolicy"), str),
            orphan_dependents=_typed(document.get("orphanDependents"), bool),
            precondition_uid=_typed(preconditions.get("uid"), str),
            precondition_resource_version=_typed(preconditions.get("resourceVersion"), str),
            dry_run=tuple(map(str, dry_run)) if isinstance(dry_run, list) else (),
        )


def _typed(value: object, kind: type[T]) -> T | None:
    if isinstance(value, bool) and kind is not bool:
        return None
    return value if isinstance(value, kind) else None
