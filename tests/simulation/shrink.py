"""Shrink a failing simulation: first its events, then the order of its callbacks."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from aiokube.testing.simulated_loop import minimize, minimize_schedule
from tests.simulation.cluster import Outcome, simulate
from tests.simulation.script import Event, Script, with_events


@dataclass(slots=True)
class Shrunk:
    """The smallest simulation found that violates the same invariant, and its outcome."""

    script: Script
    choices: Mapping[int, int] | None
    outcome: Outcome

    def text(self) -> str:
        """Return the story: the remaining events, and everything from the first of them on."""
        events = "\n".join(f"  {event}" for event in self.script.events)
        order = (
            "asyncio's own" if self.choices == {} else f"{len(self.outcome.choices)} callbacks out of turn"
        )
        story = "\n".join(f"  {line}" for line in self.outcome.story if not _is_noise(line))
        found = "\n".join(f"  {violation}" for violation in self.outcome.violations[:1])
        return f"{found}\n{len(self.script.events)} events; order of callbacks: {order}\n{events}\nwhat happened:\n{story}"


def _is_noise(line: str) -> bool:
    return "PUT coordination" in line or "/events: 201" in line


def shrink(script: Script, invariant: str, *, max_runs: int = 300) -> Shrunk:
    """Return a smaller simulation that violates the same invariant."""

    def broken(candidate: Script, choices: Mapping[int, int] | None = None) -> bool:
        found = simulate(candidate, choices).violations
        return bool(found) and found[0].invariant == invariant

    choices: Mapping[int, int] | None = None
    for field, value in (
        ("quiet_seconds", 75.0),
        ("disorder", 0.0),
        ("has_twin", False),
        ("slow_share", 0.0),
        ("has_lifecycle", False),
        ("has_webhook", False),
        ("history_changes", 10_000),
    ):
        simpler = msgspec.structs.replace(script, **{field: value})
        if getattr(script, field) != value and broken(simpler):
            script = simpler

    def still(events: object) -> bool:
        return broken(with_events(script, events))  # type: ignore[arg-type]

    events: list[Event] = minimize(script.events, still, max_runs=max_runs)
    script = with_events(script, events)
    if script.disorder:
        recorded = simulate(script).choices
        kept = minimize_schedule(recorded, lambda some: broken(script, some), max_runs=max_runs // 3)
        if broken(script, kept):
            choices = kept
    return Shrunk(script, choices, simulate(script, choices))
