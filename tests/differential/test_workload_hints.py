"""A zone workload is a function of its seed, and covers its subject."""

from collections import Counter

import msgspec

from tests.differential.differential_hints import independent_runs
from tests.differential.workload_hints import (
    DEPRECATED_MODE,
    HintOptions,
    Step,
    generate,
    steps_in,
)


def steps(seed: int, number: int) -> list[Step]:
    return [step for batch in generate(seed, number) for step in batch.steps]


def test_a_seed_determines_the_steps_and_a_longer_run_starts_alike() -> None:
    assert generate(7, 200) == generate(7, 200)
    assert steps(7, 400)[:200] == steps(7, 200)
    assert generate(8, 200) != generate(7, 200)


def test_the_number_of_steps_is_the_requested_one() -> None:
    for number in (1, 10, 75, 300):
        assert steps_in(generate(1, number)) == number


def test_every_request_is_about_an_existing_object() -> None:
    for seed in range(5):
        there: set[tuple[str, str]] = set()
        for step in steps(seed, 300):
            for operation in step.operations:
                thing = operation.resource, str(operation.name)
                assert (thing in there) == (operation.verb != "create"), operation
                if operation.verb == "create":
                    there.add(thing)
                elif operation.verb == "delete":
                    there.remove(thing)


def test_every_kind_of_step_occurs_within_300_steps() -> None:
    for seed in (1, 2, 3):
        words = " | ".join(step.words for step in steps(seed, 300))
        for what in (
            "burst",
            "scale down",
            "readiness of",
            "trafficDistribution",
            "DualStack",
            "cpu",
            "role of",
        ):
            assert what in words, (seed, what)
        pods = [sum(op.verb == "create" for op in step.operations) for step in steps(seed, 300)]
        assert 60 <= max(pods) <= 250


def test_a_namespace_never_holds_more_pods_than_allowed() -> None:
    there: Counter[str] = Counter()
    for batch in generate(3, 300, HintOptions(pods=100)):
        for step in batch.steps:
            for operation in step.operations:
                if operation.resource == "pods" and operation.verb in ("create", "delete"):
                    there["pods"] += 1 if operation.verb == "create" else -1
                    assert there["pods"] <= 100


def test_new_services_have_consistent_topology_annotations() -> None:
    for seed in range(5):
        for step in steps(seed, 100):
            for operation in step.operations:
                if (operation.verb, operation.resource) == ("create", "services"):
                    annotations = msgspec.json.decode(operation.body)["metadata"]["annotations"]
                    assert len({*annotations.values()}) <= 1
                    assert DEPRECATED_MODE not in annotations or annotations[DEPRECATED_MODE]


def test_a_run_of_operations_has_one_verb_and_the_order_is_kept() -> None:
    burst = max(steps(1, 300), key=lambda step: len(step.operations))
    runs = independent_runs(burst.operations)
    assert [operation for run in runs for operation in run] == list(burst.operations)
    assert [run[0].verb for run in runs] == ["create", "patch-status"]


def test_a_batch_lists_the_rules_under_which_upstream_may_miss_it() -> None:
    rules = {rule for batch in generate(1, 300) for rule in batch.rules}
    assert rules == {"S-31.4", "S-4", "S-5", "S-93"}
