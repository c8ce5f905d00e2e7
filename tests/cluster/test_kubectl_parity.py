"""The same kubectl commands in the same order give the same answers on kube-apiserver and the embedded server.

Neither server has controllers or simulated nodes, so the commands determine every outcome.
"""

import difflib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from tests.cluster.kubectl_cases import CASES
from tests.cluster.kubectl_differences import ALIKE, REASONS
from tests.cluster.kubectl_driver import Kubectl, Outcome, Pair, Step, kubectl_on_both, run_case, run_cases
from tests.cluster.kubectl_manifests import FILES
from tinykube.testing.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "kubectl.md"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A separate control plane: kinds, namespaces and events of other tests would appear in the output."""
    with ControlPlane() as plane:
        yield plane


@pytest_asyncio.fixture
async def both(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Kubectl, Kubectl]]:
    """kubectl for the real and the embedded server."""
    with kubectl_on_both(control_plane, tmp_path, FILES) as both:
        yield both


def judged(pairs: list[Pair]) -> list[str]:
    """Return the problems as text: unexplained differences, and explanations that no step needs."""
    wrong = []
    for pair in pairs:
        title = f"{pair.case}: kubectl {pair.step.line}"
        if pair.step.differs and pair.real == pair.ours:
            wrong.append(f"{title}\n    no longer differs: take the reason {pair.step.differs!r} away")
            continue
        real, ours = (_without_the_difference(outcome, pair.step) for outcome in (pair.real, pair.ours))
        if real != ours:
            lines = difflib.unified_diff(
                str(real).splitlines(), str(ours).splitlines(), "real", "ours", lineterm="", n=1
            )
            wrong.append("\n    ".join([title, *lines]))
    return wrong


def _without_the_difference(outcome: Outcome, step: Step) -> Outcome | None:
    """Return the part of an outcome that must be equal; None if it cannot be separated from the known difference."""
    if not step.differs:
        return outcome
    alike = ALIKE.get(step.differs)
    return replace(outcome, out=alike(outcome.out)) if alike else None


async def test_every_command_has_the_same_exit_code_and_output(
    both: tuple[Kubectl, Kubectl], capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = await run_cases(CASES, *both)
    explained = sum(bool(pair.step.differs) for pair in pairs)
    with capsys.disabled():
        print(f"\n  {len(pairs)} commands on both servers, {explained} of them with a known difference")
    assert len(pairs) > 500
    wrong = judged(pairs)
    assert not wrong, "\n\n".join([f"{len(wrong)} of {len(pairs)} commands:", *wrong])


async def test_differences_are_detected(both: tuple[Kubectl, Kubectl]) -> None:
    steps = (
        Step("version"),
        Step("cluster-info", differs="uid"),
        Step("version --client=false", differs="descriptions"),
    )
    pairs = await run_case(replace(CASES[-1], name="found", steps=steps), *both)
    wrong = judged(pairs)
    assert [
        "kubectl version" in wrong[0],
        "no longer differs" in wrong[1],
        "version --client" in wrong[2],
    ] == [
        True,
        True,
        True,
    ]


async def test_the_listed_resources_are_a_subset_of_those_of_the_real_server(
    both: tuple[Kubectl, Kubectl],
) -> None:
    """Every missing kind is explained; existing ones have the same names, short names, versions, scopes and kinds."""
    steps = (Step("api-resources --no-headers"), Step("api-versions"))
    for pair in await run_case(replace(CASES[-1], name="resources", steps=steps, namespace=False), *both):
        assert not set(pair.ours.out.splitlines()) - set(pair.real.out.splitlines())


def test_every_reason_is_used_and_documented() -> None:
    used = {step.differs for case in CASES for step in case.steps if step.differs}
    assert used == set(REASONS)
    document = DOCUMENT.read_text()
    assert not [reason for reason in REASONS if f"**{reason}**" not in document]
