"""Render the findings of a check for people. Pure."""

from collections.abc import Iterator

from endpointd.diagnose.check import Report
from endpointd.diagnose.findings import Finding, Severity
from endpointd.diagnose.style import Colour, Style

_COLOURS: dict[Severity, Colour] = {"error": "red", "warning": "yellow", "note": "dim"}


def report_text(report: Report, style: Style) -> str:
    """Return the findings grouped by service, and a summary line."""
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
    checked = ", ".join(
        counted(number, word)
        for number, word in (
            (report.services, "service"),
            (report.pods, "pod"),
            (report.slices, "slice"),
        )
    )
    checked += f", {report.endpoints:,} Endpoints"
    notes = report.count("note")
    notes_text = f", {counted(notes, 'note')}," if notes else ""
    if not report.is_healthy:
        errors, warnings = report.count("error"), report.count("warning")
        text = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        yield style.paint(text, "red" if errors else "yellow") + f"{notes_text} in {checked}"
    elif report.unread:
        yield (
            style.paint("no problems found in the collections that could be read", "yellow")
            + f"{notes_text}: {checked}"
        )
    else:
        yield style.paint("no problems found", "green") + f"{notes_text} in {checked}"
    if report.assumed:
        yield style.paint(f"assumed: {report.assumed}", "yellow")
    for unread in report.unread:
        yield style.paint(f"unknown: {unread}", "yellow")


def counted(number: int, word: str) -> str:
    """Return a number and its noun: ``1 service``, ``2,000 services``."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    colour = _COLOURS[finding.severity]
    subject = f"{finding.kind} {finding.name}".strip()
    yield f"  {style.paint(finding.code, colour)}  {subject}"
    yield from style.wrapped(finding.cause, "    ", "    ")
    for line in style.wrapped(f"-> {finding.fix}", "       ", "    "):
        yield style.paint(line, "dim")
