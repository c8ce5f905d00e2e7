"""Equal values are shared as long as they are requested."""

from aiokube.api.core import PODS
from aiokube.api.interning import InternPool


def a(text: str) -> tuple[str, ...]:
    """Return an equal value that is a new object each time."""
    return (text,)


def test_equal_values_are_interned() -> None:
    shared: InternPool[str, tuple[str, ...]] = InternPool(4)
    first = shared.of("x", a("x"))
    assert shared.of("x", a("x")) is first


def test_requested_values_stay_interned_and_others_are_released() -> None:
    shared: InternPool[str, tuple[str, ...]] = InternPool(4)
    used = shared.of("used", a("used"))
    unused = shared.of("unused", a("unused"))
    for number in range(100):
        shared.of(f"run-{number}", a("run"))
        assert shared.of("used", a("used")) is used
        assert len(shared) <= 8
    assert shared.of("unused", a("unused")) is not unused


def test_pods_of_a_workload_share_one_set_of_labels() -> None:
    body = b'{"metadata":{"name":"%d","namespace":"ns","labels":{"app":"web","version":"7"}}}'
    first, second = (PODS.decode(body % number) for number in range(2))
    assert first.labels is second.labels
