"""What a check found, as people read it. Pure."""

from collections.abc import Iterator

from endpointd.diagnose.check import Finding, Report
from endpointd.diagnose.text import Style


def report_text(report: Report, style: Style) -> str:
    """Return the findings, grouped by service, and a line that sums up."""
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    service = None
    for finding in sorted(report.findings, key=lambda one: (one.namespace, one.service)):
        if (finding.namespace, finding.service) != service:
            if service is not None:
                yield ""
            service = (finding.namespace, finding.service)
            yield style.paint(f"{finding.namespace}/{finding.service or '(no service)'}", "bold")
        yield from _finding(finding, style)
    if service is not None:
        yield ""
    looked_at = f"{report.services} services, {report.pods} pods, {report.slices} slices, {report.endpoints} Endpoints"
    if report.findings:
        warnings = len(report.findings) - report.errors
        yield style.paint(
            f"{report.errors} errors, {warnings} warnings", "red" if report.errors else "yellow"
        ) + (f" in {looked_at}")
    else:
        yield style.paint("nothing is wrong", "green") + f" in {looked_at}"
    for unread in report.unread:
        yield style.paint(f"not looked at: {unread}", "yellow")


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    colour = "red" if finding.severity == "error" else "yellow"
    what = f"{finding.kind} {finding.name}".strip()
    yield f"  {style.paint(finding.code, colour)}  {what}"  # type: ignore[arg-type]
    yield style.wrapped(finding.cause, "    ", "    ")
    yield style.paint(style.wrapped(f"-> {finding.fix}", "       ", "    "), "dim")
