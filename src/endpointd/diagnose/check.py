"""Is everything as pods and services say it should be: a whole cluster compared with what the controllers would have. Pure."""

from collections.abc import Iterable

import msgspec

from endpointd.diagnose.changes import Settings, changes_of_all
from endpointd.diagnose.check_planned import missing_or_wrong
from endpointd.diagnose.check_standing import standing
from endpointd.diagnose.findings import SEVERITIES, Finding, Severity
from endpointd.diagnose.snapshot import World


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What was looked at, and what was found: errors first, then by service."""

    findings: tuple[Finding, ...]
    services: int
    pods: int
    slices: int
    endpoints: int
    unread: tuple[str, ...] = ()
    """What could not be read, so that nothing can be said of it."""

    def count(self, severity: Severity) -> int:
        """Return how many findings are so severe."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong: there are notes at the most."""
        return all(finding.severity == "note" for finding in self.findings)


def check(world: World, settings: Settings | None = None) -> Report:
    """Compare everything in a snapshot; O(the cluster). A cluster whose controllers are at rest has no finding.

    One that is changing may show findings that are gone a moment later: what is read is not of one moment.
    """
    settings = settings or Settings()
    found = [*missing_or_wrong(world, list(changes_of_all(world, settings))), *standing(world)]
    snapshot = world.snapshot
    unreadable = {unread.resource for unread in snapshot.unread}
    distinct = {
        (finding.code, finding.kind, finding.namespace, finding.name, finding.cause): finding
        for finding in found
        if finding.kind not in _kinds_of(unreadable)
    }
    return Report(
        findings=tuple(
            sorted(
                distinct.values(),
                key=lambda one: (
                    SEVERITIES.index(one.severity),
                    one.namespace,
                    one.service,
                    one.code,
                    one.name,
                ),
            )
        ),
        services=len(snapshot.services),
        pods=len(snapshot.pods),
        slices=len(snapshot.slices),
        endpoints=len(snapshot.endpoints),
        unread=tuple(f"{unread.resource}: {unread.why}" for unread in snapshot.unread),
    )


def _kinds_of(resources: Iterable[str]) -> set[str]:
    kinds = {"endpoints": "Endpoints", "endpointslices": "EndpointSlice"}
    return {kinds[resource] for resource in resources if resource in kinds}
