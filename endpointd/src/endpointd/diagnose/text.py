"""Render explanations on one terminal screen: the verdict, the problems, then the facts. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from endpointd.diagnose.explanation import (
    PodExplanation,
    ServiceExplanation,
    ServiceVerdict,
    Verdict,
)
from endpointd.diagnose.reasons import Reason, Weight
from endpointd.diagnose.style import Colour, Style

__all__ = ["Colour", "PodGroup", "Style", "grouped", "pod_text", "service_text", "services_text"]

_VERDICTS: dict[Verdict, tuple[str, Colour]] = {
    "missing": ("MISSING: should be published", "red"),
    "left over": ("LEFT OVER: should not be published", "red"),
    "out": ("not in", "red"),
    "unreachable": ("in, but NO PORT: no traffic arrives", "red"),
    "not ready": ("in, not ready", "yellow"),
    "terminating": ("in, terminating", "yellow"),
    "unknown": ("unknown", "yellow"),
    "ready": ("in, ready", "green"),
}
"""Worst first."""
_EXPECTED: dict[Verdict | None, str] = {
    "ready": "should be in, ready",
    "not ready": "should be in, not ready",
    "terminating": "should be in, terminating",
    "unreachable": "should be in, but NO PORT: no traffic would arrive",
    "out": "should not be in",
}
_ORDER = {verdict: number for number, verdict in enumerate(_VERDICTS)}
_WEIGHTS: dict[Weight, tuple[str, Colour]] = {
    "out": ("✗", "red"),
    "no traffic": ("✗", "red"),
    "not ready": ("!", "yellow"),
    "warning": ("!", "yellow"),
    "note": ("·", "dim"),
}
_SERVICE_COLOURS: dict[ServiceVerdict, Colour] = {
    "works": "green",
    "degraded": "yellow",
    "no traffic": "red",
    "alias": "dim",
    "unknown": "yellow",
}
_SERVICE_ORDER: tuple[ServiceVerdict, ...] = ("no traffic", "degraded", "unknown", "works", "alias")

_MAX_SLICES = 4
_MAX_ADDRESSES = 5
_MAX_GROUPS = 6
_MAX_UNGROUPED_PODS = 3
_MAX_NAMES_PER_GROUP = 3
_SERVICE_LEVEL_CODES = frozenset({"Truncated"})
"""Notes that depend on a pod's position in a list; they are shown once, for the service."""


class PodGroup(msgspec.Struct, frozen=True):
    """Pods with the same verdict for the same reasons; the first represents all."""

    pods: tuple[PodExplanation, ...]

    @property
    def example(self) -> PodExplanation:
        """The pod whose details are shown."""
        return self.pods[0]


def grouped(pods: Sequence[PodExplanation]) -> list[PodGroup]:
    """Group pods by verdict and reasons: the worst verdict first, then the largest group."""
    found: dict[object, list[PodExplanation]] = {}
    for pod in pods:
        reasons = tuple(reason.group for reason in pod.reasons if reason.code not in _SERVICE_LEVEL_CODES)
        key = (pod.verdict, pod.expected, reasons)
        found.setdefault(key, []).append(pod)
    groups = [PodGroup(tuple(members)) for members in found.values()]
    return sorted(groups, key=lambda group: (_rank(group.example), -len(group.pods)))


def _rank(pod: PodExplanation) -> tuple[int, bool]:
    warns = any(reason.weight != "note" for reason in pod.reasons)
    verdict = pod.verdict if pod.expected is None or pod.expected == "ready" else pod.expected
    return _ORDER[verdict], not warns


def service_text(found: ServiceExplanation, style: Style, *, wide: bool = False) -> str:
    """Return a service and its pods as a page of text; ``wide`` lists every pod in a table."""
    return style.page(_lines(found, style, wide=wide))


def _lines(found: ServiceExplanation, style: Style, *, wide: bool) -> Iterator[str]:
    yield from _headline(found, style)
    below = [reason for reason in found.reasons if reason.text not in found.summary]
    for reason in found.reasons:
        if reason.fix and reason not in below and reason.weight != "note":
            yield from _fix(reason, style, "  ")
    yield from _facts(found, style)
    for reason in below:
        yield from _reason(reason, style, "  ")
    if found.addresses:
        yield ""
        yield from _addresses(found, style)
    related = [
        pod for pod in found.pods if pod.is_selected or pod.verdict not in ("out", "unknown") or pod.places
    ]
    near = [pod for pod in found.pods if pod not in related] if len(related) < len(found.pods) else []
    if wide:
        yield ""
        yield from _table(found.pods, style)
        return
    yield from _groups(related, style)
    if near:
        yield ""
        left_out = found.near_misses - len(near)
        more = f" ({left_out:,} more not shown)" if left_out > 0 else ""
        yield style.paint(f"Nearly selected{more}:" if found.near_misses else "Requested:", "bold")
        yield from _groups(near, style, separated=False)
    if not found.pods and found.selector and found.type != "ExternalName":
        yield ""
        yield "No related pods: none is selected, published, or has similar labels."


def _headline(found: ServiceExplanation, style: Style) -> Iterator[str]:
    # Not wrapped: people search for this line and paste it.
    yield style.paint(f"{found.namespace}/{found.name} {found.summary}", _SERVICE_COLOURS[found.verdict])


def _facts(found: ServiceExplanation, style: Style) -> Iterator[str]:
    yield f"  type      {found.type}, {' '.join(found.families) or 'no address family'}"
    yield f"  selector  {found.selector or '(none)'}"
    yield f"  ports     {found.ports or '(none)'}"
    yield from _slices(found, style)
    if found.assumed:
        yield f"  assumed   {found.assumed}"


def _slices(found: ServiceExplanation, style: Style) -> Iterator[str]:
    if found.slices is None:
        yield "  slices    could not be read"
        return
    if not found.slices:
        yield "  slices    (none)"
        return
    shown = found.slices[:_MAX_SLICES]
    width = max(len(endpoint_slice.name) for endpoint_slice in shown)
    for number, endpoint_slice in enumerate(shown):
        title = "slices    " if number == 0 else "          "
        by = style.paint(f"  by {endpoint_slice.managed_by or 'hand'}", "dim")
        ready = f"{endpoint_slice.ready} of {endpoint_slice.endpoints} ready"
        yield f"  {title}{endpoint_slice.name.ljust(width)}  {endpoint_slice.address_type}  {ready}, ports {endpoint_slice.ports}{by}"
    rest = found.slices[_MAX_SLICES:]
    if rest:
        total = sum(endpoint_slice.endpoints for endpoint_slice in rest)
        yield f"            and {len(rest)} more, {sum(endpoint_slice.ready for endpoint_slice in rest):,} of {total:,} ready"


def _addresses(found: ServiceExplanation, style: Style) -> Iterator[str]:
    ordered = sorted(found.addresses, key=lambda one: one.is_ready)
    for one in ordered[:_MAX_ADDRESSES]:
        state = style.paint("ready", "green") if one.is_ready else style.paint("not ready", "yellow")
        target = f", {one.target}" if one.target else ""
        yield f"{style.paint(one.address, 'bold')}  {state}, ports {one.ports}, in {one.place}{target}"
    if len(ordered) > _MAX_ADDRESSES:
        yield f"and {len(ordered) - _MAX_ADDRESSES:,} more addresses"


def _groups(pods: Sequence[PodExplanation], style: Style, *, separated: bool = True) -> Iterator[str]:
    groups = grouped(pods)
    for group in groups[:_MAX_GROUPS]:
        if separated:
            yield ""
        yield from _group(group, style, is_alone=len(pods) == 1)
    rest = [pod for group in groups[_MAX_GROUPS:] for pod in group.pods]
    if rest:
        yield ""
        yield f"and {len(rest):,} pods with {len(groups) - _MAX_GROUPS:,} other combinations of reasons: see -o wide"


def _group(group: PodGroup, style: Style, *, is_alone: bool) -> Iterator[str]:
    pods = group.pods
    first = group.example
    words, colour = _VERDICTS[first.verdict]
    if first.verdict == "unknown" and first.expected is not None:
        words = _EXPECTED[first.expected]
        colour = _VERDICTS[first.expected][1]
    verdict = style.paint(words, colour)
    if len(pods) <= _MAX_UNGROUPED_PODS and not (first.reasons and len(pods) > 1):
        for pod in pods:
            yield f"{style.paint(_shown_name(pod, first), 'bold')}  {verdict}"
            yield from _places(pod)
    else:
        names = ", ".join(pod.pod for pod in pods[:_MAX_NAMES_PER_GROUP])
        more = f" and {len(pods) - _MAX_NAMES_PER_GROUP:,} more" if len(pods) > _MAX_NAMES_PER_GROUP else ""
        yield f"{style.paint(f'{len(pods):,} pods', 'bold')}  {verdict}: {names}{more}"
    for reason in first.reasons:
        if reason.code not in _SERVICE_LEVEL_CODES or is_alone:
            yield from _reason(reason, style, "    ")
    if first.is_selected and any(reason.weight != "note" for reason in first.reasons):
        yield from _about(first, style, is_group=len(pods) > 1)


def _shown_name(pod: PodExplanation, first: PodExplanation) -> str:
    return pod.pod if pod.namespace == first.namespace else f"{pod.namespace}/{pod.pod}"


def _places(pod: PodExplanation) -> Iterator[str]:
    for place in pod.places:
        hints = f", for {' '.join(place.for_zones)}" if place.for_zones else ""
        zone = f", zone {place.zone}" if place.zone else ""
        yield f"    {' '.join(place.addresses)} in {place.slice}, ports {place.ports}{zone}{hints}"


def _about(pod: PodExplanation, style: Style, *, is_group: bool) -> Iterator[str]:
    if pod.containers:
        parts = [
            f"{one.name} ({one.image}{f', readiness {one.readiness_probe}' if one.readiness_probe else ''})"
            for one in pod.containers
        ]
        yield style.paint(f"    containers: {', '.join(parts)}", "dim")
    for event in pod.events:
        times = f" (x{event.count})" if event.count > 1 else ""
        pod_name = f" of {pod.pod}" if is_group else ""
        text = f"event{pod_name}: {event.type} {event.reason}{times}: {event.message}"
        for line in style.wrapped(text, "      ", "    "):
            yield style.paint(line, "yellow" if event.type == "Warning" else "dim")


def _reason(reason: Reason, style: Style, indent: str) -> Iterator[str]:
    mark, colour = _WEIGHTS[reason.weight]
    lines = style.wrapped(reason.text, indent + "  ", "")
    yield f"{indent}{style.paint(mark, colour)} {lines[0]}"
    yield from lines[1:]
    if reason.fix:
        yield from _fix(reason, style, indent + "  ")


def _fix(reason: Reason, style: Style, indent: str) -> Iterator[str]:
    for line in style.wrapped(f"-> {reason.fix}", indent + "   ", indent):
        yield style.paint(line, "dim")


def _table(pods: Sequence[PodExplanation], style: Style) -> Iterator[str]:
    """Yield a line for every pod, for searching and sorting."""
    if not pods:
        return
    rows = [("POD", "VERDICT", "ADDRESSES", "SLICES", "ZONE", "NODE", "IMAGES", "REASON")]
    colours: list[Colour] = []
    for group in grouped(pods):
        for pod in group.pods:
            words, colour = _VERDICTS[pod.verdict]
            if pod.verdict == "unknown" and pod.expected is not None:
                words = _EXPECTED[pod.expected]
            worst = next((one for one in pod.reasons if one.weight != "note"), None)
            rows.append(
                (
                    pod.pod,
                    words.partition(":")[0],
                    ",".join(address for place in pod.places for address in place.addresses) or "-",
                    ",".join(dict.fromkeys(place.slice for place in pod.places)) or "-",
                    ",".join(sorted({place.zone for place in pod.places if place.zone})) or "-",
                    pod.node or "-",
                    ",".join(one.image for one in pod.containers) or "-",
                    f"{worst.code}: {worst.cause or worst.text}" if worst is not None else "-",
                )
            )
            colours.append(colour)
    yield from _aligned(rows, colours, style, painted=1)


def services_text(found: Sequence[ServiceExplanation], style: Style) -> str:
    """Return a line for every service, the worst first."""
    ordered = sorted(found, key=lambda one: (_SERVICE_ORDER.index(one.verdict), one.namespace, one.name))
    rows = [("NAMESPACE", "SERVICE", "VERDICT", "WHY")]
    rows += [(one.namespace, one.name, one.verdict, _why(one.summary)) for one in ordered]
    colours = [_SERVICE_COLOURS[one.verdict] for one in ordered]
    if not ordered:
        return style.page(["No services found."])
    return style.page(_aligned(rows, colours, style, painted=2))


def _why(summary: str) -> str:
    return summary.removeprefix("works: ").removeprefix("receives no traffic: ")


def _aligned(
    rows: Sequence[tuple[str, ...]], colours: Sequence[Colour], style: Style, *, painted: int
) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        cells.append(row[-1])
        if number:
            cells[painted] = style.paint(cells[painted], colours[number - 1])
        yield "  ".join(cells).rstrip()


def pod_text(namespace: str, name: str, found: Sequence[ServiceExplanation], style: Style) -> str:
    """Return one pod and every service near it as a page of text; ``found`` are explanations of only this pod."""
    return style.page(_pod_lines(namespace, name, found, style))


def _pod_lines(namespace: str, name: str, found: Sequence[ServiceExplanation], style: Style) -> Iterator[str]:
    pairs = [(service, service.pods[0]) for service in found]
    selecting = [pod for _, pod in pairs if pod.is_selected]
    ready = sum((pod.expected or pod.verdict) == "ready" for pod in selecting)
    if not selecting:
        yield style.paint(f"{namespace}/{name} is not selected by any service", "red")
    else:
        services = f"{len(selecting)} {'service' if len(selecting) == 1 else 'services'}"
        colour: Colour = "green" if ready == len(selecting) else "yellow" if ready else "red"
        yield style.paint(f"{namespace}/{name} is selected by {services}, and ready in {ready}", colour)
    shown: set[tuple[str, str]] = set()
    for service, pod in sorted(pairs, key=lambda pair: (not pair[1].is_selected, _rank(pair[1]))):
        words, verdict_colour = _VERDICTS[pod.verdict]
        if pod.verdict == "unknown" and pod.expected is not None:
            words = _EXPECTED[pod.expected]
        near = "" if pod.is_selected else "  (nearly selected)"
        yield ""
        yield f"service {style.paint(service.name, 'bold')}  {style.paint(words, verdict_colour)}{near}"
        yield from _places(pod)
        for reason in pod.reasons:
            if (reason.code, reason.text) not in shown:
                shown.add((reason.code, reason.text))
                yield from _reason(reason, style, "    ")
    if pairs:
        yield ""
        yield from _about(pairs[0][1], style, is_group=False)
