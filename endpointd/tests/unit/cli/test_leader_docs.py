"""The leader election guide matches the code."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiokube.runtime import leader_election, leader_election_fence, leader_election_machine
from endpointd.cli.run import run

PAGE = (Path(__file__).parents[4] / "docs/guide/leader-election.md").read_text()


def test_every_flag_is_in_the_table_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `(--leader-elect[a-z-]*)` \| `([^`]*)` \|", PAGE, flags=re.MULTILINE))
    flags: dict[str, Any] = {
        option.opts[0]: option.default for option in run.params if option.opts[0].startswith("--leader-elect")
    }
    assert shown == flags


def test_the_rules_have_the_same_defaults_as_the_flags() -> None:
    rules = leader_election_machine.Rules(identity="x")
    assert (rules.lease_seconds, rules.renew_deadline_seconds, rules.retry_seconds) == (15.0, 10.0, 2.0)


@pytest.mark.parametrize("module", [leader_election, leader_election_fence, leader_election_machine])
def test_the_imports_of_the_example_exist(module: Any) -> None:
    (names,) = re.findall(rf"^from {re.escape(module.__name__)} import (.*)$", PAGE, flags=re.MULTILINE)
    for name in names.split(", "):
        assert hasattr(module, name)


def test_a_lease_has_no_field_that_upstream_does_not_have() -> None:
    from aiokube.api.coordination import LeaseSpec

    assert [field.encode_name for field in msgspec.structs.fields(LeaseSpec)] == [
        "holderIdentity",
        "leaseDurationSeconds",
        "acquireTime",
        "renewTime",
        "leaseTransitions",
        "strategy",
        "preferredHolder",
    ]
