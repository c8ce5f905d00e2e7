"""The settings of a simulation."""

import msgspec


class SimulateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The number of nodes, and the behaviour of pods. Raises ``ValueError`` with one line for invalid values.

    All durations are seconds of simulated time, which runs ``speed`` times as fast as the clock. Random values are drawn
    from ``seed`` and the names of the objects: the same seed gives the same run.
    """

    nodes: int = 3
    """Nodes created at the start. A node that a user deletes stays deleted."""
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    """Zones of the nodes, in turn."""
    region: str = "region-1"
    speed: float = 1.0
    seed: int = 0
    pods_per_node: int = 1000
    image_pull_seconds: float = 2.0
    """Duration of the first pull of an image on a node, plus or minus 50 %; later pulls take no time."""
    init_seconds: float = 1.0
    """Run time of an init container, plus or minus 50 %."""
    startup_seconds: float = 0.0
    """Time from a container's start until its probes succeed, plus or minus 50 %."""
    stop_seconds: float = 2.0
    """Time that containers take to stop, plus or minus 50 %, within the pod's grace period."""
    ready_while_terminating: bool = True
    """Whether a deleted pod stays ready until its containers have stopped, as with a real kubelet."""
    crash_rate: float = 0.0
    """Average crashes of a container per hour of running."""

    restarts: bool = True
    """Whether Deployments with the annotation ``restart-every`` are restarted."""

    def __post_init__(self) -> None:
        """Reject invalid values."""
        if self.nodes < 0 or self.nodes > 2000:
            raise ValueError(f"nodes must be 0 to 2000, not {self.nodes}")
        if not self.zones or not all(self.zones):
            raise ValueError("zones must name at least one zone, and none may be empty")
        if not 0 < self.speed <= 10_000:
            raise ValueError(f"speed must be more than 0 and at most 10000, not {self.speed:g}")
        if self.pods_per_node < 1 or self.pods_per_node > 4000:
            raise ValueError(f"pods_per_node must be 1 to 4000, not {self.pods_per_node}")
        for name in ("image_pull_seconds", "init_seconds", "startup_seconds", "stop_seconds", "crash_rate"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name):g}")

    def real_seconds(self, simulated_seconds: float) -> float:
        """Convert a simulated duration to seconds of the clock."""
        return simulated_seconds / self.speed
