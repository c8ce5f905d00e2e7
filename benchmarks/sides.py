"""The two programs that are compared, and how each is started on a control plane."""

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


def compile_ours(our_command: str) -> bool:
    """Compile the package that the default command runs, as pip does with what it installs; tell whether that worked.

    Nothing is done, and that works, for any other command: whoever gives it knows what is to be measured.
    """
    if our_command != OUR_COMMAND:
        return True
    return all(compile_package(folder) for folder in _our_folders())


def compile_package(folder: Path) -> bool:
    """Compile every module below a folder that is not; tell whether all are. Nothing is printed."""
    return bool(compileall.compile_dir(folder, quiet=2))


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without what belongs to a checkout: programs run as they do where they are installed."""
    return {name: value for name, value in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _our_folders() -> list[Path]:
    spec = importlib.util.find_spec(_OUR_PACKAGE)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec is not None else None) or ()]
