"""The judge: when published objects count as correct."""

import msgspec

from aiokube.api.meta import ObjectKey
from aiokube.api.resource import WatchEvent
from benchmarks.published import (
    MAX_ADDRESSES,
    OBSERVED_ENDPOINTS,
    OBSERVED_SLICES,
    EventType,
    Judge,
    Published,
)

WEB = ObjectKey("bench-0", "web")
Shown = tuple[str, str, bool]


def pod_key(name: str) -> ObjectKey:
    return ObjectKey("bench-0", name)


def judge_of(pods: list[Shown], *, judge_endpoints: bool = False) -> Judge:
    judge = Judge(judge_endpoints=judge_endpoints)
    judge.expect_service(WEB)
    for name, address, ready in pods:
        judge.expect(pod_key(name), Published(WEB, address, ready))
    return judge


def show(
    judge: Judge, name: str, pods: list[Shown], kind: EventType = "MODIFIED", service: str = "web"
) -> list[ObjectKey]:
    """Let a slice publish these pods, through the JSON of a real event."""
    endpoints = [
        {"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}}
        for pod, address, ready in pods
    ]
    metadata = {"name": name, "namespace": "bench-0", "labels": {"kubernetes.io/service-name": service}}
    line = msgspec.json.encode(
        {"type": kind, "object": {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}}
    )
    event = OBSERVED_SLICES.decode_event(line)
    assert isinstance(event, WatchEvent)
    return list(judge.slice_event(event.type, event.item))


def show_endpoints(
    judge: Judge, ready: list[str], not_ready: list[str], kind: EventType = "MODIFIED"
) -> None:
    def addresses(names: list[str]) -> list[object]:
        return [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": name}} for name in names]

    subset = {"addresses": addresses(ready), "notReadyAddresses": addresses(not_ready)}
    metadata = {"name": "web", "namespace": "bench-0"}
    line = msgspec.json.encode({"type": kind, "object": {"metadata": metadata, "subsets": [subset]}})
    event = OBSERVED_ENDPOINTS.decode_event(line)
    assert isinstance(event, WatchEvent)
    judge.endpoints_event(event.type, event.item)


A: Shown = ("a", "10.0.0.1", True)
B: Shown = ("b", "10.0.0.2", True)
A_NOT_READY: Shown = ("a", "10.0.0.1", False)


def test_slices_are_correct_if_every_pod_is_in_exactly_one() -> None:
    judge = judge_of([A, B])
    assert not judge.are_slices_right()
    show(judge, "one", [A])
    assert not judge.are_slices_right()
    show(judge, "two", [B])
    assert judge.are_slices_right()
    show(judge, "two", [A, B])
    assert not judge.are_slices_right()


def test_a_pod_with_a_wrong_address_readiness_or_service_is_incorrect() -> None:
    judge = judge_of([A])
    for wrong in (A_NOT_READY, ("a", "10.0.0.9", True)):
        show(judge, "one", [wrong])
        assert not judge.is_pod_right(pod_key("a"))
    judge.expect_service(ObjectKey("bench-0", "other"))
    show(judge, "one", [A], service="other")
    assert not judge.are_slices_right()
    show(judge, "one", [A])
    assert judge.is_pod_right(pod_key("a"))


def test_a_new_expectation_is_unmet_until_it_is_published() -> None:
    judge = judge_of([A, B])
    show(judge, "one", [A, B])
    judge.expect(pod_key("a"), Published(WEB, "10.0.0.1", False))
    assert not judge.are_slices_right()
    show(judge, "one", [A_NOT_READY, B])
    assert judge.are_slices_right()


def test_a_pod_that_moves_between_slices_is_correct_again_afterwards() -> None:
    judge = judge_of([A, B])
    show(judge, "one", [A, B])
    show(judge, "two", [B], "ADDED")
    assert not judge.is_pod_right(pod_key("b"))
    show(judge, "one", [A])
    assert judge.is_pod_right(pod_key("b"))


def test_only_pods_whose_published_state_changed_are_reported() -> None:
    judge = judge_of([A, B])
    assert show(judge, "one", [A, B], "ADDED") == [pod_key("a"), pod_key("b")]
    assert show(judge, "one", [A_NOT_READY, B]) == [pod_key("a")]
    assert show(judge, "one", [B]) == [pod_key("a")]
    assert show(judge, "one", [B], "DELETED") == [pod_key("b")]


def test_a_slice_over_the_limit_or_with_a_duplicate_pod_is_incorrect() -> None:
    many: list[Shown] = [(f"p{number}", f"10.0.1.{number}", True) for number in range(101)]
    judge = judge_of(many)
    show(judge, "one", many)
    assert not judge.are_slices_right()
    show(judge, "one", many[:100])
    show(judge, "two", [many[100], many[100]])
    assert not judge.are_slices_right()
    show(judge, "two", [many[100]])
    assert judge.are_slices_right()


def test_unexpected_pods_are_incorrect_and_other_services_are_ignored() -> None:
    judge = judge_of([A])
    show(judge, "api", [B], service="kubernetes")
    assert judge.slice_writes == 0
    assert judge.is_empty()
    show(judge, "one", [A, B])
    assert not judge.are_slices_right()
    assert judge.slice_writes == 1


def test_a_deleted_slice_publishes_nothing() -> None:
    judge = judge_of([A])
    show(judge, "one", [A], "ADDED")
    show(judge, "one", [A], "DELETED")
    assert not judge.are_slices_right()
    assert judge.is_empty()
    assert judge.slice_writes == 2


def test_endpoints_are_correct_if_they_show_every_pod_in_its_state() -> None:
    judge = judge_of([A_NOT_READY, B], judge_endpoints=True)
    assert not judge.are_endpoints_right()
    show_endpoints(judge, ["a", "b"], [])
    assert not judge.are_endpoints_right()
    show_endpoints(judge, ["b"], [])
    assert not judge.are_endpoints_right()
    show_endpoints(judge, ["b"], ["a"])
    assert judge.are_endpoints_right()
    show_endpoints(judge, ["b"], ["a"], "DELETED")
    assert not judge.are_endpoints_right()
    assert judge.endpoints_writes == 4


def test_endpoints_over_capacity_show_ready_addresses_first() -> None:
    ready: list[Shown] = [(f"r{number}", "10.0.0.1", True) for number in range(MAX_ADDRESSES - 1)]
    not_ready: list[Shown] = [(f"n{number}", "10.0.0.1", False) for number in range(3)]
    judge = judge_of([*ready, *not_ready], judge_endpoints=True)
    names = [name for name, _, _ in ready]
    show_endpoints(judge, names, ["n0", "n1"])
    assert not judge.are_endpoints_right()
    show_endpoints(judge, names, ["n2"])
    assert judge.are_endpoints_right()
    judge.expect(pod_key("n0"), Published(WEB, "10.0.0.1", True))
    assert not judge.are_endpoints_right()
    show_endpoints(judge, [*names, "n0"], [])
    assert judge.are_endpoints_right()
    show_endpoints(judge, [*names, "n1"], [])
    assert not judge.are_endpoints_right()


def test_endpoints_are_not_judged_without_an_endpoints_controller() -> None:
    judge = judge_of([A], judge_endpoints=False)
    assert judge.are_endpoints_right()
    show_endpoints(judge, ["stranger"], [])
    assert judge.are_endpoints_right()
    judge.judge_endpoints = True
    assert not judge.are_endpoints_right()


def test_a_complaint_names_the_incorrect_objects() -> None:
    judge = judge_of([A, B], judge_endpoints=True)
    show(judge, "one", [A])
    assert judge.complaint() == (
        "1 pods not published in slices as they are (such as bench-0/b), 0 slices malformed, "
        "1 Endpoints not right (such as bench-0/web)"
    )
