"""The model of large clusters, and the page that shows its results."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from benchmarks.scale import CLUSTERS, LARGEST, PageError, main, tables, with_tables
from benchmarks.scale_inputs import MEASURED, Costs, Figure
from benchmarks.scale_model import (
    MEBIBYTE,
    Cluster,
    Life,
    ceiling,
    cold_start,
    in_batches,
    memory_mib,
    one_write_a_pod,
    restart,
    slices_touched,
    steady,
)

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
ONE_EACH = Costs(
    *(
        Figure(1.0, figure.unit, "")
        for figure in (getattr(MEASURED, name) for name in Costs.__struct_fields__)
    )
)
"""Every cost is one unit."""


def priced(**costs: float) -> Costs:
    """Return costs that are zero except these."""
    free = {name: Figure(0.0, "", "") for name in Costs.__struct_fields__}
    return Costs(**free | {name: Figure(value, "", "") for name, value in costs.items()})


def test_the_page_shows_the_output_of_the_program() -> None:
    """On failure run: python -m benchmarks.scale --page docs/scale.md."""
    text = PAGE.read_text()
    assert with_tables(text, tables(MEASURED)) == text
    for table in tables(MEASURED).values():
        assert table in text


def test_every_cost_has_a_unit_and_a_source() -> None:
    for name in Costs.__struct_fields__:
        figure = getattr(MEASURED, name)
        assert figure.value > 0
        assert figure.unit
        assert figure.source


def test_memory_is_the_sum_of_the_program_and_its_caches() -> None:
    cluster = Cluster(pods=1_000, services=10, nodes=100)
    costs = priced(
        program_mib=40, pod_bytes=MEBIBYTE / 1000, service_bytes=MEBIBYTE / 10, node_bytes=MEBIBYTE / 100
    )
    assert memory_mib(cluster, costs) == pytest.approx(43)


@pytest.mark.parametrize(
    ("pods", "services", "slices"),
    [(150_000, 10_000, 10_000), (1_000, 10, 10), (1_010, 10, 20), (100, 1, 1), (101, 1, 2)],
)
def test_a_cluster_has_a_slice_for_every_hundred_pods_of_a_service(
    pods: int, services: int, slices: int
) -> None:
    assert Cluster(pods, services, 1).slices == slices


def test_a_first_start_writes_all_slices_and_endpoints_and_a_restart_nothing() -> None:
    cluster = Cluster(pods=1_000, services=10, nodes=0)
    cold = cold_start(cluster, ONE_EACH)
    assert cold.writes == 20
    assert cold.writing_seconds == 20
    assert cold.server_cpu_seconds == pytest.approx(1_000e-6 + 20e-3)
    assert cold.client_cpu_seconds == pytest.approx(1 + 1_010e-6 + 10e-3)
    again = restart(cluster, ONE_EACH)
    assert (again.writes, again.writing_seconds) == (0, 0)
    assert again.client_cpu_seconds == pytest.approx(1 + 1_010e-6 + 1_000e-6)
    assert again.load_mb > cold.load_mb


def test_the_change_rate_is_the_sum_of_pod_lifecycles_and_flips() -> None:
    cluster = Cluster(pods=3_600, services=36, nodes=10)
    idle = steady(cluster, Life(pod_hours=1, flips_a_pod_day=0, node_status_seconds=10), priced())
    assert idle.pods_born == pytest.approx(1)
    assert idle.changes == pytest.approx(4)
    assert idle.other_events == pytest.approx(4 + 1)
    flipping = steady(cluster, Life(pod_hours=1, flips_a_pod_day=24), priced())
    assert flipping.changes == pytest.approx(4 + 2)


def test_each_change_is_written_twice_and_sent_to_every_node() -> None:
    cluster = Cluster(pods=3_600, services=36, nodes=10)
    life = Life(pod_hours=1, flips_a_pod_day=0)
    assert steady(cluster, life, priced(write_server_ms=1)).write_server_cores == pytest.approx(8e-3)
    assert steady(cluster, life, priced(delivery_server_us=1)).delivery_server_cores == pytest.approx(40e-6)
    assert steady(cluster, life, priced(change_client_ms=1)).client_cores == pytest.approx(4e-3)
    read = steady(cluster, life, priced(endpoint_protobuf_bytes=1)).node_mb_an_hour
    assert read == pytest.approx(4 * 100 * 3600 / 1e6)


def test_half_the_pod_lifetime_costs_twice_as_much() -> None:
    costs = priced(change_client_ms=1, write_server_ms=1, delivery_server_us=1)
    long, short = (steady(LARGEST, Life(hours, flips_a_pod_day=0), costs) for hours in (2, 1))
    assert short.client_cores == pytest.approx(2 * long.client_cores)
    assert short.delivery_server_cores == pytest.approx(2 * long.delivery_server_cores)


def test_the_ceiling_is_the_change_rate_that_fills_one_core() -> None:
    cluster = Cluster(pods=9_000, services=90, nodes=1_000)
    found = ceiling(cluster, priced(change_client_ms=2, write_server_ms=1, delivery_server_us=8))
    assert found.changes_a_second == 500
    assert found.server_cores == pytest.approx(500 * (2e-3 + 8e-3))
    assert found.server_changes_a_second_a_core == pytest.approx(100)
    at_work = steady(cluster, Life(found.pod_hours, flips_a_pod_day=0), priced(change_client_ms=2))
    assert at_work.client_cores == pytest.approx(1)


def test_the_model_reproduces_the_numbers_of_kep_752() -> None:
    """20,000 pods and 5,000 nodes, 100 bytes per endpoint: 200 TB by Endpoints, 1 TB by slices of a hundred."""
    rollout = one_write_a_pod(20_000, priced(endpoint_json_bytes=100, address_json_bytes=100))
    assert rollout.slice_writes == rollout.endpoints_writes == 20_000
    assert rollout.whole_endpoints_bytes * 5_000 == 200e12
    assert rollout.slice_json_bytes * 5_000 == 1e12


def test_a_batch_of_one_makes_four_writes_per_pod() -> None:
    rollout = in_batches(5_000, 1, priced())
    assert rollout.slice_writes == pytest.approx(20_000)
    assert rollout.endpoints_writes == pytest.approx(20_000)


def test_larger_batches_never_write_more() -> None:
    writes = [in_batches(5_000, batch, priced()).slice_writes for batch in (1, 2, 10, 50, 100)]
    assert writes == sorted(writes, reverse=True)


@pytest.mark.parametrize(
    ("pods", "slices", "touched"), [(1, 50, 1.0), (2, 2, 1.5), (10_000, 50, 50.0), (7, 1, 1.0)]
)
def test_randomly_chosen_pods_are_in_the_expected_number_of_slices(
    pods: int, slices: int, touched: float
) -> None:
    assert slices_touched(pods, slices) == pytest.approx(touched)


def test_a_small_service_is_sent_in_its_actual_size() -> None:
    rollout = one_write_a_pod(20, priced(endpoint_json_bytes=10, address_json_bytes=10))
    assert (
        rollout.slice_json_bytes == rollout.endpoints_bytes == rollout.whole_endpoints_bytes == 20 * 20 * 10
    )


def test_the_largest_cluster_is_the_largest_that_kubernetes_supports() -> None:
    assert Cluster(150_000, 10_000, 5_000) == LARGEST == CLUSTERS[-1]


def test_a_placeholder_for_an_unknown_table_is_an_error_that_names_the_known_tables() -> None:
    with pytest.raises(PageError, match="'nothing'; there are one"):
        with_tables("<!-- table: nothing -->\n<!-- end of table -->", {"one": "|"})


def test_inserting_tables_into_a_page_is_idempotent(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- table: steady -->\n<!-- end of table -->\n\nafter\n")
    for _ in range(2):
        assert CliRunner().invoke(main, ["--page", str(page)]).exit_code == 0
    text = page.read_text()
    assert text.count("| pods live |") == 1
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_a_page_with_an_unknown_table_is_rejected_and_unchanged(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- table: nothing -->\n<!-- end of table -->\n")
    found = CliRunner().invoke(main, ["--page", str(page)])
    assert found.exit_code == 2
    assert "Traceback" not in found.output
    assert page.read_text().count("\n") == 2


def test_costs_are_immutable_and_survive_a_json_round_trip() -> None:
    with pytest.raises(AttributeError):
        MEASURED.pod_bytes = Figure(1, "bytes", "")  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(MEASURED), type=Costs) == MEASURED
