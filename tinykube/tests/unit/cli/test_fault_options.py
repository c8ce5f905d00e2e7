"""``--fault NAME,KEY=VALUE,...``: valid and invalid values; errors have one line."""

import click
import pytest

from tinykube import Fault, Faults
from tinykube.cli.fault_options import add_faults, parse_fault


def test_a_fault_option_is_parsed_with_its_parameters_and_scope() -> None:
    fault, scope = parse_fault("refuse,code=429,retry-after=2,verb=list,resource=pods,times=3")
    assert fault == Fault(name="refuse", code=429, retry_after_seconds=2)
    assert scope == {"verb": "list", "resource": "pods", "times": 3}


def test_delay_defaults_to_one_second() -> None:
    assert parse_fault("delay")[0].seconds == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("explode", "unknown fault 'explode'"),
        ("delay,second=1", "unknown key 'second'"),
        ("delay,seconds=soon", "seconds must be a number, not 'soon'"),
        ("refuse,code=200", "code must be one of"),
        ("delay,verb=peek", "unknown verb 'peek'"),
    ],
)
def test_malformed_values_are_rejected(text: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        add_faults(Faults(), [text], 0.0, 0)


def test_a_rate_adds_random_faults() -> None:
    faults = Faults()
    add_faults(faults, [], 0.5, 3)
    assert len(faults.rules) == 1
