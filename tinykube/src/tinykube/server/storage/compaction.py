"""How the past ends: histories by count, by bytes and by age, and the log's old rows a few at a time."""

from collections import deque
from collections.abc import Iterable

from tinykube.server.objects import GroupResource
from tinykube.server.storage.collection import Collection
from tinykube.server.storage.log import Batch

_DELETIONS_A_BATCH = 256
_TICK_SECONDS = 1.0


class Compaction:
    """What is dropped from memory, and what the log is still to be told of it.

    The log learns where a history begins no later than it deletes the first row of what came before.
    """

    def __init__(self, history_seconds: float, *, now: float, revision: int) -> None:
        self._history_seconds = history_seconds
        self._marks: deque[tuple[float, int]] = deque([(now, revision)])
        """What was there at a time: all of that is at least as old."""
        self._stale: deque[int] = deque()
        self._compacted: dict[GroupResource, int] = {}
        self.oldest = 0
        """The revision before which every history is gone."""

    def add_stale(self, revisions: Iterable[int]) -> None:
        """Have rows deleted that the log does not need any more."""
        self._stale.extend(revisions)

    def by_size(self, collection: Collection) -> None:
        """Drop what is over the limits of one collection."""
        self._drop(collection, collection.history.too_many())

    def by_age(self, collections: Iterable[Collection], *, now: float, revision: int) -> None:
        """Drop what is too old, everywhere; once a second at most."""
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
        """Put what the log is to forget into a batch: more than it can add, so that the log does not grow."""
        count = min(len(self._stale), max(_DELETIONS_A_BATCH, 4 * len(batch.rows)))
        batch.deletions.extend(self._stale.popleft() for _ in range(count))
        batch.compacted, self._compacted = self._compacted, {}

    def take_back(self, batch: Batch, current: set[int]) -> None:
        """Keep for later what a failed batch was to forget, but for rows that are ``current`` again.

        Deleting a row twice does no harm.
        """
        self._stale.extendleft(revision for revision in reversed(batch.deletions) if revision not in current)
        self._compacted = {**batch.compacted, **self._compacted}
