"""The selection of conformance specs, and the parsing of the program's output."""

from tests.conformance.specs import (
    CONTAINER,
    Result,
    conformance_specs,
    outcome_of,
    reason_left_out,
    table,
)

LISTING = """
The following spec names can be used with 'ginkgo run --focus/skip':
    k8s.io/kubernetes@v1.36.3/test/e2e/a.go:1: [sig-apps] Deployment should roll [Conformance]
    k8s.io/kubernetes@v1.36.3/test/e2e/b.go:2: [sig-apps] Deployment should not be conformance
    k8s.io/kubernetes@v1.36.3/test/e2e/c.go:3: [sig-node] Probing container should probe [NodeConformance] [Conformance]
"""


def test_only_conformance_specs_are_selected_from_the_listing() -> None:
    assert conformance_specs(LISTING) == [
        "[sig-apps] Deployment should roll [Conformance]",
        "[sig-node] Probing container should probe [NodeConformance] [Conformance]",
    ]


def test_a_spec_that_needs_a_container_is_excluded_with_that_reason() -> None:
    first, second = conformance_specs(LISTING)
    assert reason_left_out(first) == ""
    assert reason_left_out(second) == CONTAINER


def test_outcomes_and_failure_reasons_are_read_from_the_log() -> None:
    failed = "  [FAILED] in [It] - a.go:1 @ 11/22\n  [FAILED] Expected 1 to be 2\n  In [It] at: a.go:1\n"
    assert outcome_of(failed, 1) == ("failed", "Expected 1 to be 2")
    assert outcome_of("Ran 1 of 9 Specs\nSUCCESS! -- 1 Passed | 0 Failed", 0) == ("passed", "")
    assert outcome_of("  [SKIPPED] no IPv6\n", 0) == ("skipped", "no IPv6")
    assert outcome_of("nothing yet", None) == ("timed out", "")


def test_the_table_counts_outcomes_and_names_specs_that_did_not_pass() -> None:
    results = [
        Result("[sig-apps] a [Conformance]", "passed", 1.0),
        Result("[sig-apps] b", "failed", 2.0, "why"),
    ]
    text = table(results, [("c", CONTAINER)])
    assert text.startswith("1 of 2 specs passed; 1 of 3 left out")
    assert "failed         2 s  [sig-apps] b\n                     why" in text
    assert f"    1  {CONTAINER}" in text
