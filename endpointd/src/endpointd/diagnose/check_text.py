"""What a check found, as people read it. Pure."""

from collections.abc import Iterator

from endpointd.diagnose.check import Report
from endpointd.diagnose.findings import Finding, Severity
from endpointd.diagnose.style import Colour, Style

_COLOURS: dict[Severity, Colour] = {"error": "red", "warning": "yellow", "note": "dim"}


def report_text(report: Report, style: Style) -> str:
    """Return the findings, grouped by service, and a line that sums up."""
    return style.page(_lines(report, style))


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
    looked_at = ", ".join(
        counted(number, word)
        for number, word in (
            (report.services, "service"),
            (report.pods, "pod"),
            (report.slices, "slice"),
        )
    )
    looked_at += f", {report.endpoints:,} Endpoints"
    notes = report.count("note")
    beside = f", {counted(notes, 'note')}," if notes else ""
    if not report.is_healthy:
        errors, warnings = report.count("error"), report.count("warning")
        text = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        yield style.paint(text, "red" if errors else "yellow") + f"{beside} in {looked_at}"
    elif report.unread:
        yield (
            style.paint("nothing wrong was found in what could be read", "yellow") + f"{beside}: {looked_at}"
        )
    else:
        yield style.paint("nothing is wrong", "green") + f"{beside} in {looked_at}"
    if report.assumed:
        yield style.paint(f"assumed: {report.assumed}", "yellow")
    for unread in report.unread:
        yield style.paint(f"not looked at: {unread}", "yellow")


def counted(number: int, word: str) -> str:
    """Return a number and its noun: ``1 service``, ``2,000 services``."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    colour = _COLOURS[finding.severity]
    what = f"{finding.kind} {finding.name}".strip()
    yield f"  {style.paint(finding.code, colour)}  {what}"
    yield from style.wrapped(finding.cause, "    ", "    ")
    for line in style.wrapped(f"-> {finding.fix}", "       ", "    "):
        yield style.paint(line, "dim")
