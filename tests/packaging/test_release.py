"""What a release is checked and described by: the audit's verdict, and the statement on its files."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scripts.audit import verdict
from scripts.provenance import statement

CLEAN = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
SKIPPED = {"name": "aiokube", "skip_reason": "not found"}
VULNERABLE = {
    "name": "pyyaml",
    "version": "5.3",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["5.4"]}],
}


@pytest.mark.parametrize(
    ("dependencies", "is_required", "code", "line"),
    [
        ([CLEAN, CLEAN], True, 0, "2 dependencies audited, 0 advisories"),
        ([CLEAN, VULNERABLE], False, 1, "pyyaml 5.3: PYSEC-1, fixed in 5.4"),
        (
            [SKIPPED, SKIPPED],
            False,
            0,
            "SKIPPED: the advisory database cannot be reached, no dependency was audited",
        ),
        ([SKIPPED, SKIPPED], True, 1, "0 dependencies audited, 0 advisories"),
        ([CLEAN, SKIPPED], False, 0, "not audited, the advisory database does not know them: aiokube"),
        ([CLEAN, SKIPPED], True, 1, "1 dependencies audited, 0 advisories"),
    ],
)
def test_an_empty_dependency_audit_is_reported_and_fails_a_release(
    dependencies: list[dict[str, Any]], is_required: bool, code: int, line: str
) -> None:
    found, lines = verdict(dependencies, is_required=is_required)
    assert (found, line in lines) == (code, True)


def test_the_provenance_names_every_file_its_commit_and_the_locks_by_digest(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "SHA256SUMS").write_text("of an earlier run")
    made = statement(tmp_path, source="git+https://example.org/x", commit="c0ffee", committed_at="1")
    assert made["subject"] == [{"name": "a.whl", "digest": {"sha256": hashlib.sha256(b"wheel").hexdigest()}}]
    source, *locks = made["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source == {"uri": "git+https://example.org/x", "digest": {"gitCommit": "c0ffee"}}
    assert [lock["uri"] for lock in locks] == [
        "requirements/run.lock",
        "requirements/dev.lock",
        "deploy/Containerfile",
    ]
