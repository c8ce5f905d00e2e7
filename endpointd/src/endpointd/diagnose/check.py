"""Is everything right: what is published compared with what pods and services say, and services that get no traffic. Pure."""

from collections.abc import Iterator

import msgspec

from aiokube.api.meta import key_of
from endpointd.diagnose.changes import Settings, changes_of_all
from endpointd.diagnose.check_planned import missing_or_wrong
from endpointd.diagnose.findings import SEVERITIES, Finding, Severity
from endpointd.diagnose.leftovers import standing
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import traffic_problems


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What was looked at, and what was found: errors first, then by service."""

    findings: tuple[Finding, ...]
    services: int
    pods: int
    slices: int
    endpoints: int
    unread: tuple[str, ...] = ()
    """What could not be read, so that nothing is said of what depends on it."""
    unread_resources: tuple[str, ...] = ()
    """The same for programs: ``nodes``, ``endpointslices``."""
    assumed: str = ""

    def count(self, severity: Severity) -> int:
        """Return how many findings are so severe."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong in what was looked at: there are notes at the most."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def is_publication_known(self) -> bool:
        """Whether what is published was read: without it, being healthy says little."""
        return "endpointslices" not in self.unread_resources


def check(world: ClusterIndex, settings: Settings | None = None) -> Report:
    """Look at everything in a snapshot; O(the cluster).

    A cluster whose controllers are at rest, and whose services can all receive traffic, has no finding. One that is changing
    may show findings that are gone a moment later: what is read is not of one moment. What depends on a collection that
    could not be read is not judged.
    """
    found = [*publication_findings(world, settings), *_traffic_findings(world)]
    snapshot = world.snapshot
    return Report(
        findings=tuple(
            sorted(
                found,
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
        unread_resources=tuple(unread.resource for unread in snapshot.unread),
        assumed=snapshot.assumed,
    )


def publication_findings(world: ClusterIndex, settings: Settings | None = None) -> list[Finding]:
    """Return what Endpoints and EndpointSlices should not say, or do not say."""
    found = [*missing_or_wrong(world, list(changes_of_all(world, settings or Settings()))), *standing(world)]
    distinct = {
        (finding.code, finding.kind, finding.namespace, finding.name, finding.cause): finding
        for finding in found
    }
    return list(distinct.values())


def _traffic_findings(world: ClusterIndex) -> Iterator[Finding]:
    for service in world.services.values():
        key = key_of(service)
        for problem in traffic_problems(world, service):
            yield Finding(
                problem.code,
                problem.severity,
                key.namespace,
                key.name,
                "Service",
                key.name,
                problem.cause,
                problem.fix,
            )
