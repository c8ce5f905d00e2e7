"""The two programs that are compared, and how each is started on a control plane."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

SideName = Literal["kube-controller-manager", "endpointd"]
Variant = Literal["both", "slices"]

THEIRS: SideName = "kube-controller-manager"
OURS: SideName = "endpointd"
SIDES: tuple[SideName, ...] = get_args(SideName)

CONTROLLERS: dict[Variant, tuple[str, ...]] = {
    "both": ("endpoints-controller", "endpointslice-controller"),
    "slices": ("endpointslice-controller",),
}
OUR_COMMAND = f"{shlex.quote(sys.executable)} -m endpointd run"


class Side(msgspec.Struct, frozen=True):
    """A program under measurement. ``command`` stands before the flags."""

    name: SideName
    command: tuple[str, ...]

    def invocation(self, kubeconfig: Path, variant: Variant) -> list[str]:
        """Return the whole command: as the admin of the kubeconfig, these controllers alone, no election.

        kube-controller-manager's own limits of requests are lifted, as endpointd has none.
        """
        flags = [
            f"--kubeconfig={kubeconfig}",
            f"--controllers={','.join(CONTROLLERS[variant])}",
            "--leader-elect=false",
        ]
        if self.name == THEIRS:
            flags += [
                "--secure-port=0",
                "--use-service-account-credentials=false",
                "--kube-api-qps=5000",
                "--kube-api-burst=5000",
            ]
        return [*self.command, *flags]


def make_sides(names: Sequence[SideName], assets: Path, our_command: str = OUR_COMMAND) -> list[Side]:
    """Return the sides, theirs first. Raises ``ValueError`` where a program is missing or a command is none."""
    sides: list[Side] = []
    if THEIRS in names:
        program = assets / THEIRS
        if not program.exists():
            raise ValueError(
                f"{assets} has no {THEIRS}: put it there, or measure endpointd alone (--sides {OURS})"
            )
        sides.append(Side(THEIRS, (str(program),)))
    if OURS in names:
        command = tuple(shlex.split(our_command))
        if not command:
            raise ValueError("the command for endpointd is empty")
        sides.append(Side(OURS, command))
    return sides
