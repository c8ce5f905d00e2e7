"""The number of slice writes under upstream's rule, as a model over names: every sync reads everything (S-40 to S-46, S-70).

It shares nothing with the code under test: sets of pods, no plans, no memory between syncs.
"""

from collections.abc import Iterable


class UpstreamService:
    """One service with one address type and one port set; name order replaces random choice (S-45)."""

    def __init__(self, max_endpoints: int = 100) -> None:
        self.slices: list[set[str]] = []
        self._max_endpoints = max_endpoints

    def sync(self, desired: Iterable[str]) -> int:
        """Make the slices contain the desired pods; return the number of creates, updates and deletes."""
        most = self._max_endpoints
        waiting = sorted(set(desired).difference(*self.slices))
        wanted = set(desired)
        updated: list[set[str]] = []
        unchanged: list[set[str]] = []
        emptied = 0
        for endpoint_slice in self.slices:
            kept = endpoint_slice & wanted  # S-40
            if not kept:
                emptied += 1
            elif kept != endpoint_slice:
                updated.append(kept)
            else:
                unchanged.append(kept)
        for endpoint_slice in sorted(updated, key=len, reverse=True):  # S-42
            room = max(most - len(endpoint_slice), 0)
            endpoint_slice.update(waiting[:room])
            del waiting[:room]
        created: list[set[str]] = []
        while waiting:  # S-43
            fitting = [
                endpoint_slice for endpoint_slice in unchanged if len(endpoint_slice) + len(waiting) <= most
            ]
            if len(waiting) < most and fitting:
                best = max(fitting, key=len)
                unchanged.remove(best)
                updated.append(best | set(waiting))
                break
            created.append(set(waiting[:most]))
            del waiting[:most]
        self.slices = [*unchanged, *updated, *created]
        # S-70: a slice to delete is reused for one to create.
        return len(updated) + max(len(created), emptied)
