"""Compaction: history is limited by count, bytes and age, and old rows of the log are deleted in small batches."""

from collections import deque
from collections.abc import Iterable

from tinykube.server.objects import GroupResource
from tinykube.server.storage.collection import Collection
from tinykube.server.storage.log import Batch

_DELETIONS_A_BATCH = 256
_TICK_SECONDS = 1.0


class Compaction:
    """Drops history from memory, and tracks the rows to delete from the log.

    The log records where a history begins no later than it deletes the first earlier row.
    """

    def __init__(self, history_seconds: float, *, now: float, revision: int) -> None:
        self._history_seconds = history_seconds
        self._marks: deque[tuple[float, int]] = deque([(now, revision)])
        """Pairs of a time and the revision at that time: all changes up to it are at least as old."""
        self._stale: deque[int] = deque()
        self._compacted: dict[GroupResource, int] = {}
        self.oldest = 0
        """The revision before which every history has been compacted."""

    def add_stale(self, revisions: Iterable[int]) -> None:
        """Schedule rows for deletion from the log."""
        self._stale.extend(revisions)

    def by_size(self, collection: Collection) -> None:
        """Drop the changes of a collection that exceed its limits."""
        self._drop(collection, collection.history.too_many())

    def by_age(self, collections: Iterable[Collection], *, now: float, revision: int) -> None:
        """Drop expired changes of all collections, at most once a second."""
        marks = self._marks
        if now - marks[-1][0] < _TICK_SECONDS:
            return
        marks.append((now, revision))
        while len(marks) > 1 and now - marks[0][0] >= self._history_seconds:
            self.oldest = marks.popleft()[1]
        for collection in collections:
            collection.forget_snapshots()
            history = collection.history
            self._drop(collection, history.older_than(self.oldest))
            history.oldest = max(history.oldest, self.oldest)

    def _drop(self, collection: Collection, count: int) -> None:
        if not count:
            return
        dropped = collection.history.drop(count)
        if collection.volatile:
            return
        self._compacted[collection.resource] = dropped[-1].revision
        for change in dropped:
            if change.before is not None:
                self._stale.append(change.before.revision)
            if change.type == "DELETED":
                self._stale.append(change.revision)

    def fill(self, batch: Batch) -> None:
        """Add deletions to a batch: more than its new rows, so that the log does not grow."""
        count = min(len(self._stale), max(_DELETIONS_A_BATCH, 4 * len(batch.rows)))
        batch.deletions.extend(self._stale.popleft() for _ in range(count))
        batch.compacted, self._compacted = self._compacted, {}

    def take_back(self, batch: Batch, current: set[int]) -> None:
        """Requeue the deletions of a failed batch, except rows that are ``current`` again.

        Deleting a row twice is harmless.
        """
        self._stale.extendleft(revision for revision in reversed(batch.deletions) if revision not in current)
        self._compacted = {**batch.compacted, **self._compacted}
