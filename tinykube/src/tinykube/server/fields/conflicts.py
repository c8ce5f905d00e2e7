"""The error response for an apply that conflicts with other managers."""

from collections.abc import Mapping

from tinykube.server.errors import StatusError
from tinykube.server.fields.elements import format_path
from tinykube.server.fields.managers import UPDATE, ManagerId, identity_order
from tinykube.server.fields.sets import FieldSet, paths


def conflict_error(conflicts: Mapping[ManagerId, FieldSet]) -> StatusError:
    """409 with one cause per field, sorted by manager and field."""
    found = [
        (_format_manager(who), [format_path(path) for path in paths(fields)])
        for who, fields in sorted(conflicts.items(), key=lambda pair: identity_order(pair[0]))
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, fields in found
        for field in fields
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for manager, fields in found
            for line in (f"conflicts with {manager}:", *(f"- {field}" for field in fields))
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, details={"causes": causes})


def _format_manager(who: ManagerId) -> str:
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    if who.operation == UPDATE:
        text += f" using {who.api_version}"
    return text
