"""The names of the faults, importable without the server: the command line lists them in its help."""

from typing import Literal, get_args

FaultName = Literal[
    "refuse",
    "delay",
    "lose-request",
    "lose-answer",
    "hang",
    "stale-read",
    "drop-watch",
    "end-watch",
    "expire-watch",
    "stall-watch",
    "duplicate-events",
]
FAULT_NAMES: tuple[FaultName, ...] = get_args(FaultName)
