"""Service discovery for the router of vLLM's production-stack, which has its own ``EndpointInfo``."""

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiokube.discovery import EndpointView, PodView, ServiceEndpoints, StaleViewError

RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class EndpointInfo:
    """One engine as the router sees it."""

    url: str
    model_name: str
    added_timestamp: float
    model_label: str | None


def served_model(endpoint: EndpointView) -> str:
    """Ask an engine for its model. Raises OSError, and ValueError or LookupError for an unexpected answer."""
    with urllib.request.urlopen(f"http://{endpoint.address}/v1/models", timeout=10) as answer:
        return str(json.load(answer)["data"][0]["id"])


class LiveServiceDiscovery(PodView):
    """Follows the ready engines of a namespace; ``model_of`` is asked once for each pod. Ends with ``close()``."""

    def __init__(
        self, namespace: str, port: int, label_selector: str, *, kubeconfig: str | Path | None = None,
        model_of: Callable[[EndpointView], str] = served_model,
    ) -> None:  # fmt: skip
        self._model_of = model_of
        self._known: dict[tuple[str, str], EndpointInfo] = {}
        self._asking = threading.Lock()
        super().__init__(
            namespace, label_selector, port=port, labels=["model"], cluster=kubeconfig, stale_after=60,
            on_change=self._update,
        )  # fmt: skip
        self.open()
        self._ask(self.current)

    def get_endpoint_info(self) -> list[EndpointInfo]:
        """Return the engines to use now."""
        usable = {f"http://{each.address}" for each in self.usable}
        return [engine for engine in self._known.values() if engine.url in usable]

    def get_health(self) -> bool:
        """Return whether the view is current."""
        with contextlib.suppress(RuntimeError, StaleViewError):
            self.check()
            return True
        return False

    def _update(self, endpoints: ServiceEndpoints) -> None:
        while not self._ask(endpoints) and not self.wait_for_change(RETRY_SECONDS):
            pass  # an engine did not answer, and nothing has changed

    def _ask(self, endpoints: ServiceEndpoints) -> bool:
        """Learn the model of new pods; return whether all are known."""
        with self._asking:
            known: dict[tuple[str, str], EndpointInfo] = {}
            for each in endpoints.usable:
                pod = ((each.target_ref and each.target_ref.uid) or "", each.address)
                try:
                    known[pod] = self._known.get(pod) or EndpointInfo(
                        f"http://{each.address}", self._model_of(each), time.time(), each.labels.get("model")  # noqa: TID251
                    )  # fmt: skip
                except (OSError, ValueError, LookupError):
                    continue
            self._known = known
            return len(known) == len(endpoints.usable)
