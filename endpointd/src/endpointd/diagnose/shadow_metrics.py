"""The metrics of shadow mode; all series exist from the start."""

from typing import get_args

from aiokube.runtime.exposition import Family, Sample
from endpointd.diagnose.changes import ControllerName, Operation
from endpointd.diagnose.shadow import Shadow

_KINDS: dict[ControllerName, str] = {
    "endpoints": "Endpoints",
    "endpointslice": "EndpointSlice",
    "mirroring": "EndpointSlice",
}


def shadow_families(shadow: Shadow) -> list[Family]:
    """Return the current metric families of a shadow; the ratio is 1 before the first check."""
    now = shadow.statistics()
    differences = tuple(
        Sample(
            shadow.persistent_diffs.count(controller, kind, operation),
            (("controller", controller), ("kind", kind), ("operation", operation)),
        )
        for controller, kind in _KINDS.items()
        if controller in shadow.controllers
        for operation in get_args(Operation)
    )
    ratio = 1 - now.disagreeing / now.services if now.services else 1.0
    return [
        Family(
            "endpointd_shadow_differences",
            "gauge",
            "Objects that persistently differ from endpointd's plan.",
            differences,
        ),
        Family(
            "endpointd_shadow_differences_begun_total",
            "counter",
            "Differences that have become persistent.",
            (Sample(now.differences_started),),
        ),
        Family(
            "endpointd_shadow_services_checked_total",
            "counter",
            "Checks of a service.",
            (Sample(now.checks),),
        ),
        Family(
            "endpointd_shadow_services",
            "gauge",
            "Services, and Endpoints without one, that have been checked.",
            (Sample(now.services),),
        ),
        Family(
            "endpointd_shadow_agreement_ratio",
            "gauge",
            "Share of these services without a persistent difference.",
            (Sample(ratio),),
        ),
    ]
