"""The reasons that explain gives for unpublished pods."""

from datetime import UTC, datetime

import pytest

from aiokube.testing.builders import make_node, make_pod, make_service
from endpointd.diagnose.reasons import pod_reasons

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ips", "weight"),
    [(("169.254.1.1",), "out"), (("169.254.1.1", "10.0.0.1"), "note"), (("169.254.1.1", "fd00::1"), "out")],
)
def test_an_address_that_the_server_rejects_is_named_with_its_range(
    ips: tuple[str, ...], weight: str
) -> None:
    (reason,) = pod_reasons(make_service(), make_pod("web-1", *ips), None, make_node(), NOW)
    assert (reason.code, reason.weight) == ("AddressRejected", weight)
    assert "the pod's address 169.254.1.1 (link-local): it is omitted" in reason.text
    assert reason.fix
