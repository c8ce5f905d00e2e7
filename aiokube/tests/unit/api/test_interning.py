"""Equal values are shared as long as they are requested."""

from aiokube.api.core import PODS
from aiokube.api.interning import InternPool


def a(text: str) -> tuple[str, ...]:
    """Return an equal value that is a new object each time."""
    return (text,)


def test_equal_values_become_one() -> None:
    shared: InternPool[str, tuple[str, ...]] = InternPool(4)
    first = shared.of("x", a("x"))
    assert shared.of("x", a("x")) is first


def test_what_is_asked_for_stays_shared_and_the_rest_is_let_go() -> None:
    shared: InternPool[str, tuple[str, ...]] = InternPool(4)
    used = shared.of("used", a("used"))
    unused = shared.of("unused", a("unused"))
    for number in range(100):
        shared.of(f"run-{number}", a("run"))
        assert shared.of("used", a("used")) is used
        assert len(shared) <= 8
    assert shared.of("unused", a("unused")) is not unused


def test_the_pods_of_a_workload_hold_one_set_of_labels() -> None:
    body = b'{"metadata":{"name":"%d","namespace":"ns","labels":{"app":"web","version":"7"}}}'
    first, second = (PODS.decode(body % number) for number in range(2))
    assert first.labels is second.labels
