"""Pick an endpoint for each request: the least used one, and never one that terminates while others are ready."""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator

from aiokube.discovery import EndpointView, ServiceEndpoints


class NoEndpointError(Exception):
    """No endpoint can serve the request; the message names the reason."""


class LeastUsed:
    """Picks the usable endpoint with the fewest requests in flight, at random among equals. Thread-safe."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.SystemRandom()
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._endpoints: ServiceEndpoints | None = None

    def use(self, endpoints: ServiceEndpoints) -> None:
        """Pick from these endpoints; requests in flight are not affected."""
        self._endpoints = endpoints

    @contextlib.contextmanager
    def pick(self, *, avoid: frozenset[str] = frozenset()) -> Iterator[EndpointView]:
        """Yield an endpoint for the duration of a request. Raises NoEndpointError."""
        endpoints = self._endpoints
        usable = endpoints.usable if endpoints is not None else ()
        left = [each for each in usable if each.address not in avoid] or usable
        if not left:
            raise NoEndpointError((endpoints and endpoints.problem) or "no endpoint is usable")
        with self._lock:
            fewest = min(self._in_flight[each.address] for each in left)
            chosen = self._rng.choice([each for each in left if self._in_flight[each.address] == fewest])
            self._in_flight[chosen.address] += 1
        try:
            yield chosen
        finally:
            with self._lock:
                self._in_flight[chosen.address] -= 1
                self._in_flight += Counter()  # forgets addresses at zero
