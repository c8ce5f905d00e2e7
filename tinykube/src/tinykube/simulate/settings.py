"""What a simulation is told at its start."""

import msgspec


class SimulateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there are, and how pods live on them. Raises ``ValueError``, in one line, for what cannot be.

    All durations are seconds of simulated time, which runs ``speed`` times as fast as the clock. Everything left to
    chance is drawn from ``seed`` and the names of what it is for: the same seed gives the same run.
    """

    nodes: int = 3
    """Nodes made at the start; 0 leaves nodes to others. One that a user deletes stays deleted."""
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    """Zones the nodes stand in, in turn."""
    region: str = "region-1"
    speed: float = 1.0
    seed: int = 0
    pods_per_node: int = 1000
    image_pull_seconds: float = 2.0
    """How long the first pull of an image on a node takes, give or take a half; later ones take no time."""
    init_seconds: float = 1.0
    """How long an init container runs."""
    startup_seconds: float = 0.0
    """How long after its start a container begins to answer its probes, give or take a half."""
    stop_seconds: float = 2.0
    """How long containers take to end, give or take a half; the grace period of the pod is the limit."""
    ready_while_terminating: bool = True
    """Whether a pod that is told to end stays ready until its containers have ended, as under a real kubelet."""
    crash_rate: float = 0.0
    """Crashes of a container per hour of its running, on average."""

    restarts: bool = True
    """Whether Deployments with the annotation ``restart-every`` are rolled out again and again."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
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
        """Return how long a simulated duration takes by the clock."""
        return simulated_seconds / self.speed
