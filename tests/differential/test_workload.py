"""A workload is a function of its seed, and valid: it changes only existing objects."""

import itertools

import msgspec
import pytest

from tests.differential.operations import Batch, Operation, SliceOf, count
from tests.differential.workload import WorkloadOptions, generate

SEEDS = range(5)


def flat(batches: tuple[Batch, ...]) -> list[Operation]:
    return [operation for batch in batches for operation in batch.operations]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_determines_the_workload_and_a_longer_one_starts_like_a_shorter_one(seed: int) -> None:
    long, again, short = generate(seed, 300), generate(seed, 300), generate(seed, 100)
    assert long == again
    assert long[: len(short)] == short
    assert 300 <= count(long) < 330
    assert [batch.number for batch in long] == list(range(len(long)))


def test_another_seed_gives_another_workload() -> None:
    lives = [generate(seed, 60) for seed in SEEDS]
    assert all(one != other for one, other in itertools.combinations(lives, 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_act_on_existing_objects_and_create_nothing_twice(seed: int) -> None:
    """Replay on a model of the API server's deletion rules: grace periods and finalizers."""
    present: dict[tuple[str, str, str], dict[str, object]] = {}
    for operation in flat(generate(seed, 600)):
        if operation.resource in ("endpoints", "endpointslices"):
            continue  # objects owned by the controllers may come and go
        assert isinstance(operation.name, str)
        key = (operation.resource, operation.namespace, operation.name)
        body = msgspec.json.decode(operation.body) if operation.body else {}
        if operation.verb == "create":
            assert key not in present, operation
            present[key] = {"held": "finalizers" in body["metadata"], "phase": "Pending", "gone": False}
            continue
        state = present[key]
        if operation.verb == "patch-status" and operation.resource == "pods":
            state["phase"] = body["status"]["phase"]
        if operation.verb == "delete":
            graceful = bool(operation.grace_seconds) and state["phase"] not in ("Succeeded", "Failed")
            state["gone"] = state["gone"] or not graceful
        if "finalizers" in body.get("metadata", {}):
            state["held"] = False
            state["gone"] = state["gone"] or operation.resource == "services"
        if state["gone"] and not state["held"]:
            del present[key]
    assert any(resource == "services" for resource, _, _ in present)
    assert any(resource == "pods" for resource, _, _ in present)


def test_every_kind_of_operation_occurs_within_a_few_seeds() -> None:
    seen = {(operation.verb, operation.resource) for seed in SEEDS for operation in flat(generate(seed, 300))}
    everything = set(
        itertools.product(("create", "patch", "delete"), ("pods", "services", "nodes", "endpointslices"))
    )
    assert seen >= {*everything, ("patch-status", "pods"), ("patch-status", "nodes"), ("patch", "endpoints")}
    bodies = " ".join(operation.body for seed in SEEDS for operation in flat(generate(seed, 300)))
    for word in (
        '"clusterIP":"None"',
        '"ExternalName"',
        '"RequireDualStack"',
        '"publishNotReadyAddresses":true',
        '"appProtocol"',
        '"trafficDistribution"',
        '"restartPolicy":"Always"',
        '"subdomain"',
        '"finalizers"',
        '"phase":"Failed"',
        '"FQDN"',
        '"podIPs":null',
        '"selector":null',
        "service.kubernetes.io/headless",
        "$(uid:",
    ):
        assert word in bodies, word


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_on_slices_chosen_by_content_come_first_in_a_batch(seed: int) -> None:
    for batch in generate(seed, 300):
        chosen = [isinstance(operation.name, SliceOf) for operation in batch.operations]
        own = [operation.resource in ("endpoints", "endpointslices") for operation in batch.operations]
        released = [
            bool(operation.body) and '"finalizers":null' in operation.body for operation in batch.operations
        ]
        last = max((i for i, is_chosen in enumerate(chosen) if is_chosen), default=-1)
        assert all(mine or free for mine, free in zip(own[: last + 1], released, strict=False))
        assert batch.has_external_edits == any(own)


def test_external_edits_and_stuck_cases_can_be_disabled() -> None:
    calm = flat(generate(1, 300, WorkloadOptions(external_edits=False)))
    assert not [operation for operation in calm if operation.resource in ("endpoints", "endpointslices")]
    options = WorkloadOptions(stuck_cases=False)
    rules = {operation.rule for seed in SEEDS for operation in flat(generate(seed, 300, options))}
    assert not rules & {"S-113", "2.3"}
    assert rules >= {"S-3", "E-3", "S-4", "0.3"}


def freezes(operation: Operation) -> bool:
    if operation.resource != "services" or operation.verb == "delete":
        return False
    spec = msgspec.json.decode(operation.body).get("spec", {})
    without_selector = operation.verb == "create" and "selector" not in spec
    return without_selector or spec.get("type") == "ExternalName" or spec.get("selector", {}) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_that_freeze_a_service_happen_only_at_quiet_points(seed: int) -> None:
    batches = generate(seed, 600)
    assert any(freezes(operation) for operation in flat(batches))
    for batch in batches:
        positions = [i for i, operation in enumerate(batch.operations) if freezes(operation)]
        for position in positions:
            before = batch.operations[:position]
            assert all(
                o.resource in ("endpoints", "endpointslices") or "finalizers" in o.body for o in before
            )
    calm = flat(generate(seed, 300, WorkloadOptions(freezing=False)))
    assert not any(freezes(operation) for operation in calm)


def test_two_workloads_share_a_cluster_when_their_prefixes_differ() -> None:
    one = flat(generate(1, 200, WorkloadOptions(prefix="one")))
    other = flat(generate(1, 200, WorkloadOptions(prefix="other")))
    assert not {(o.resource, o.namespace, o.name) for o in one} & {
        (o.resource, o.namespace, o.name) for o in other
    }
    assert {o.namespace for o in one} <= {"", *WorkloadOptions(prefix="one").namespace_names}
