"""Check Endpoints and EndpointSlices against pods and services, and find services without traffic. Pure."""

from collections.abc import Iterator

import msgspec

from aiokube.api.meta import key_of
from endpointd.diagnose.changes import Settings, changes_of_all
from endpointd.diagnose.check_planned import missing_or_wrong
from endpointd.diagnose.findings import SEVERITIES, Finding, Severity
from endpointd.diagnose.leftovers import leftover_findings
from endpointd.diagnose.snapshot import ClusterIndex
from endpointd.diagnose.traffic import traffic_problems


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The checked objects and the findings, errors first, then by service."""

    findings: tuple[Finding, ...]
    services: int
    pods: int
    slices: int
    endpoints: int
    unread: tuple[str, ...] = ()
    """Collections that could not be read; findings that depend on them are omitted."""
    unread_resources: tuple[str, ...] = ()
    """The same for programs: ``nodes``, ``endpointslices``."""
    assumed: str = ""

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def is_healthy(self) -> bool:
        """Whether there are no errors or warnings among the checked objects."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def is_publication_known(self) -> bool:
        """Whether EndpointSlices could be read: without them, ``is_healthy`` means little."""
        return "endpointslices" not in self.unread_resources


def check(index: ClusterIndex, settings: Settings | None = None) -> Report:
    """Check all objects in a snapshot. O(cluster).

    A settled cluster whose services can all receive traffic has no findings. While objects change, findings
    may be transient, because the collections are read at different moments. Nothing that depends on an
    unreadable collection is judged.
    """
    found = [*publication_findings(index, settings), *_traffic_findings(index)]
    snapshot = index.snapshot
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


def publication_findings(index: ClusterIndex, settings: Settings | None = None) -> list[Finding]:
    """Return the findings about the content of Endpoints and EndpointSlices."""
    found = [
        *missing_or_wrong(index, list(changes_of_all(index, settings or Settings()))),
        *leftover_findings(index),
    ]
    distinct = {
        (finding.code, finding.kind, finding.namespace, finding.name, finding.cause): finding
        for finding in found
    }
    return list(distinct.values())


def _traffic_findings(index: ClusterIndex) -> Iterator[Finding]:
    for service in index.services.values():
        key = key_of(service)
        for problem in traffic_problems(index, service):
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
