"""What shadow mode has found, as metrics; all series are there from the start."""

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
    """Return the families of a shadow, as they are now; before the first look the ratio is 1."""
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
            "Objects that are, and have been for a while, not what endpointd would make of them.",
            differences,
        ),
        Family(
            "endpointd_shadow_differences_begun_total",
            "counter",
            "Differences that have begun to stand.",
            (Sample(now.begun),),
        ),
        Family(
            "endpointd_shadow_services_checked_total",
            "counter",
            "Looks at a service.",
            (Sample(now.checks),),
        ),
        Family(
            "endpointd_shadow_services",
            "gauge",
            "Services, and Endpoints without one, that have been looked at.",
            (Sample(now.services),),
        ),
        Family(
            "endpointd_shadow_agreement_ratio",
            "gauge",
            "The part of these services of which no difference stands.",
            (Sample(ratio),),
        ),
    ]
