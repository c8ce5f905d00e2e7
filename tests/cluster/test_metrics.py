"""endpointd's metrics match those of kube-controller-manager after the same operations (behaviour 2.12)."""

import pytest

from tests.differential.metrics_table import Comparison, compare, table
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PREFIX = "endpoint_slice_controller_"
MIRRORING = "endpoint_slice_mirroring_controller_"
DETERMINED = (
    f"{PREFIX}endpoints_added_per_sync",
    f"{PREFIX}endpoints_desired",
    f"{PREFIX}num_endpoint_slices",
    f"{PREFIX}desired_endpoint_slices",
    f"{PREFIX}endpointslices_changed_per_sync",
    f"{PREFIX}services_count_by_traffic_distribution",
    f"{MIRRORING}endpoints_added_per_sync",
    f"{MIRRORING}endpoints_removed_per_sync",
    f"{MIRRORING}endpoints_desired",
    f"{MIRRORING}num_endpoint_slices",
    f"{MIRRORING}desired_endpoint_slices",
)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Both programs' metrics, on separate control planes, as other services would count."""
    import asyncio

    with ControlPlane() as theirs, ControlPlane() as ours:
        found = asyncio.run(compare(theirs, ours))
    print(table(found))
    return found


def test_every_upstream_metric_exists_with_its_type_labels_and_buckets(comparison: Comparison) -> None:
    for name, theirs in comparison.upstream.items():
        mine = comparison.ours[name]
        assert mine.type == theirs.type, name
        assert mine.bounds == theirs.bounds, name
        assert {tuple(label for label, _ in key) for key in mine.values} == {
            tuple(label for label, _ in key) for key in theirs.values
        }, name
        # Ours exist from the start; some of upstream's only once they are not zero.
        assert mine.values.keys() >= theirs.values.keys(), name
        assert mine.counts.keys() >= theirs.counts.keys(), name
    assert comparison.ours.keys() == comparison.upstream.keys()


@pytest.mark.parametrize("name", DETERMINED)
def test_metrics_independent_of_timing_have_upstreams_values(comparison: Comparison, name: str) -> None:
    theirs = comparison.upstream[name].values
    mine = comparison.ours[name].values
    assert {key: value for key, value in mine.items() if value} == {
        key: value for key, value in theirs.items() if value
    }
    assert any(mine.values())


@pytest.mark.parametrize("name", [f"{PREFIX}changes", f"{MIRRORING}changes"])
def test_the_numbers_of_creates_and_deletes_are_upstreams(comparison: Comparison, name: str) -> None:
    """Updates equal the number of syncs between pod changes, which depends on timing in both programs."""
    theirs, mine = comparison.upstream[name].values, comparison.ours[name].values
    for operation in ("create", "delete"):
        labels = (("operation", operation),)
        assert mine.get(labels, 0) == theirs.get(labels, 0), operation
    assert mine[("operation", "update"),] >= 1
    assert any(mine.values())


def test_only_endpointd_counts_endpoints_of_unused_ports_as_removed(
    comparison: Comparison,
) -> None:
    # One slice deleted while others stayed; one with changed ports, and the last one of a service.
    assert comparison.upstream[f"{PREFIX}endpoints_removed_per_sync"].values == {(): 1.0}
    assert comparison.ours[f"{PREFIX}endpoints_removed_per_sync"].values == {(): 3.0}


def test_there_were_no_stale_or_failed_syncs_and_no_retries(comparison: Comparison) -> None:
    syncs = comparison.ours[f"{PREFIX}syncs"].values
    assert syncs[("result", "stale"),] == syncs[("result", "error"),] == 0
    assert set(comparison.ours["workqueue_retries_total"].values.values()) == {0}


def test_the_lag_of_every_published_change_of_a_pod_was_measured(comparison: Comparison) -> None:
    lag = comparison.our_own["endpointd_sync_lag_seconds"]
    key = (("controller", "endpointslice-controller"),)
    # web-1 becomes unready, web-2 leaves, web-9 joins, near-1 leaves; changes of a service are not counted for pods.
    assert lag.counts[key] == 4
    assert 0 < lag.values[key] < 4 * 1.0


def test_endpointds_own_metrics_are_present(comparison: Comparison) -> None:
    own = comparison.our_own
    assert own["endpointd_store_objects"].values[(("resource", "pods"),)] >= 8
    assert {dict(key)["part"] for key in own["endpointd_audits_total"].values} == {
        "endpointslice-controller",
        "endpoints-controller",
        "endpointslice-mirroring-controller",
        "membership",
    }
    assert set(own["endpointd_audit_mismatches_total"].values.values()) == {0}
    assert own["endpointd_watch_relists_total"].values[(("resource", "services"),)] == 0
    assert set(own["endpointd_queue_oldest_age_seconds"].values.values()) == {0}
    assert all(value < 120 for value in own["endpointd_watch_last_contact_seconds"].values.values())
    assert own["process_resident_memory_bytes"].values[()] > 1e7
