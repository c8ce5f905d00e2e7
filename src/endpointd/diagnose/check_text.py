"""What a check found, as people read it. Pure."""

from collections.abc import Iterator

from endpointd.diagnose.check import Report
from endpointd.diagnose.findings import Finding, Severity
from endpointd.diagnose.text import Colour, Style

_COLOURS: dict[Severity, Colour] = {"error": "red", "warning": "yellow", "note": "dim"}


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
    notes = report.count("note")
    beside = f", {notes} notes," if notes else ""
    if report.is_healthy:
        yield style.paint("nothing is wrong", "green") + f"{beside} in {looked_at}"
    else:
        errors, warnings = report.count("error"), report.count("warning")
        counted = style.paint(f"{errors} errors, {warnings} warnings", "red" if errors else "yellow")
        yield f"{counted}{beside} in {looked_at}"
    for unread in report.unread:
        yield style.paint(f"not looked at: {unread}", "yellow")


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    colour = _COLOURS[finding.severity]
    what = f"{finding.kind} {finding.name}".strip()
    yield f"  {style.paint(finding.code, colour)}  {what}"
    yield style.wrapped(finding.cause, "    ", "    ")
    yield style.paint(style.wrapped(f"-> {finding.fix}", "       ", "    "), "dim")
