"""The metrics of mirroring (behaviour 3.7), from a controller at work and by upstream's own numbers."""

import pytest
from tests.unit.controllers.mirroring.world import (
    HTTP,
    WEB,
    World,
    change,
    make_endpoints,
    make_plain_service,
    subset,
)

from aiokube.api.meta import ObjectKey
from aiokube.runtime.exposition import exposition
from endpointd.controllers.mirroring.controller import EndpointSliceMirroringController, MirroringSettings
from endpointd.controllers.mirroring.metrics import MirroringMetrics
from endpointd.controllers.mirroring.plan import MirrorCounts
from endpointd.controllers.slice_writes import SliceWrites
from tests.differential.metrics_text import parse_metrics

pytestmark = pytest.mark.usefixtures("both_answers")

PREFIX = "endpoint_slice_mirroring_controller_"


class CountedWorld(World):
    """A world with metrics on its controller."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics = MirroringMetrics()
        self.controller = EndpointSliceMirroringController(
            services=self.services,
            endpoints=self.endpoints,
            slices=self.slices,
            writer=self.server,
            queue=self.queue,
            recorder=self,
            clock=self.clock,
            settings=MirroringSettings(),
            observer=self.metrics,
        )

    def values(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        text = exposition(self.metrics.families()).decode()
        return {name.removeprefix(PREFIX): metric.values for name, metric in parse_metrics(text).items()}


async def test_mirrored_changed_and_removed_endpoints_are_counted() -> None:
    world = CountedWorld()
    world.put_service(make_plain_service())
    world.start()
    item = make_endpoints(subset("10.0.0.1", "10.0.0.2", "nonsense", "fd00::1", ports=(HTTP,)))
    world.put(item)
    await world.settle()
    assert world.values()["endpoints_added_per_sync"] == {(): 3}
    assert world.values()["addresses_skipped_per_sync"] == {(): 1}
    assert (world.metrics.endpoints, world.metrics.slices, world.metrics.slices_desired) == (3, 2, 2)
    assert world.metrics.changes == {"create": 2, "update": 0, "delete": 0}
    world.put(change(item, subsets=(subset("10.0.0.2", "10.0.0.3", ports=(HTTP,)),)))
    await world.settle()
    assert world.values()["endpoints_added_per_sync"] == {(): 4}
    assert world.values()["endpoints_removed_per_sync"] == {(): 2}
    assert (world.metrics.endpoints, world.metrics.slices, world.metrics.slices_desired) == (2, 1, 1)
    assert world.metrics.changes == {"create": 2, "update": 1, "delete": 1}
    world.put(change(item, labels={"endpointslice.kubernetes.io/skip-mirror": "true"}))
    await world.settle()
    assert (world.metrics.endpoints, world.metrics.slices, world.metrics.slices_desired) == (0, 0, 0)
    assert world.metrics.changes["delete"] == 1  # those of a clean-up are not counted (M-10)
    assert world.metrics.seconds.count >= 3


def test_new_counts_of_a_key_replace_its_previous_ones() -> None:
    # Upstream's own test of its sums (behaviour 5.7): desired, actual, endpoints.
    metrics = MirroringMetrics()
    other = ObjectKey("default", "other")
    steps = [
        (WEB, (2, 13, 30), (2, 13, 30)),
        (other, (2, 2, 80), (4, 15, 110)),
        (WEB, (4, 26, 60), (6, 28, 140)),
        (other, (2, 0, 130), (6, 26, 190)),
    ]
    for key, (desired, actual, endpoints), expected in steps:
        metrics.planned(key, MirrorCounts(endpoints=endpoints, slices_desired=desired, slices_actual=actual))
        assert (metrics.slices_desired, metrics.slices, metrics.endpoints) == expected
    for key in (other, other, ObjectKey("default", "unheard-of")):
        metrics.forgot(key)
    assert (metrics.slices_desired, metrics.slices, metrics.endpoints) == (4, 26, 60)


def test_writes_that_failed_are_not_counted() -> None:
    metrics = MirroringMetrics()
    metrics.wrote(SliceWrites(created=1, updated=2, deleted=3))
    assert metrics.changes == {"create": 1, "update": 2, "delete": 3}


def test_all_metrics_exist_from_the_start() -> None:
    metrics = parse_metrics(exposition(MirroringMetrics().families()).decode())
    assert {value for metric in metrics.values() for value in metric.values.values()} == {0}
    assert metrics[f"{PREFIX}changes"].values.keys() == {
        (("operation", "create"),),
        (("operation", "update"),),
        (("operation", "delete"),),
    }
    assert metrics[f"{PREFIX}endpoints_sync_duration"].bounds[0] == "0.001"
    assert metrics[f"{PREFIX}endpoints_sync_duration"].bounds[-2:] == ("16.384", "+Inf")
    assert metrics[f"{PREFIX}endpoints_added_per_sync"].bounds[-2:] == ("32768", "+Inf")
