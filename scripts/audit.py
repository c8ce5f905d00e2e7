"""Check the locked dependencies against the known advisories: ``make audit``.

Exit code 0: no advisory, or nothing could be audited, which is said; 1: a dependency has an advisory. With ``AUDIT_REQUIRED=1`` a
dependency that could not be audited is an error, too: releases are made so.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = [ROOT / "requirements" / f"{name}.lock" for name in ("run", "dev")]


def verdict(dependencies: list[dict[str, Any]], *, is_required: bool) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print for pip-audit's report.

    pip-audit itself calls a package that the advisory database does not answer for "not found", and succeeds.
    """
    skipped = [entry["name"] for entry in dependencies if "skip_reason" in entry]
    found = [
        f"{entry['name']} {entry['version']}: {advisory['id']}, fixed in {', '.join(advisory['fix_versions']) or 'no version'}"
        for entry in dependencies
        for advisory in entry.get("vulns", ())
    ]
    lines = [*found]
    if skipped and len(skipped) == len(dependencies):
        lines.append("SKIPPED: the advisory database cannot be reached, no dependency was audited")
    elif skipped:
        lines.append(f"not audited, the advisory database does not know them: {', '.join(skipped)}")
    lines.append(f"{len(dependencies) - len(skipped)} dependencies audited, {len(found)} advisories")
    return (1 if found or (skipped and is_required) else 0), lines


def audit(lock: Path) -> list[dict[str, Any]] | None:
    """Return pip-audit's report on a lock file, None where it cannot reach its database."""
    command = [
        "-r",
        str(lock),
        "--require-hashes",
        "--disable-pip",
        "--progress-spinner=off",
        "--format=json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", *command, "--timeout=10"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    try:
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return dependencies


def main() -> int:
    """Audit all lock files; return the exit code."""
    is_required = os.environ.get("AUDIT_REQUIRED") == "1"
    code = 0
    for lock in LOCKS:
        dependencies = audit(lock)
        if dependencies is None:
            print(f"{lock.name}: SKIPPED: pip-audit could not run (above: why)")
            code |= is_required
            continue
        outcome, lines = verdict(dependencies, is_required=is_required)
        code |= outcome
        for line in lines:
            print(f"{lock.name}: {line}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
