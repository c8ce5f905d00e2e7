"""The endpoints named by a 422 response, and their Events."""

import re

import pytest

from aiokube.api.meta import ObjectReference
from aiokube.api.status import Status, StatusCause, StatusDetails
from aiokube.client.errors import ApiError, ConnectionFailedError, api_error
from aiokube.testing.builders import make_service
from endpointd.controllers.rejections import Rejections, invalid_fields, rejection_families, single_faults

FIELD = re.compile(r"endpoints\[(\d+)\]")
WEB, API = make_service("web"), make_service("api")


def refusal(*fields: str, code: int = 422) -> ApiError:
    causes = tuple(
        StatusCause(reason="FieldValueInvalid", message="no\n good", field=field) for field in fields
    )
    return api_error(Status(code=code, details=StatusDetails(causes=causes)))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("endpoints[3].addresses[0]", "endpoints[12].hostname"), ["3", "12"]),
        (refusal("ports[0].name", "metadata.endpoints[1]", ""), []),
        (refusal("endpoints[3].addresses[0]", code=403), []),
        (api_error(Status(code=422)), []),
        (ConnectionFailedError("gone"), []),
    ],
)
def test_rejected_endpoints_are_read_from_a_422(error: ApiError, expected: list[str]) -> None:
    found = list(invalid_fields(error, FIELD))
    assert [match[1] for match, _ in found] == expected
    assert all(problem == "no good" for _, problem in found)


@pytest.mark.parametrize(
    ("rejected", "count", "isolated"), [(1, 1, 1), (1, 2, 1), (2, 4, 2), (2, 3, 0), (5, 9, 0)]
)
def test_a_rejection_of_most_endpoints_isolates_none(rejected: int, count: int, isolated: int) -> None:
    assert len(single_faults(dict.fromkeys(range(rejected), "no"), count)) == isolated


class Events:
    def __init__(self) -> None:
        self.told: list[tuple[str | None, str, str]] = []

    def event(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.told.append((regarding.name, reason, message))


def test_each_rejection_is_reported_once_per_reason_and_counted_while_it_lasts() -> None:
    events = Events()
    rejections = Rejections(events)
    rejections.record(WEB, "a", None)
    rejections.record(WEB, "a", "too odd")
    rejections.record(WEB, "a", "too odd")
    rejections.record(API, "a", "too odd")
    rejections.record(WEB, "a", "too even")
    text = "Pod default/a is omitted because the API server rejects its endpoint: "
    assert events.told == [
        ("web", "EndpointRejected", text + "too odd"),
        ("api", "EndpointRejected", text + "too odd"),
        ("web", "EndpointRejected", text + "too even"),
    ]
    (family,) = rejection_families([("slices", rejections)])
    assert [(sample.value, sample.labels) for sample in family.samples] == [(2, (("controller", "slices"),))]
    rejections.record(WEB, "b", "too odd")
    rejections.retain(WEB, {"b"}.__contains__)
    assert (len(rejections), len(events.told)) == (2, 4)
    rejections.retain(WEB, {"c"}.__contains__)
    rejections.record(API, "a", None)
    assert len(rejections) == 0
    rejections.record(API, "a", "too odd")
    rejections.forget(API.metadata.key)
    rejections.forget(API.metadata.key)
    assert len(rejections) == 0
