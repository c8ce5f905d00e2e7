"""``python -m tests.simulation.sieve``: disturb one scenario at every single place, and compare with the undisturbed run.

After Sieve (Sun et al., OSDI 2022): the leader crashes before and after each of its writes, each watch delivery is
withheld for a while, and the watches of a restarted replica start from each state of the API server.
"""

import random
from collections.abc import Iterator, Sequence

import click
import msgspec

from tests.simulation.cluster import simulate
from tests.simulation.script import REPLICAS, Event, Script, make_script, rollout, with_events

WITHHELD_SECONDS = 6.0
FROZEN_SECONDS = 12.0
_SPACING_SECONDS = 0.7


def scenario() -> Script:
    """Return a rolling update of three pods, one operation after the other, without faults."""
    operations = rollout(random.Random(3), size=3)
    events = [
        Event(at=1.0 + number * _SPACING_SECONDS, kind="operation", operation=operation)
        for number, operation in enumerate(operations)
    ]
    return msgspec.structs.replace(
        make_script(0),
        events=tuple(events),
        ends_at=events[-1].at + 1.0,
        disorder=0.0,
        clock_rates=(1.0, 1.0),
        clock_offsets=(0.0, 0.0),
        slow_share=0.0,
        has_twin=True,
        lag_seconds=0.0,
        max_endpoints=2,
        has_webhook=False,
        has_lifecycle=False,
        quiet_seconds=20.0,
        history_changes=10_000,
    )


def disturbances(script: Script, writes: int, deliveries: int) -> Iterator[tuple[str, Sequence[Event]]]:
    """Yield every disturbance of a scenario, with the name of its kind."""
    leader = REPLICAS[0]
    for number in range(1, writes + 1):
        for acted in (False, True):
            kind = "crash after a write" if acted else "crash as a write leaves"
            yield (
                kind,
                [Event(at=0.0, kind="kill-at-write", host=leader, count=number, seconds=0.1, acted=acted)],
            )
    for number in range(deliveries):
        yield (
            "delivery withheld",
            [Event(at=0.0, kind="withhold", host=leader, count=number, seconds=WITHHELD_SECONDS)],
        )
    for event in script.events:
        at = event.at + _SPACING_SECONDS / 2
        yield (
            "restart on a stale server",
            [
                Event(at=at, kind="freeze", seconds=FROZEN_SECONDS),
                Event(at=at + 0.1, kind="kill", host=leader, seconds=0.1),
            ],
        )


def run_sieve(step: int = 1, offset: int = 0) -> dict[str, tuple[int, list[str]]]:
    """Run every ``step``-th disturbance; return for each kind the number of runs and the differences."""
    script = scenario()
    reference = simulate(script)
    if reference.violations:
        raise AssertionError(f"the undisturbed run fails: {reference.violations[0]}")
    writes, deliveries = reference.fenced_writes[REPLICAS[0]], reference.deliveries[REPLICAS[0]]
    table: dict[str, tuple[int, list[str]]] = {}
    for number, (kind, events) in enumerate(disturbances(script, writes, deliveries)):
        if number % step != offset:
            continue
        together = sorted((*script.events, *events), key=lambda event: event.at)
        outcome = simulate(with_events(script, together))
        runs, wrong = table.setdefault(kind, (0, []))
        if outcome.violations:
            wrong.append(f"{events[0]}: {outcome.violations[0]}")
        elif outcome.published != reference.published:
            wrong.append(f"{events[0]}: publishes something else in the end")
        table[kind] = (runs + 1, wrong)
    return table


@click.command()
def main() -> None:
    """Disturb the scenario at every place, and print a table."""
    click.echo("| disturbance | runs | different |\n|---|---:|---:|")
    for kind, (runs, wrong) in run_sieve().items():
        click.echo(f"| {kind} | {runs} | {len(wrong)} |")
        for line in wrong[:5]:
            click.echo(f"  {line}", err=True)


if __name__ == "__main__":
    main()
