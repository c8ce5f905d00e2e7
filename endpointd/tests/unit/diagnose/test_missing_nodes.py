"""Answers about pods of a missing Node agree with the controller (S-31.4)."""

import asyncio
import logging
from datetime import UTC, datetime

import pytest
from tests.support.slice_world import SliceWorld
from tests.unit.diagnose.test_shadow import POD, Bed, a_bed, told

from aiokube.api.discovery import ENDPOINT_SLICES
from aiokube.api.meta import ObjectKey
from aiokube.testing.builders import make_node, make_pod, make_service
from endpointd.diagnose.changes import changes_of_all
from endpointd.diagnose.check import check
from endpointd.diagnose.explain import explain_service
from endpointd.diagnose.snapshot import ClusterIndex, Snapshot

WEB = ObjectKey("default", "web")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seen(cluster: SliceWorld) -> ClusterIndex:
    """Return the cluster as a command that just read it sees it."""
    return ClusterIndex(
        Snapshot(
            services=tuple(cluster.services.values()),
            pods=tuple(cluster.pods.values()),
            nodes=tuple(cluster.nodes.values()),
            slices=tuple(cluster.server.objects(ENDPOINT_SLICES).values()),
        )
    )


def verdicts(cluster: SliceWorld) -> dict[str, tuple[str, list[str]]]:
    explained = explain_service(seen(cluster), WEB, now=NOW)
    return {one.pod: (one.verdict, [reason.code for reason in one.reasons]) for one in explained.pods}


def findings(cluster: SliceWorld) -> list[str]:
    return [one.code for one in check(seen(cluster)).findings if one.kind == "EndpointSlice"]


async def test_explain_check_and_diff_agree_with_the_controller_about_a_missing_node() -> None:
    cluster = SliceWorld()
    cluster.put(make_node(), make_service(), make_pod("a"), make_pod("b", "10.0.0.2", node_name="nowhere"))
    cluster.start()
    await cluster.settle()
    never = ("out", ["NodeMissing"])
    assert verdicts(cluster) == {"a": ("ready", []), "b": never}
    cluster.remove(make_node())
    await cluster.settle()
    assert verdicts(cluster) == {"a": ("ready", ["NodeMissing"]), "b": never}
    assert findings(cluster) == []
    assert not list(changes_of_all(seen(cluster), controllers=frozenset(["endpointslice"])))
    cluster.advance(60)
    await cluster.settle()
    assert verdicts(cluster) == {"a": never, "b": never}
    assert findings(cluster) == []
    assert not list(changes_of_all(seen(cluster), controllers=frozenset(["endpointslice"])))


@pytest.mark.parametrize("at_start", [False, True])
def test_shadow_mode_expects_pods_of_a_missing_node_to_go_after_the_grace_period(
    at_start: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bed: Bed = a_bed()
    if at_start:
        bed.drop(make_node())

    async def scenario() -> None:
        if not at_start:
            await asyncio.sleep(10.0)
            bed.drop(make_node())
        await asyncio.sleep(55.0)
        bed.put(POD)
        await asyncio.sleep(9.9)  # a minute of the node's grace, and five seconds of the difference's
        assert told(caplog, "difference found") == []
        await asyncio.sleep(2.0)
        assert len(told(caplog, "difference found")) == 1
        bed.put(make_node())
        await asyncio.sleep(2.0)
        assert len(told(caplog, "difference resolved")) == 1

    bed.run(scenario)
