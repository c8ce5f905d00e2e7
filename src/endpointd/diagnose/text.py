"""Explanations as people read them in a terminal. Pure: colours are marks that the caller may leave out."""

import textwrap
from collections.abc import Iterator
from typing import Literal

from endpointd.diagnose.explain import PodExplanation, ServiceExplanation, Verdict
from endpointd.diagnose.reasons import Reason, Weight

Colour = Literal["green", "yellow", "red", "dim", "bold"]
_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "dim": "2", "bold": "1"}

_VERDICTS: dict[Verdict, tuple[str, Colour]] = {
    "ready": ("in, ready", "green"),
    "not ready": ("in, not ready", "yellow"),
    "terminating": ("in, terminating", "yellow"),
    "out": ("not in", "red"),
    "missing": ("MISSING: it should be in", "red"),
    "left over": ("LEFT OVER: it should not be in", "red"),
}
_MARKS: dict[Weight, tuple[str, Colour]] = {
    "out": ("✗", "red"),
    "not ready": ("!", "yellow"),
    "note": ("·", "dim"),
}


_MOST_SLICES = 8
_MOST_FINE = 10
_FINE_SHOWN = 3
"""Of pods that nothing is to be said of, more than a few are counted."""


class Style:
    """Paints, or not."""

    def __init__(self, *, colours: bool, width: int = 100) -> None:
        self._colours = colours
        self.width = max(width, 60)

    def paint(self, text: str, colour: Colour) -> str:
        """Return the text in a colour, as it is where there are none."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self._colours else text

    def wrapped(self, text: str, indent: str, first: str) -> str:
        """Return a paragraph whose first line begins with ``first`` and the others with ``indent``."""
        body = textwrap.wrap(text, self.width - len(indent), break_long_words=False, break_on_hyphens=False)
        return "\n".join(
            (first if number == 0 else indent) + line for number, line in enumerate(body or [""])
        )


def service_text(found: ServiceExplanation, style: Style) -> str:
    """Return a service and its pods as a page of text."""
    return "\n".join(_lines(found, style)) + "\n"


def _lines(found: ServiceExplanation, style: Style) -> Iterator[str]:
    yield style.paint(f"Service {found.namespace}/{found.name}", "bold") + f"  {found.type}"
    yield f"  selector  {found.selector or '(none)'}"
    yield f"  ports     {found.ports or '(none)'}"
    yield f"  families  {' '.join(found.families) or '(none)'}"
    if found.slices:
        width = max(len(piece.name) for piece in found.slices)
        for number, piece in enumerate(found.slices[:_MOST_SLICES]):
            title = "slices    " if number == 0 else "          "
            by = style.paint(f"  by {piece.managed_by or 'nobody'}", "dim")
            ready = f"{piece.ready} of {piece.endpoints} ready"
            yield f"  {title}{piece.name.ljust(width)}  {piece.address_type}  {ready}, ports {piece.ports}{by}"
        rest = found.slices[_MOST_SLICES:]
        if rest:
            in_all = sum(piece.endpoints for piece in rest)
            yield f"            and {len(rest)} more, {sum(piece.ready for piece in rest):,} of {in_all:,} ready"
    else:
        yield "  slices    (none)"
    for reason in found.reasons:
        yield from _reason(reason, style, "  ")
    taken = [pod for pod in found.pods if pod.is_selected or pod.verdict != "out"]
    near = [pod for pod in found.pods if pod not in taken]
    fine = [pod for pod in taken if pod.verdict == "ready" and not pod.reasons]
    if len(fine) > _MOST_FINE:
        yield ""
        shown = ", ".join(pod.pod for pod in fine[:_FINE_SHOWN])
        counted = style.paint(f"{len(fine):,} pods are in, ready", "green")
        yield f"{counted}: {shown} and {len(fine) - _FINE_SHOWN:,} more"
        taken = [pod for pod in taken if pod not in fine]
    for pod in taken:
        yield ""
        yield from _pod(pod, style)
    if near:
        yield ""
        left_out = found.near_misses - len(near)
        more = f" ({left_out} more are left out)" if left_out > 0 else ""
        title = f"Nearly selected{more}:" if found.near_misses else "Asked for:"
        yield style.paint(title, "bold")
        for pod in near:
            yield from _pod(pod, style)
    if not found.pods:
        yield ""
        yield "No pod is near: none that is selected, none that is published, none with similar labels."


def _pod(pod: PodExplanation, style: Style) -> Iterator[str]:
    words, colour = _VERDICTS[pod.verdict]
    yield f"{style.paint(pod.pod, 'bold')}  {style.paint(words, colour)}"
    for place in pod.places:
        hints = f", for {' '.join(place.for_zones)}" if place.for_zones else ""
        zone = f", zone {place.zone}" if place.zone else ""
        yield f"    {' '.join(place.addresses)} in {place.slice}, ports {place.ports}{zone}{hints}"
    for reason in pod.reasons:
        yield from _reason(reason, style, "    ")


def _reason(reason: Reason, style: Style, indent: str) -> Iterator[str]:
    mark, colour = _MARKS[reason.weight]
    inner = indent + "  "
    yield style.wrapped(reason.text, inner, indent + style.paint(mark, colour) + " ")
    if reason.fix:
        yield style.paint(style.wrapped(f"-> {reason.fix}", inner + "   ", inner), "dim")
