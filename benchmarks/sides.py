"""The two compared programs and their command lines."""

import compileall
import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
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
_OUR_PACKAGE = "endpointd"


class Side(msgspec.Struct, frozen=True):
    """A measured program. ``command`` precedes the flags."""

    name: SideName
    command: tuple[str, ...]

    def invocation(self, kubeconfig: Path, variant: Variant) -> list[str]:
        """Return the command line: the kubeconfig's admin user, only these controllers, no leader election.

        Lifts kube-controller-manager's client rate limits, because endpointd has no such limits.
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
    """Return the programs, upstream first. Raises ``ValueError`` for a missing program or an empty command."""
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


def compile_ours(our_command: str) -> bool:
    """Compile the packages that the default command runs, as pip does at installation; return whether this succeeded.

    Any other command is used as given: returns True without compiling.
    """
    if our_command != OUR_COMMAND:
        return True
    return all(compile_package(folder) for folder in _our_folders())


def compile_package(folder: Path) -> bool:
    """Compile every stale module in a folder; return whether all compile. Prints nothing."""
    return bool(compileall.compile_dir(folder, quiet=2))


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without variables of a checkout, so that programs run as if installed."""
    return {name: value for name, value in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _our_folders() -> list[Path]:
    spec = importlib.util.find_spec(_OUR_PACKAGE)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec is not None else None) or ()]
