"""Metrics of endpointd in shadow mode."""

import re
import socket
import urllib.request


class Figures:
    """Shadow metrics as parsed from /metrics."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def now(self) -> dict[str, float]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        found = re.findall(r"^endpointd_shadow_(\S+) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    def standing(self) -> dict[str, float]:
        """Return the persistent differences by controller and operation."""
        found = {}
        for name, value in self.now().items():
            labels = re.match(r'differences\{controller="(\w+)",kind="\w+",operation="(\w+)"\}', name)
            if labels is not None and value:
                found[f"{labels[1]} {labels[2]}"] = value
        return found
