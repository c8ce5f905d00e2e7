"""The interface of the lifecycle controllers to the verbs: creates, deletions and updates under the usual rules.

The server injects the implementations. They may raise a StatusError, which is retried with backoff; a missing
object (404) or a replaced one (409) counts as done.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from tinykube.server.objects import JsonObject, StorageKey

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]

Make = Callable[[JsonObject], JsonObject]
"""Gets a copy of the current object and returns its replacement; an equal one is not written. Called again after each
lost race."""


class Creator(Protocol):
    """Creates one object, like a POST to its collection."""

    async def __call__(self, key: StorageKey, body: JsonObject) -> None:
        """Create the object with this key's name and namespace; durable when it returns. Raises StatusError."""
        ...


class Deleter(Protocol):
    """Deletes one object, like a DELETE of its path: finalizers and grace periods apply."""

    async def __call__(
        self,
        key: StorageKey,
        uid: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
    ) -> None:
        """Delete the object with this uid; durable when it returns. ``None``: the default grace period and policy.

        Raises StatusError.
        """
        ...


class Updater(Protocol):
    """Updates one object, like a PUT of its path; a terminating object is removed with its last finalizer."""

    async def __call__(self, key: StorageKey, make: Make, *, subresource: str = "") -> None:
        """Update the object with ``make(current)``; durable when it returns.

        ``subresource``: ``"finalize"`` writes a namespace's ``spec.finalizers``, ``"status"`` a status.
        Raises StatusError, and the errors of ``make``.
        """
        ...
