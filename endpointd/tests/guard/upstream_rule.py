"""How many slices upstream's rule writes, as a model over names alone: every sync looks at everything (S-40 to S-46, S-70).

It shares nothing with what it is compared with: sets of pods, no plans, no memory between syncs.
"""

from collections.abc import Iterable


class UpstreamService:
    """One service of one address type and one set of ports; chance (S-45) is taken out by going in order of names."""

    def __init__(self, max_endpoints: int = 100) -> None:
        self.slices: list[set[str]] = []
        self._max_endpoints = max_endpoints

    def sync(self, desired: Iterable[str]) -> int:
        """Make the slices hold what is desired; return how many are written: created, updated or deleted."""
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
        # S-70: one that would go takes in what would be created.
        return len(updated) + max(len(created), emptied)
