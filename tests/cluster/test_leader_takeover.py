"""In every failure of a leader, two replicas never write concurrently, and the next one takes over in time."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster.leader_support import CLOCK, Churn, Relay, Replicas, grant, until
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SHORT = (4.0, 3.0, 1.0)
DEFAULTS = (15.0, 10.0, 2.0)
TAKEOVER_MARGIN_SECONDS = 3.0

Make = Callable[[str, tuple[float, float, float]], Replicas]


@pytest.fixture
def replicas(
    control_plane: ControlPlane, endpointd_command: tuple[str, ...], tmp_path: Path
) -> Iterator[Make]:
    """Create replicas for a lease, with the permissions of the guide."""
    made: list[Replicas] = []

    def make(lease: str, times: tuple[float, float, float]) -> Replicas:
        new = Replicas(control_plane, endpointd_command, tmp_path, lease=lease, times=times)
        grant(control_plane, [new.user(name) for name in ("one", "two", "three")])
        made.append(new)
        return new

    yield make
    for each in made:
        each.kill_all()


async def two_under_churn(replicas: Replicas, port: int | None = None) -> None:
    """Let the first replica lead and write, and the second wait."""
    replicas.start("one", port=port)
    await replicas.leads("one")
    replicas.start("two")
    await replicas.waits("two")
    await until(lambda: replicas.wrote("one"), within=20, what="writing")
    await CLOCK.sleep(1.0)


def tell(capsys: pytest.CaptureFixture[str], what: str, seconds: float, replicas: Replicas) -> None:
    count = len(replicas.writes())
    with capsys.disabled():
        print(
            f"\n  {what}: takeover after {seconds:.2f} s of a lease of {replicas.times[0]:g} s, {count} writes"
        )


async def test_after_kill_9_the_standby_writes_once_the_lease_has_expired(
    control_plane: ControlPlane, replicas: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = replicas("killed", SHORT)
    churn = Churn(control_plane, "leader-killed")
    async with churn.running():
        await two_under_churn(pair)
        begun = CLOCK.wall()
        pair.processes["one"].kill()
        await until(lambda: pair.wrote("two"), within=20, what="taken over")
        await CLOCK.sleep(1.0)
        await churn.rest()
        await churn.assert_published()
        seconds = pair.takeover_seconds("two", begun)
        tell(capsys, "kill -9", seconds, pair)
        assert seconds <= SHORT[0] + TAKEOVER_MARGIN_SECONDS
        pair.assert_never_two("one", "two")


async def test_a_process_suspended_for_longer_than_its_lease_writes_nothing_when_resumed(
    control_plane: ControlPlane, replicas: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the default times, for 40 seconds; its workers are writing when it is stopped."""
    pair = replicas("paused", DEFAULTS)
    churn = Churn(control_plane, "leader-paused")
    async with churn.running():
        await two_under_churn(pair)
        process = pair.processes["one"]
        begun = CLOCK.wall()
        stopped_at = CLOCK.monotonic()
        process.pause()
        await until(lambda: pair.wrote("two"), within=40, what="taken over")
        seconds = pair.takeover_seconds("two", begun)
        await CLOCK.sleep(max(0.0, stopped_at + 40.0 - CLOCK.monotonic()))
        resumed = CLOCK.wall()
        process.resume()
        await until(lambda: not process.is_running, within=20, what="ended")
        assert process.exit_code == 1
        await churn.rest()
        await churn.assert_published()
        tell(capsys, "SIGSTOP", seconds, pair)
        assert seconds <= DEFAULTS[0] + TAKEOVER_MARGIN_SECONDS
        assert not pair.wrote("one", since=resumed)
        pair.assert_never_two("one", "two")
    lines = [line for line in process.log().splitlines() if "restart to become a candidate again" in line]
    assert len(lines) == 1
    assert "is lost: not renewed within 10 s" in lines[0]
    assert "Traceback" not in process.log()


async def test_a_leader_without_connection_stops_before_the_next_one_starts(
    control_plane: ControlPlane, replicas: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = replicas("cut-off", SHORT)
    churn = Churn(control_plane, "leader-cut-off")
    address = urlsplit(control_plane.url)
    assert address.hostname
    assert address.port
    relay = Relay(address.hostname, address.port)
    async with relay.running(), churn.running():
        await two_under_churn(pair, relay.port)
        process = pair.processes["one"]
        begun = CLOCK.wall()
        relay.cut()
        await until(lambda: "is lost: not renewed within 3 s" in process.log(), within=20, what="lost")
        await until(lambda: pair.wrote("two"), within=20, what="taken over")
        await until(lambda: not process.is_running, within=20, what="ended")
        assert process.exit_code == 1
        assert "Traceback" not in process.log()
        await churn.rest()
        await churn.assert_published()
        seconds = pair.takeover_seconds("two", begun)
        tell(capsys, "cut off", seconds, pair)
        assert seconds <= SHORT[0] + TAKEOVER_MARGIN_SECONDS
        pair.assert_never_two("one", "two")


async def test_a_regular_exit_hands_over_without_waiting_for_lease_expiry(
    control_plane: ControlPlane, replicas: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rolling update: with a lease of a minute, no replica waits for its expiry."""
    pair = replicas("handed-over", (60.0, 30.0, 1.0))
    churn = Churn(control_plane, "leader-handed-over")
    async with churn.running():
        await two_under_churn(pair)
        begun = CLOCK.wall()
        pair.processes["one"].signal(signal.SIGTERM)
        await until(lambda: pair.wrote("two"), within=20, what="taken over")
        assert pair.processes["one"].wait(20) == 0
        await churn.rest()
        await churn.assert_published()
        seconds = pair.takeover_seconds("two", begun)
        tell(capsys, "SIGTERM", seconds, pair)
        assert seconds < 10
        pair.assert_never_two("one", "two")
        pair.start("three")
        await pair.waits("three")
        pair.processes["three"].signal(signal.SIGTERM)  # a waiting replica holds no lease to release
        assert pair.processes["three"].wait(20) == 0
        assert not pair.wrote("three")
        assert pair.record()["leaseTransitions"] == 1
        pair.processes["two"].signal(signal.SIGTERM)
        assert pair.processes["two"].wait(20) == 0
    assert pair.record()["holderIdentity"] == ""
    assert pair.record()["leaseDurationSeconds"] == 1
    events = control_plane.kubectl(
        "get",
        "events",
        "-n",
        "kube-system",
        "-o",
        "jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{'\\n'}{end}",
    )
    told = [
        line.split()[3:] for line in events.splitlines() if line.startswith("handed-over LeaderElection ")
    ]
    assert sorted(told) == [["became", "leader"]] * 2 + [["stopped", "leading"]] * 2
