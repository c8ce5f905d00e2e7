"""The ``Status`` object in which an API server reports failures, and the causes that clients act on."""

import msgspec

from aiokube.api.meta import ListMeta

FIELD_MANAGER_CONFLICT = "FieldManagerConflict"
NAMESPACE_TERMINATING = "NamespaceTerminating"
RESOURCE_VERSION_TOO_LARGE = "ResourceVersionTooLarge"


class StatusCause(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One cause of a failure: a machine-readable reason, a field, and a message."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The object that a status refers to, and the causes."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The outcome of a request, as the server reports it."""

    kind: str | None = None
    api_version: str | None = None
    metadata: ListMeta | None = None
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: StatusDetails | None = None
    code: int | None = None

    def has_cause(self, reason: str) -> bool:
        """Return whether one of the causes has this reason."""
        causes = (self.details and self.details.causes) or ()
        return any(cause.reason == reason for cause in causes)
