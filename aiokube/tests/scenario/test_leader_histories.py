"""Any history of several candidates (slow and lossy requests, pauses, drifting clocks) has at most one writer.

The candidates are the pure machine; the environment is simulated event by event, each candidate with its
own clock. The test checks the times in which a candidate's fence allows writes, for any
activity of the process: until its own clock reaches the deadline.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aiokube.api.coordination import Lease, LeaseSpec
from aiokube.api.meta import ObjectMeta
from aiokube.runtime import leader_election_machine as machine
from aiokube.runtime.leader_election import check
from aiokube.runtime.leader_election_machine import Moment, Rules

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FAULTS_END = 150.0
END = 230.0
TIMEOUT = 5.0
# 10 s on the slowest clock end before 12 s on the fastest, by a quarter of a second: no bug can hide in the
# margin.
LEASE = 12.0
RATES = (0.92, 1.0, 1.08)


class Store:
    """One lease, as an API server stores it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0

    def answer(self, action: machine.Action) -> machine.Event:
        match action:
            case machine.Read():
                return machine.Found(self.lease) if self.lease is not None else machine.Missing()
            case machine.Create(spec):
                return machine.Refused() if self.lease is not None else self._keep(ObjectMeta(name="l"), spec)
            case machine.Replace(lease):
                if self.lease is None or lease.metadata.resource_version != str(self.version):
                    return machine.Refused()
                return self._keep(lease.metadata, lease.spec)
            case _:
                raise AssertionError(action)

    def _keep(self, meta: ObjectMeta, spec: LeaseSpec) -> machine.Event:
        self.version += 1
        self.lease = Lease(metadata=replace(meta, resource_version=str(self.version)), spec=spec)
        return machine.Written(self.lease)


class World:
    """True time, the store, and the pending events."""

    def __init__(self, chance: random.Random, loss: float, longest_delay: float, slow_answers: bool) -> None:
        self.now = 0.0
        self.chance = chance
        self.loss = loss
        self.longest_delay = longest_delay
        self.slow_answers = slow_answers
        self.store = Store()
        self.terms: list[tuple[float, float, str]] = []
        self.story: list[str] = []
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._plans, (self.now + seconds, next(self._numbers), what))

    def run(self) -> None:
        while self._plans and self._plans[0][0] <= END:
            self.now, _, what = heapq.heappop(self._plans)
            what()

    @property
    def is_faulty(self) -> bool:
        return self.now < FAULTS_END

    def is_lost(self) -> bool:
        return self.is_faulty and self.chance.random() < self.loss

    def delay(self, *, of_answer: bool = False) -> float:
        if not self.is_faulty:
            return 0.01
        if self.slow_answers:
            return self.chance.uniform(3.0, 4.5) if of_answer else 0.001
        return self.chance.choice((0.001, 0.05, self.chance.uniform(0.0, self.longest_delay)))


class Candidate:
    """A process with its own clock; while it is stopped, responses are delayed."""

    def __init__(self, world: World, name: str, rate: float) -> None:
        self.world = world
        self.name = name
        self.rules = Rules(identity=name, lease_seconds=LEASE)
        self.rate = rate
        self.offset = world.chance.uniform(0.0, 1e6)
        self.wall = timedelta(seconds=world.chance.uniform(-1e6, 1e6))
        self.stopped_until = 0.0
        self.asked = 0
        self.open: tuple[float, float] | None = None
        first = machine.begin()
        self.state = first.state
        self.execute(first.action)

    def clock(self) -> float:
        return self.offset + self.world.now * self.rate

    def receive(self, event: machine.Event, question: int) -> None:
        """Take a step, once the process runs; responses after the timeout are dropped."""
        if question != self.asked:
            return
        if self.world.now < self.stopped_until:
            self.world.after(self.stopped_until - self.world.now, lambda: self.receive(event, question))
            return
        self.asked += 1
        at = Moment(
            self.clock(), EPOCH + self.wall + timedelta(seconds=self.clock()), self.world.chance.random()
        )
        step = machine.step(self.state, event, at, self.rules)
        self.state = step.state
        self.world.story.append(
            f"{self.world.now:8.3f} {self.name} {type(event).__name__} -> {type(step.state).__name__}"
        )
        self._note_term(step.leads_until)
        self.execute(step.action)

    def _note_term(self, until: float | None) -> None:
        """Replace the open interval of the fence by its true extent from now on."""
        begun = self.world.now
        if self.open is not None:
            begun, ends = self.open
            if self.world.now >= ends:
                assert until is None, f"{self.name} was opened again after its deadline"
            self.open = None
            if until is None:
                self.world.terms.append((begun, min(ends, self.world.now), self.name))
        if until is not None:
            self.open = (begun, (until - self.offset) / self.rate)

    def record_open_term(self) -> None:
        if self.open is not None:
            self.world.terms.append((*self.open, self.name))

    def execute(self, action: machine.Action) -> None:
        question, world = self.asked, self.world
        match action:
            case machine.Finish():
                # Its supervisor restarts it under another name.
                world.after(world.chance.uniform(0.0, 5.0), lambda: start(world, self.name + "'"))
            case machine.Wait(until):
                world.after((until - self.clock()) / self.rate, lambda: self.receive(machine.Due(), question))
            case _:
                world.after(TIMEOUT / self.rate, lambda: self.receive(machine.Failed(), question))
                if not world.is_lost():
                    world.after(world.delay(), lambda: self.arrives(action, question))

    def arrives(self, action: machine.Action, question: int) -> None:
        """The request reaches the server; its response may still be lost."""
        answer = self.world.store.answer(action)
        if not self.world.is_lost():
            self.world.after(self.world.delay(of_answer=True), lambda: self.receive(answer, question))


all_candidates: list[Candidate] = []


def start(world: World, name: str) -> None:
    candidate = Candidate(world, name, world.chance.choice(RATES))
    all_candidates.append(candidate)

    def disturb() -> None:
        """Occasionally stop the process for a while, or ask it to end."""
        if not world.is_faulty or isinstance(candidate.state, machine.Ended):
            return
        if world.chance.random() < 0.7:
            candidate.stopped_until = world.now + world.chance.choice((0.5, 4.0, 11.0, 16.0, 40.0))
        else:
            candidate.receive(machine.Stopping(release=world.chance.random() < 0.7), candidate.asked)
        world.after(world.chance.expovariate(1 / 20), disturb)

    world.after(world.chance.expovariate(1 / 20), disturb)


def history(
    chance: random.Random, candidates: int, loss: float, longest_delay: float, slow_answers: bool = False
) -> World:
    world = World(chance, loss, longest_delay, slow_answers)
    all_candidates.clear()
    for number in range(candidates):
        world.after(
            chance.choice((0.0, chance.uniform(0, 20))),
            lambda name=f"c{number}": start(world, name),  # type: ignore[misc]
        )
    world.run()
    for candidate in all_candidates:
        candidate.record_open_term()
    world.terms.sort()
    return world


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    candidates=st.integers(2, 3),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    longest_delay=st.sampled_from([0.2, 6.0, 30.0]),
    slow_answers=st.booleans(),
)
def test_two_candidates_never_lead_at_once_and_one_leads_after_recovery(
    seed: int, candidates: int, loss: float, longest_delay: float, slow_answers: bool
) -> None:
    assert check(LEASE, 10.0, 2.0) is None
    world = history(random.Random(seed), candidates, loss, longest_delay, slow_answers)
    note("\n".join(world.story))
    note(str(world.terms))
    for (_, ends, former), (begins, _, latter) in itertools.pairwise(world.terms):
        assert ends <= begins, f"{former} and {latter} may both write between {begins} and {ends}"
    assert world.terms
    assert world.terms[-1][1] > END - 1, "no candidate leads at the end"


def test_the_random_histories_contain_enough_leader_changes() -> None:
    """Leaders change in these histories, by release and by expiry; otherwise they would prove nothing."""
    holders, lost, released = set(), 0, 0
    for seed in range(20):
        world = history(random.Random(seed), 3, 0.1, 6.0)
        holders |= {(seed, name) for _, _, name in world.terms}
        lost += sum("-> Ended" in line for line in world.story)
        released += sum("-> Releasing" in line for line in world.story)
    assert len(holders) > 40
    assert lost > 40
    assert released > 10
