"""`kubectl logs` on the embedded server: lines of a log source, selected by the request's options."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.server.http.served import ServedApi, a_server

POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}}
LOG = "/api/v1/namespaces/default/pods/p/log"


def three_lines(
    pod: dict[str, Any], container: str, previous: bool, now: datetime
) -> Sequence[tuple[datetime, str]]:
    run = "last" if previous else "this"
    return [(now - timedelta(seconds=age), f"{container} {run} run, {age} s ago") for age in (100, 20, 5)]


async def run_pod(api: ServedApi, **state: Any) -> None:
    assert (await api("POST", "/api/v1/namespaces/default/pods", POD)).code == 201
    status = {
        "containerStatuses": [
            {"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 0, **state}
        ]
    }
    patched = await api(
        "PATCH",
        "/api/v1/namespaces/default/pods/p/status",
        {"status": status},
        Content_Type="application/merge-patch+json",
    )
    assert patched.code == 200, patched.body


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("query", "ages"),
    [("", [100, 20, 5]), ("?tailLines=1", [5]), ("?tailLines=0", []), ("?sinceSeconds=60", [20, 5])],
)
async def test_log_options_select_the_lines(query: str, ages: list[int]) -> None:
    async with a_server(pod_logs=three_lines) as api:
        await run_pod(api, state=RUNNING)
        answer = await api("GET", LOG + query)
    assert (answer.code, answer.headers["Content-Type"]) == (200, "text/plain")
    assert answer.body.decode().splitlines() == [f"c this run, {age} s ago" for age in ages]


async def test_the_previous_log_of_a_container_that_never_terminated_is_rejected() -> None:
    async with a_server(pod_logs=three_lines) as api:
        await run_pod(api, state=RUNNING)
        answer = await api("GET", LOG + "?previous=true")
        assert (answer.code, answer.json()["message"]) == (
            400,
            'previous terminated container "c" in pod "p" not found',
        )
        answer = await api("GET", LOG + "?container=other")
        assert (answer.code, answer.json()["message"]) == (400, "container other is not valid for pod p")


async def test_a_waiting_container_has_no_log_yet() -> None:
    async with a_server(pod_logs=three_lines) as api:
        await run_pod(api, state={"waiting": {"reason": "ContainerCreating"}})
        answer = await api("GET", LOG)
    assert answer.json()["message"] == 'container "c" in pod "p" is waiting to start: ContainerCreating'


async def test_logs_are_not_found_without_a_log_source() -> None:
    async with a_server() as api:
        await run_pod(api, state=RUNNING)
        assert (await api("GET", LOG)).code == 404
