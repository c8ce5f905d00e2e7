"""What this package asks of the verbs: deletions and updates by the same rules as everyone's.

Whoever composes the server hands both in. They may raise a StatusError, which is tried again later; what is gone
already (404), or has become another object (409), is what was wanted.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from tinykube.server.objects import JsonObject, StorageKey

PropagationPolicy = Literal["Background", "Foreground", "Orphan"]

Make = Callable[[JsonObject], JsonObject]
"""Gets a copy of the current object and returns its replacement; an equal one is not written. Called again after each lost
race."""


class Creator(Protocol):
    """Creates one object as a POST to its collection does."""

    async def __call__(self, key: StorageKey, body: JsonObject) -> None:
        """Create the object with this key's name and namespace; durable when it returns. Raises StatusError."""
        ...


class Deleter(Protocol):
    """Deletes one object as a DELETE of its path does: finalizers hold it, grace periods run."""

    async def __call__(
        self,
        key: StorageKey,
        uid: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
    ) -> None:
        """Delete the object with this uid; durable when it returns. ``None``: the definition's own grace, no policy.

        Raises StatusError.
        """
        ...


class Updater(Protocol):
    """Updates one object as a PUT of its path does; one that is being deleted goes with its last finalizer."""

    async def __call__(self, key: StorageKey, make: Make, *, subresource: str = "") -> None:
        """Update the object with ``make(current)``; durable when it returns.

        ``subresource``: ``"finalize"`` writes a namespace's ``spec.finalizers``, ``"status"`` a status.
        Raises StatusError, and what ``make`` raises.
        """
        ...
