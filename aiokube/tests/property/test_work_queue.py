"""The work queue against a model of its guarantees, over any history of adds, work and time.

The model keeps, for each key, whether it is due (and since when), held, or delayed (until when), as plain sets
and an ordered list: slow and obvious.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiokube.backoff import ExponentialBackoff, RetryLimiter
from aiokube.testing.virtual_time import ManualClock
from aiokube.work_queue import QueueClosed, WorkQueue

KEYS = st.sampled_from("abcde")
# Whole numbers, so that deadlines coincide often and no rounding blurs the model.
DELAYS = st.integers(1, 8).map(float)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.queue: WorkQueue[str] = WorkQueue(
            clock=self.clock, limiter=RetryLimiter(ExponentialBackoff(base_seconds=1.0, cap_seconds=8.0))
        )
        self.line: list[str] = []
        self.again: set[str] = set()  # held, and due again
        self.held: set[str] = set()
        self.delayed: dict[str, tuple[float, int]] = {}  # the deadline, and the order of the requests
        self.order = 0
        self.failures: dict[str, int] = {}
        self.overtaken: dict[str, set[str]] = {}  # keys that were returned while this key waited
        self.drain = False
        self.closed = False

    def make_due(self, key: str) -> None:
        if key in self.held:
            self.again.add(key)
        elif key not in self.line:
            self.line.append(key)
            self.overtaken[key] = set()

    def make_delayed_keys_due(self) -> None:
        for key, (until, _) in sorted(self.delayed.items(), key=lambda entry: entry[1]):
            if until <= self.clock.now:
                del self.delayed[key]
                self.make_due(key)

    def delay(self, key: str, seconds: float) -> None:
        if self.closed or key in self.line or key in self.again:
            return
        until = self.clock.now + seconds
        if key not in self.delayed or until < self.delayed[key][0]:
            self.order += 1
            self.delayed[key] = (until, self.order)

    @initialize(keys=st.lists(KEYS))
    def begin(self, keys: list[str]) -> None:
        for key in keys:
            self.add(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if not self.closed:
            self.make_delayed_keys_due()
            self.delayed.pop(key, None)
            self.make_due(key)

    @rule(key=KEYS, seconds=DELAYS)
    def add_after(self, key: str, seconds: float) -> None:
        # The queue checks its timers on access; in the model time takes effect immediately.
        len(self.queue)
        self.make_delayed_keys_due()
        self.queue.add_after(key, seconds)
        self.delay(key, seconds)

    @rule(key=KEYS)
    def fail(self, key: str) -> None:
        len(self.queue)
        self.make_delayed_keys_due()
        failures = self.failures.get(key, 0)
        assert self.queue.add_rate_limited(key) == min(2.0**failures, 8.0)
        self.failures[key] = failures + 1
        self.delay(key, min(2.0**failures, 8.0))

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=DELAYS)
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def get(self) -> None:
        self.make_delayed_keys_due()
        if not self.line and self.closed and not self.again:
            try:
                self.queue.get_nowait()
            except QueueClosed:
                return
            raise AssertionError("a closed queue that is empty must raise QueueClosed")
        key = self.queue.get_nowait()
        assert key == (self.line[0] if self.line else None)
        if key is not None:
            assert key not in self.held, "returned twice at the same time"
            self.line.remove(key)
            self.held.add(key)
            for seen in self.overtaken.values():
                assert key not in seen, "one key was served twice while another waited its turn"
                seen.add(key)
            del self.overtaken[key]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.make_delayed_keys_due()
        len(self.queue)
        self.queue.done(key)
        self.held.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.line.append(key)
            self.overtaken[key] = set()

    @rule(drain=st.booleans())
    @precondition(lambda self: not self.closed and self.order > 5)
    def close(self, drain: bool) -> None:
        len(self.queue)
        self.make_delayed_keys_due()
        self.queue.close(drain=drain)
        self.closed = True
        self.delayed.clear()
        if not drain:
            self.line.clear()
            self.again.clear()
            self.overtaken.clear()

    @invariant()
    def statistics_match_the_model(self) -> None:
        self.make_delayed_keys_due()
        statistics = self.queue.statistics()
        assert statistics.depth == len(self.queue) == len(self.line)
        assert statistics.in_flight == len(self.held)
        assert statistics.delayed == len(self.delayed)
        assert statistics.failing == len(self.failures)
        assert set(self.queue.held()) == self.held
        assert len(self.queue._timers) <= 2 * len(self.delayed) + 64 + 1

    def teardown(self) -> None:
        """No history loses a key: every added key is returned once work and time continue."""
        self.make_delayed_keys_due()
        for key in sorted(self.held):
            self.queue.done(key)
        owed = {*self.line, *self.again, *self.delayed}
        self.clock.now += 100.0
        came = []
        while True:
            try:
                got = self.queue.get_nowait()
            except QueueClosed:
                break
            if got is None:
                break
            came.append(got)
            self.queue.done(got)
        assert sorted(came) == sorted(owed)


QueueMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestWorkQueueMachine = QueueMachine.TestCase
